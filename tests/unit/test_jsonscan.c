/* SPDX-License-Identifier: MIT */
/* base/jsonscan.c: takes what is JSON and nothing else, and finds the members of the outermost
 * object. */
#include "base/jsonscan.h"

#include "base/buf.h"
#include "base/jsonw.h"
#include "check.h"

static bool scan(struct jsonscan *s, const char *text)
{
    return jsonscan(s, text, strlen(text));
}

static void test_takes(void **state)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "1.5e+10",
        "1E5",
        "\"\"",
        "\"a\\n\\u00e9\\\\\"",
        "true",
        "false",
        "null",
        "[]",
        "{}",
        " [ ] ",
        "\n{\t}\r\n",
        "[1,2,[3,{}],{\"a\":[]}]",
        "{\"a\":{\"b\":null},\"c\":\"d\"}",
        "\"\xc3\xa9\"",
        "[[[[[[]]]]]]",
        "\"\\ud800\"",
        "123456789012345678901234567890",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct jsonscan s;
        if (!scan(&s, texts[i]))
            fail_msg("%s: byte %zu: %s", texts[i], s.where, s.why);
    }
}

static void test_refuses(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "[",
        "]",
        "}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "tru",
        "nul",
        "truex",
        "1 2",
        "{} {}",
        "\"",
        "\"a",
        "\"\\",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12\"",
        "\"a\nb\"",
        "\"\xff\"",
        "\"\xc3\"",
        "'a'",
        "[1}",
        "{\"a\":1]",
        "NaN",
        "Infinity",
        "[1]]",
        "\xef\xbb\xbf{}",
        "\"\xed\xa0\x80\"",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct jsonscan s;
        if (scan(&s, texts[i]))
            fail_msg("taken: %s", texts[i]);
        assert_non_null(s.why);
        assert_true(s.where <= strlen(texts[i]));
    }
}

static void test_depth_is_bounded(void **state)
{
    char text[2 * JSONSCAN_DEPTH_MAX + 2];
    struct jsonscan s;
    for (size_t depth = JSONSCAN_DEPTH_MAX; depth <= JSONSCAN_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_true(jsonscan(&s, text, depth == JSONSCAN_DEPTH_MAX ? 2 * depth : 2 * depth - 1) ==
                    (depth == JSONSCAN_DEPTH_MAX));
    }
    assert_contains(s.why, "deeply");
}

static void check_member(const char *text, const char *name, const char *value)
{
    struct jsonscan s;
    struct jsonscan_span span;
    assert_true(scan(&s, text));
    if (!value) {
        assert_false(jsonscan_get(&s, name, &span));
        return;
    }
    assert_true(jsonscan_get(&s, name, &span));
    assert_int_equal(span.len, strlen(value));
    assert_memory_equal(span.at, value, span.len);
}

static void test_members(void **state)
{
    static const char text[] =
        " {\"a\" : 1 , \"b\":[ 1, {\"c\":2} ],\"d\":{},\"\":\"x\\\"}\", \"e\":[]} ";
    check_member(text, "a", "1");
    check_member(text, "b", "[ 1, {\"c\":2} ]");
    check_member(text, "c", NULL); /* not of the outermost */
    check_member(text, "d", "{}");
    check_member(text, "", "\"x\\\"}\"");
    check_member(text, "e", "[]");
    check_member("[{\"a\":1}]", "a", NULL);
    check_member("{\"x\":{\"a\":1}}", "a", NULL);
    struct jsonscan s;
    assert_true(scan(&s, text));
    assert_int_equal(s.members, 5);
    assert_int_equal(s.kind, '{');
}

static void test_more_members_than_are_kept(void **state)
{
    char text[1024] = "{";
    struct jsonscan s;
    struct jsonscan_span span;
    for (int i = 0; i < 40; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"k%d\":%d", i ? "," : "", i,
                 i);
    strcat(text, "}");
    assert_true(scan(&s, text));
    assert_int_equal(s.members, 40);
    assert_true(jsonscan_get(&s, "k15", &span));
    assert_false(jsonscan_get(&s, "k16", &span));
}

static void test_raw_is_one_line_without_controls(void **state)
{
    struct buf buf;
    struct jsonw w;
    static const char json[] = "{ \"a b\" :\n[ 1,\t\"x y\\\" \x7f\xc2\x9b \xc2\xa0\" ] }";
    struct jsonscan s;
    assert_true(scan(&s, json));
    buf_init(&buf, 4096);
    jsonw_init(&w, &buf);
    jsonw_raw(&w, NULL, json, strlen(json));
    buf_add(&buf, "", 1);
    assert_string_equal(buf.data, "{\"a b\":[1,\"x y\\\" \\u007f\\u009b \xc2\xa0\"]}");
    assert_true(scan(&s, buf.data));
    buf_done(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_more_members_than_are_kept),
        cmocka_unit_test(test_raw_is_one_line_without_controls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
