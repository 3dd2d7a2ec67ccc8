/* SPDX-License-Identifier: MIT */
/* base/buf.c: the maximum holds to the byte, the first failure stays, and what is taken is the
 * caller's. */
#include "base/buf.h"

#include <errno.h>

#include "check.h"

static void test_new_buffer_takes_as_an_empty_string(void **state)
{
    struct buf buf;
    size_t len = 99;
    buf_init(&buf, 10);
    char *text = buf_take(&buf, &len);
    assert_non_null(text);
    assert_string_equal(text, "");
    assert_int_equal(len, 0);
    free(text);
}

static void test_buffer_holds_its_maximum_and_not_a_byte_more(void **state)
{
    for (size_t max = 0; max < 600; max++) {
        struct buf buf;
        buf_init(&buf, max);
        for (size_t i = 0; i < max; i++)
            buf_add(&buf, "x", 1);
        assert_int_equal(buf_failed(&buf), 0);
        assert_int_equal(buf.len, max);
        buf_add(&buf, "y", 1);
        assert_int_equal(buf_failed(&buf), -EFBIG);
        assert_int_equal(buf.len, max);
        buf_done(&buf);
    }
}

static void test_one_addition_may_fill_the_whole_buffer(void **state)
{
    static char bytes[5000];
    struct buf buf;
    size_t len = 0;
    buf_init(&buf, sizeof bytes);
    memset(bytes, 'z', sizeof bytes);
    buf_add(&buf, bytes, sizeof bytes);
    char *taken = buf_take(&buf, &len);
    assert_non_null(taken);
    assert_int_equal(len, sizeof bytes);
    assert_memory_equal(taken, bytes, len);
    assert_int_equal(taken[len], 0);
    free(taken);
}

static void test_failure_stays_and_drops_what_comes_later(void **state)
{
    struct buf buf;
    size_t len = 99;
    buf_init(&buf, 4);
    buf_text(&buf, "abc");
    buf_text(&buf, "de");
    assert_int_equal(buf_failed(&buf), -EFBIG);
    buf_text(&buf, "f"); /* would fit */
    buf_printf(&buf, "%d", 1);
    assert_null(buf_reserve(&buf, 1));
    assert_int_equal(buf_failed(&buf), -EFBIG);
    assert_int_equal(buf.len, 3);
    assert_null(buf_take(&buf, &len));
    assert_int_equal(len, 99);
}

static void test_a_failed_buffer_can_be_used_again_once_it_was_taken(void **state)
{
    struct buf buf;
    buf_init(&buf, 2);
    buf_text(&buf, "abc");
    assert_null(buf_take(&buf, NULL));
    assert_int_equal(buf_failed(&buf), 0);
    buf_text(&buf, "ab");
    char *text = buf_take(&buf, NULL);
    assert_string_equal(text, "ab");
    free(text);
}

static void test_taking_leaves_an_empty_buffer_of_the_same_maximum(void **state)
{
    struct buf buf;
    buf_init(&buf, 3);
    buf_text(&buf, "abc");
    free(buf_take(&buf, NULL));
    assert_null(buf.data);
    assert_int_equal(buf.len, 0);
    assert_int_equal(buf.max, 3);
    buf_text(&buf, "abcd");
    assert_int_equal(buf_failed(&buf), -EFBIG);
    buf_done(&buf);
}

static void test_printf_is_whole_or_nothing(void **state)
{
    for (size_t max = 0; max < 12; max++) {
        struct buf buf;
        buf_init(&buf, max);
        buf_printf(&buf, "%s-%d", "abc", 1234567); /* eleven bytes */
        assert_int_equal(buf.len, max >= 11 ? 11 : 0);
        assert_int_equal(buf_failed(&buf), max >= 11 ? 0 : -EFBIG);
        buf_done(&buf);
    }
}

static void test_printf_appends_at_every_fill(void **state)
{
    char expected[2048] = "";
    struct buf buf;
    buf_init(&buf, sizeof expected);
    for (int i = 0; i < 300; i++) {
        buf_printf(&buf, "%d,", i);
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%d,", i);
    }
    char *text = buf_take(&buf, NULL);
    assert_string_equal(text, expected);
    free(text);
}

static void test_bytes_may_be_nul(void **state)
{
    struct buf buf;
    size_t len = 0;
    buf_init(&buf, 8);
    buf_add(&buf, "a\0b", 3);
    char *bytes = buf_take(&buf, &len);
    assert_int_equal(len, 3);
    assert_memory_equal(bytes, "a\0b", 4);
    free(bytes);
}

static void test_reserved_room_counts_when_the_caller_says_so(void **state)
{
    struct buf buf;
    buf_init(&buf, 300);
    buf_text(&buf, "ab");
    char *at = buf_reserve(&buf, 298);
    assert_non_null(at);
    memset(at, 'c', 298);
    assert_int_equal(buf.len, 2);
    assert_null(buf_reserve(&buf, 299));
    assert_int_equal(buf_failed(&buf), -EFBIG);
    buf_done(&buf);
}

static void test_adding_nothing_is_nothing(void **state)
{
    struct buf buf;
    buf_init(&buf, 0);
    buf_add(&buf, NULL, 0);
    buf_text(&buf, "");
    assert_int_equal(buf_failed(&buf), 0);
    assert_null(buf.data);
    buf_done(&buf);
}

static void test_done_can_be_called_twice(void **state)
{
    struct buf buf;
    buf_init(&buf, 10);
    buf_text(&buf, "abc");
    buf_done(&buf);
    buf_done(&buf);
    assert_null(buf.data);
}

static void test_a_length_that_would_wrap_is_too_large(void **state)
{
    struct buf buf;
    buf_init(&buf, SIZE_MAX - 1);
    buf_text(&buf, "abc");
    assert_null(buf_reserve(&buf, SIZE_MAX));
    assert_int_equal(buf_failed(&buf), -EFBIG);
    buf_done(&buf);
}

/* pump.c passes BRIG_UNLIMITED on as the maximum of a capture; only plan.c keeps it from that. */
static void test_the_largest_maximum_is_not_taken_for_none(void **state)
{
    struct buf buf;
    buf_init(&buf, SIZE_MAX);
    buf_text(&buf, "abc");
    assert_int_equal(buf_failed(&buf), 0);
    assert_int_equal(buf.len, 3);
    buf_done(&buf);
}

/* From 8 MiB on it is mapped; what is reserved for a system call has memory behind it. */
static void test_a_large_buffer_keeps_its_bytes_and_has_its_room_at_once(void **state)
{
    enum { PIECE = 700001, COUNT_OF = 40 };
    struct buf buf;
    size_t len = 0;
    buf_init(&buf, (size_t)PIECE * COUNT_OF);
    for (int i = 0; i < COUNT_OF; i++) {
        char *at = i % 3 ? buf_reserve_now(&buf, PIECE) : buf_reserve(&buf, PIECE);
        assert_non_null(at);
        assert_ptr_equal(at, buf.data + buf.len);
        memset(at, 'a' + i % 26, PIECE);
        buf.len += PIECE;
    }
    assert_true(buf.mapped > 0);
    assert_true(buf.ready <= buf.mapped);
    assert_null(buf_reserve_now(&buf, 1));
    buf.failed = 0;
    char *bytes = buf_take(&buf, &len);
    assert_int_equal(len, (size_t)PIECE * COUNT_OF);
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != (char)('a' + i / PIECE % 26))
            fail_msg("byte %zu is %d", i, bytes[i]);
    assert_int_equal(bytes[len], 0);
    assert_int_equal(buf.mapped + buf.ready, 0);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_buffer_takes_as_an_empty_string),
        cmocka_unit_test(test_buffer_holds_its_maximum_and_not_a_byte_more),
        cmocka_unit_test(test_one_addition_may_fill_the_whole_buffer),
        cmocka_unit_test(test_failure_stays_and_drops_what_comes_later),
        cmocka_unit_test(test_a_failed_buffer_can_be_used_again_once_it_was_taken),
        cmocka_unit_test(test_taking_leaves_an_empty_buffer_of_the_same_maximum),
        cmocka_unit_test(test_printf_is_whole_or_nothing),
        cmocka_unit_test(test_printf_appends_at_every_fill),
        cmocka_unit_test(test_bytes_may_be_nul),
        cmocka_unit_test(test_reserved_room_counts_when_the_caller_says_so),
        cmocka_unit_test(test_adding_nothing_is_nothing),
        cmocka_unit_test(test_done_can_be_called_twice),
        cmocka_unit_test(test_a_length_that_would_wrap_is_too_large),
        cmocka_unit_test(test_the_largest_maximum_is_not_taken_for_none),
        cmocka_unit_test(test_a_large_buffer_keeps_its_bytes_and_has_its_room_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
