/* SPDX-License-Identifier: MIT */
/* base/chunk.c: where its bytes begin. */
#include "base/chunk.h"

#include "check.h"

static void test_bytes_begin_a_little_into_a_page_with_room_before_them(void **state)
{
    static const size_t sizes[] = {1, 4096, 65536, 262144};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        void *memory = NULL;
        unsigned char *bytes = chunk_new(sizes[i], &memory);
        assert_non_null(bytes);
        assert_int_equal((uintptr_t)bytes % 4096, CHUNK_APART);
        assert_true(bytes - CHUNK_APART >= (unsigned char *)memory);
        memset(bytes - CHUNK_APART, 'x', CHUNK_APART + sizes[i]);
        free(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_begin_a_little_into_a_page_with_room_before_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
