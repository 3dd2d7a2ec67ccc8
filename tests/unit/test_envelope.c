/* SPDX-License-Identifier: MIT */
/* lib/envelope.c and lib/redact_json.c: what a tool says its result is, and that it is still JSON
 * when its secrets are hidden. */
#include "lib/tools/envelope.h"

#include "check.h"
#include "lib/redact/redact_json.h"

static void check_span(struct jsonscan_span span, const char *text)
{
    assert_int_equal(span.len, text ? strlen(text) : 0);
    if (text)
        assert_memory_equal(span.at, text, span.len);
}

static void test_envelopes(void **state)
{
    static const struct {
        const char *json;
        bool success;
        const char *output, *error, *metadata;
    } rows[] = {
        {"", true, NULL, NULL, NULL},
        {"{\"status\":\"success\"}", true, NULL, NULL, NULL},
        {" {\"output\" : [1, 2] , \"status\":\"success\"}\n", true, "[1, 2]", NULL, NULL},
        {"{\"status\":\"success\",\"output\":null,\"metadata\":{}}", true, "null", NULL, "{}"},
        {"{\"status\":\"error\",\"error\":\"x\"}", false, NULL, "\"x\"", NULL},
        {"{\"status\":\"error\",\"error\":{\"a\":1}}", false, NULL, "{\"a\":1}", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct envelope envelope;
        char why[ENVELOPE_WHY_SIZE] = "";
        if (!envelope_read(&envelope, rows[i].json, strlen(rows[i].json), why))
            fail_msg("%s: %s", rows[i].json, why);
        assert_int_equal(envelope.success, rows[i].success);
        check_span(envelope.output, rows[i].output);
        check_span(envelope.error, rows[i].error);
        check_span(envelope.metadata, rows[i].metadata);
    }
}

static void test_what_is_no_envelope(void **state)
{
    static const char *const rows[][2] = {
        {"x", "not JSON"},
        {"{}", "status"},
        {"[]", "status"},
        {"\"success\"", "status"},
        {"{\"status\":\"ok\"}", "neither"},
        {"{\"status\":true}", "neither"},
        {"{\"\\u0073tatus\":\"success\"}", "status"},
        {"{\"status\":\"success\",\"x\":1}", "\"x\""},
        {"{\"status\":\"success\",\"output\":1,\"output\":2}", "twice"},
        {"{\"status\":\"success\",\"metadata\":[]}", "metadata"},
        {"{\"status\":\"success\"} {}", "not JSON"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct envelope envelope;
        char why[ENVELOPE_WHY_SIZE] = "";
        assert_false(envelope_read(&envelope, rows[i][0], strlen(rows[i][0]), why));
        assert_contains(why, rows[i][1]);
    }
}

static void test_markers(void **state)
{
    static const char *const rows[][2] = {
        {"<<x>>", "x"},       {"a<<>>b", ""},
        {"", NULL},           {"<<x", NULL},
        {"x>>", NULL},        {">>x<<", NULL},
        {"<<x>><<y>>", NULL}, {"<<x>>y>>", NULL},
        {"<<a<<x>>", NULL},   {"n\n<<\n{}\n>>", "\n{}\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct jsonscan_span span = {0};
        char why[ENVELOPE_WHY_SIZE] = "";
        bool found = envelope_find(&span, rows[i][0], strlen(rows[i][0]), "<<", ">>", why);
        if (found != (rows[i][1] != NULL))
            fail_msg("%s: %d %s", rows[i][0], found, why);
        if (found)
            assert_true(span.len == strlen(rows[i][1]) &&
                        memcmp(span.at, rows[i][1], span.len) == 0);
    }
    struct jsonscan_span span;
    char why[ENVELOPE_WHY_SIZE];
    assert_true(envelope_find(&span, "|x|", 3, "|", "|", why)); /* the same text twice */
    assert_false(envelope_find(&span, "|x|y|", 5, "|", "|", why));
}

static void check_json(const struct redact_rules *rules, const char *json, const char *expected)
{
    struct buf out;
    struct jsonscan scan;
    uint64_t count = 0;
    assert_true(jsonscan(&scan, json, strlen(json)));
    buf_init(&out, 65536);
    assert_int_equal(redact_json(rules, json, strlen(json), &out, &count), 0);
    buf_add(&out, "", 1);
    assert_string_equal(out.data, expected);
    assert_true(jsonscan(&scan, out.data, out.len - 1));
    assert_int_equal(count > 0, strcmp(json, expected) != 0);
    buf_done(&out);
}

static void test_json_stays_json(void **state)
{
    static const char *const greedy[] = {"s3cret.*", NULL};
    struct redact_rules *rules;
    assert_int_equal(redact_rules_new(&rules, NULL, NULL, NULL), 0);
    check_json(rules, "{\"a\":[1,2]}", "{\"a\":[1,2]}");
    check_json(rules, "{\"password\":\"hunter22\",\"b\":1}",
               "{\"password\":\"[redacted:password]\",\"b\":1}");
    redact_rules_free(rules);
    /* A pattern that runs over the end of a string, and of everything. */
    assert_int_equal(redact_rules_new(&rules, NULL, greedy, NULL), 0);
    check_json(rules, "{\"a\":\"x s3cret y\",\"b\":[\"s3cret\",\"z\"]}",
               "{\"a\":\"x [redacted:pattern-1]\",\"b\":[\"[redacted:pattern-1]\",\"z\"]}");
    check_json(rules, "[\"a\\\"s3cret\\\"\",1]", "[\"a\\\"[redacted:pattern-1]\",1]");
    redact_rules_free(rules);
    static const char *const torn[] = {"\\\\", NULL}; /* half of an escape */
    assert_int_equal(redact_rules_new(&rules, NULL, torn, NULL), 0);
    check_json(rules, "[\"a\\\"b\"]", "[\"[redacted]\"]");
    redact_rules_free(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_envelopes),
        cmocka_unit_test(test_what_is_no_envelope),
        cmocka_unit_test(test_markers),
        cmocka_unit_test(test_json_stays_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
