/* SPDX-License-Identifier: MIT */
/* base/jsonr.c: an object or an error that names the place, within bounds of size and depth. */
#include "base/jsonr.h"

#include "check.h"

#define MAX 65536

static struct jsonr *read_text(const char *text, struct brig_error *err)
{
    *err = (struct brig_error){0};
    return jsonr_object(text, strlen(text), MAX, "job.json", "test", err);
}

static void check_refused(const char *text, const char *why)
{
    struct brig_error err;
    assert_null(read_text(text, &err));
    assert_int_equal(err.fault, BRIG_FAULT_USAGE);
    assert_string_equal(err.stage, "test");
    assert_contains(err.text, "job.json: ");
    assert_contains(err.text, why);
}

static void test_an_object_is_read(void **state)
{
    struct brig_error err;
    struct jsonr *root = read_text(" {\"a\": [1, {\"b\": null}]}\n", &err);
    assert_non_null(root);
    assert_int_equal(root->count, 1);
    assert_int_equal(err.fault, BRIG_FAULT_NONE);
    jsonr_free(root);
}

static void test_what_is_not_an_object_is_refused(void **state)
{
    static const char *const rows[] = {"[]", "\"x\"", "1", "1.5", "null", "true", "[{}]"};
    for (size_t i = 0; i < COUNT(rows); i++)
        check_refused(rows[i], "is not a JSON object");
}

static void test_duplicates_are_refused_at_every_level(void **state)
{
    check_refused("{\"a\":1,\"a\":1}", "duplicate");
    check_refused("{\"x\":{\"a\":1,\"a\":2}}", "duplicate");
    check_refused("{\"x\":[{\"a\":1,\"a\":2}]}", "duplicate");
    check_refused("{\"a\":1,\"\\u0061\":2}", "duplicate"); /* the same name, written differently */
}

static void test_text_after_the_object_is_refused(void **state)
{
    check_refused("{} {}", "end of file expected");
    check_refused("{}x", "end of file expected");
    struct brig_error err;
    assert_null(jsonr_object("{}\0", 3, MAX, "job.json", "test", &err));
}

static void test_text_that_ends_early_is_refused(void **state)
{
    static const char *const rows[] = {"",        " ",          "{",           "{\"a\"",
                                       "{\"a\":", "{\"a\":[1,", "{\"a\":\"b}", "{\"a\":1"};
    for (size_t i = 0; i < COUNT(rows); i++)
        check_refused(rows[i], "line ");
}

static void test_what_json_does_not_have_is_refused(void **state)
{
    static const char *const rows[] = {
        "{a:1}",        "{'a':1}",        "{\"a\":NaN}",     "{\"a\":Infinity}",
        "{\"a\":01}",   "{\"a\":+1}",     "{\"a\":.5}",      "{\"a\":1,}",
        "{\"a\":[1,]}", "{\"a\":\"\t\"}", "{\"a\":\"\\x\"}", "{\"a\":1e999}",
        "{/**/}",       "{\"a\":tru}",    "\xef\xbb\xbf{}",  "{\"a\":99999999999999999999}",
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_refused(rows[i], "line ");
}

static void test_nul_and_bad_utf8_are_refused(void **state)
{
    check_refused("{\"a\":\"\\u0000\"}", "line 1");
    check_refused("{\"\\u0000\":1}", "line 1");
    check_refused("{\"a\":\"\xff\"}", "line 1");
    check_refused("{\"a\":\"\xed\xa0\x80\"}", "line 1");
    check_refused("{\"a\":\"\\ud800\"}", "line 1");
    check_refused("{\"a\":\"\xc0\xaf\"}", "line 1");
}

static void test_the_message_names_line_and_column(void **state)
{
    check_refused("{\n \"a\": 1,\n  x\n}", "line 3, column 3");
}

static void test_the_message_is_safe_to_print(void **state)
{
    struct brig_error err;
    assert_null(read_text("{\"a\": \x1b[2J\xff}", &err));
    assert_null(strchr(err.text, '\x1b'));
    assert_null(strchr(err.text, '\xff'));
}

static void test_size_is_bounded_to_the_byte(void **state)
{
    struct brig_error err;
    char *text = malloc(MAX + 1);
    memset(text, ' ', MAX + 1);
    memcpy(text, "{}", 2);
    struct jsonr *root = jsonr_object(text, MAX, MAX, "job.json", "test", &err);
    assert_non_null(root);
    jsonr_free(root);
    assert_null(jsonr_object(text, MAX + 1, MAX, "job.json", "test", &err));
    assert_contains(err.text, "is larger than 65536 bytes");
    free(text);
}

static struct jsonr *read_nested(size_t depth, struct brig_error *err)
{
    static const char start[] = "{\"a\":";
    size_t n = sizeof start - 1;
    char *text = malloc(n + depth * 2 + 2);
    assert_non_null(text);
    memcpy(text, start, n);
    memset(text + n, '[', depth);
    memset(text + n + depth, ']', depth);
    memcpy(text + n + depth * 2, "}", 2);
    struct jsonr *root = read_text(text, err);
    free(text);
    return root;
}

static void test_depth_is_bounded(void **state)
{
    struct brig_error err;
    struct jsonr *root = read_nested(1000, &err);
    assert_non_null(root);
    jsonr_free(root);
    assert_null(read_nested(3000, &err));
    assert_contains(err.text, "maximum parsing depth");
    assert_null(read_nested(30000, &err));
}

static void test_nobody_has_to_want_the_error(void **state)
{
    assert_null(jsonr_object("[", 1, MAX, "job.json", "test", NULL));
    assert_null(jsonr_object("[]", 2, MAX, "job.json", "test", NULL));
    assert_null(jsonr_object("{}", 2, 1, "job.json", "test", NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_object_is_read),
        cmocka_unit_test(test_what_is_not_an_object_is_refused),
        cmocka_unit_test(test_duplicates_are_refused_at_every_level),
        cmocka_unit_test(test_text_after_the_object_is_refused),
        cmocka_unit_test(test_text_that_ends_early_is_refused),
        cmocka_unit_test(test_what_json_does_not_have_is_refused),
        cmocka_unit_test(test_nul_and_bad_utf8_are_refused),
        cmocka_unit_test(test_the_message_names_line_and_column),
        cmocka_unit_test(test_the_message_is_safe_to_print),
        cmocka_unit_test(test_size_is_bounded_to_the_byte),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_nobody_has_to_want_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
