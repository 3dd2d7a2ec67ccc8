/* SPDX-License-Identifier: MIT */
/* base/error.c: the text of an error is one safe line, and the value returned is never 0. */
#include "base/error.h"

#include <errno.h>

#include "base/text.h"
#include "check.h"

static void test_an_error_carries_fault_stage_and_errno(void **state)
{
    struct brig_error err;
    assert_int_equal(error_system(&err, "spawn", ENOSPC, "no %s for %d", "room", 7), -ENOSPC);
    assert_int_equal(err.fault, BRIG_FAULT_SYSTEM);
    assert_int_equal(err.errnum, ENOSPC);
    assert_string_equal(err.stage, "spawn");
    assert_string_equal(err.text, "no room for 7");
}

static void test_an_error_without_errno_is_einval(void **state)
{
    struct brig_error err;
    assert_int_equal(error_usage(&err, "spec", "bad"), -EINVAL);
    assert_int_equal(err.fault, BRIG_FAULT_USAGE);
    assert_int_equal(err.errnum, 0);
    assert_int_equal(error_refused(&err, "plan", "no"), -EINVAL);
    assert_int_equal(err.fault, BRIG_FAULT_REFUSED);
    assert_int_equal(error_memory(&err, "plan"), -ENOMEM);
}

static void test_nobody_has_to_want_the_error(void **state)
{
    assert_int_equal(error_usage(NULL, "spec", "%s", "bad"), -EINVAL);
    assert_int_equal(error_system(NULL, "spec", EIO, "bad"), -EIO);
}

static void test_bytes_of_any_origin_are_safe_in_it(void **state)
{
    struct brig_error err;
    error_usage(&err, "spec", "%s", "a\nb\x1b[31m\xff\xc2\x9b");
    assert_string_equal(err.text, "a\\x0ab\\x1b[31m\\xff\\xc2\\x9b");
}

static void test_a_long_text_is_cut_and_ended(void **state)
{
    struct brig_error err;
    char text[2000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    error_usage(&err, "spec", "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void test_escapes_do_not_make_it_longer_than_its_room(void **state)
{
    struct brig_error err;
    char text[2000];
    memset(text, '\x01', sizeof text);
    text[sizeof text - 1] = 0;
    error_usage(&err, "spec", "%s", text);
    assert_int_equal(strlen(err.text), (sizeof err.text - 1) / 4 * 4);
}

/* The characters are two bytes long: whatever stands before them, one would be cut. */
static void test_a_long_text_is_not_cut_in_a_character(void **state)
{
    struct brig_error err;
    char text[2001];
    for (size_t i = 0; i < 1000; i++)
        memcpy(text + 2 * i, "\xc3\xa9", 2);
    text[2000] = 0;
    for (int before = 0; before < 2; before++) {
        error_usage(&err, "spec", "%s%s", before ? "x" : "", text);
        assert_true(text_is_utf8((const unsigned char *)err.text, strlen(err.text)));
        assert_null(strchr(err.text, '\\'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_error_carries_fault_stage_and_errno),
        cmocka_unit_test(test_an_error_without_errno_is_einval),
        cmocka_unit_test(test_nobody_has_to_want_the_error),
        cmocka_unit_test(test_bytes_of_any_origin_are_safe_in_it),
        cmocka_unit_test(test_a_long_text_is_cut_and_ended),
        cmocka_unit_test(test_escapes_do_not_make_it_longer_than_its_room),
        cmocka_unit_test(test_a_long_text_is_not_cut_in_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
