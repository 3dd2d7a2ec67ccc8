/* SPDX-License-Identifier: MIT */
/* lib/result.c: the JSON of a result, read back by another parser, and the exit codes. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>

#include "brig.h"
#include "check.h"

#define SECOND UINT64_C(1000000000)

static const struct brig_layer layers[] = {
    {"memory", BRIG_LAYER_APPLIED, "cgroup v2"},
    {"cpus", BRIG_LAYER_MISSING, "no cpu controller"},
    {"pids", BRIG_LAYER_OFF, "unlimited"},
};

static struct brig_result example(void)
{
    static const char *const labels[] = {"job=a=b", "empty=", NULL};
    return (struct brig_result){
        .id = "r0123",
        .status = BRIG_EXITED,
        .exit_code = 3,
        .out = {.captured = true, .data = (const unsigned char *)"hi\n", .len = 3, .bytes = 3},
        .err = {.captured = true, .data = (const unsigned char *)"\xff", .len = 1, .bytes = 1},
        .usage = {.wall_ns = 1500000000,
                  .cpu_user_ns = SECOND,
                  .cpu_system_ns = 1,
                  .memory_peak_bytes = 4096,
                  .pids_peak = BRIG_UNKNOWN,
                  .read_bytes = BRIG_UNKNOWN,
                  .write_bytes = 0},
        .limits = {.memory_bytes = UINT64_C(2) << 30,
                   .pids = 100,
                   .timeout_ns = 1800 * SECOND,
                   .kill_after_ns = 3 * SECOND,
                   .cpu_time_ns = BRIG_UNLIMITED,
                   .output_bytes = 10 << 20,
                   .open_files = BRIG_UNLIMITED,
                   .file_size_bytes = BRIG_UNLIMITED,
                   .milli_cpus = 500},
        .isolation = {"process", layers, COUNT(layers)},
        .started_at_ns = INT64_C(1709210096001000000),
        .finished_at_ns = INT64_C(1709210097501000000),
        .labels = labels,
    };
}

static json_t *to_json(const struct brig_result *result)
{
    char *text = NULL;
    size_t len = 0;
    json_error_t error;
    assert_int_equal(brig_result_json(result, &text, &len, NULL), 0);
    assert_int_equal(strlen(text), len);
    assert_int_equal(text[len - 1], '\n'); /* one line, whatever is in it */
    assert_ptr_equal(strchr(text, '\n'), text + len - 1);
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!root)
        fail_msg("%s: %s", error.text, text);
    brig_free(text);
    return root;
}

static const char *text_at(const json_t *root, const char *key)
{
    return json_string_value(json_object_get(root, key));
}

static void test_the_result_has_every_member_of_its_schema(void **state)
{
    static const char *const keys[] = {
        "schema",       "id",
        "status",       "exit_code",
        "signal",       "notes",
        "stdout",       "stdout_encoding",
        "stdout_bytes", "stdout_truncated",
        "stderr",       "stderr_encoding",
        "stderr_bytes", "stderr_truncated",
        "usage",        "limits",
        "isolation",    "labels",
        "started_at",   "finished_at",
        "error",
    };
    struct brig_result result = example();
    json_t *root = to_json(&result);
    for (size_t i = 0; i < COUNT(keys); i++) {
        if (!json_object_get(root, keys[i]))
            fail_msg("%s is missing", keys[i]);
    }
    assert_string_equal(text_at(root, "schema"), "brig.result/1");
    assert_string_equal(text_at(root, "id"), "r0123");
    assert_string_equal(text_at(root, "status"), "exited");
    assert_string_equal(text_at(root, "started_at"), "2024-02-29T12:34:56.001Z");
    assert_string_equal(text_at(root, "finished_at"), "2024-02-29T12:34:57.501Z");
    assert_int_equal(json_integer_value(json_object_get(root, "exit_code")), 3);
    assert_true(json_is_null(json_object_get(root, "signal")));
    assert_true(json_is_null(json_object_get(root, "notes")));
    assert_true(json_is_null(json_object_get(root, "error")));
    json_decref(root);
}

static void test_output_is_text_or_base64_and_says_which(void **state)
{
    struct brig_result result = example();
    json_t *root = to_json(&result);
    assert_string_equal(text_at(root, "stdout"), "hi\n");
    assert_string_equal(text_at(root, "stdout_encoding"), "utf-8");
    assert_string_equal(text_at(root, "stderr"), "/w==");
    assert_string_equal(text_at(root, "stderr_encoding"), "base64");
    assert_true(json_is_false(json_object_get(root, "stdout_truncated")));
    assert_null(json_object_get(root, "stdout_omitted_bytes"));
    json_decref(root);
}

static void test_output_that_was_not_captured_is_null_and_still_counted(void **state)
{
    struct brig_result result = example();
    result.out = (struct brig_output){.bytes = 77};
    json_t *root = to_json(&result);
    assert_true(json_is_null(json_object_get(root, "stdout")));
    assert_true(json_is_null(json_object_get(root, "stdout_encoding")));
    assert_int_equal(json_integer_value(json_object_get(root, "stdout_bytes")), 77);
    json_decref(root);
}

static void test_captured_nothing_is_an_empty_text(void **state)
{
    struct brig_result result = example();
    result.out = (struct brig_output){.captured = true};
    json_t *root = to_json(&result);
    assert_string_equal(text_at(root, "stdout"), "");
    assert_string_equal(text_at(root, "stdout_encoding"), "utf-8");
    json_decref(root);
}

static void test_what_was_left_out_is_said_with_its_place(void **state)
{
    struct brig_result result = example();
    result.out.truncated = true;
    result.out.omitted = 1000;
    result.out.omitted_at = 2;
    json_t *root = to_json(&result);
    assert_true(json_is_true(json_object_get(root, "stdout_truncated")));
    assert_int_equal(json_integer_value(json_object_get(root, "stdout_omitted_bytes")), 1000);
    assert_int_equal(json_integer_value(json_object_get(root, "stdout_omitted_at")), 2);
    json_decref(root);
}

static void test_counters_and_limits_that_are_not_there_are_null(void **state)
{
    struct brig_result result = example();
    json_t *root = to_json(&result);
    const json_t *usage = json_object_get(root, "usage"), *limits = json_object_get(root, "limits");
    assert_true(json_real_value(json_object_get(usage, "wall_seconds")) == 1.5);
    assert_int_equal(json_integer_value(json_object_get(usage, "cpu_user_seconds")), 1);
    assert_int_equal(json_integer_value(json_object_get(usage, "memory_peak_bytes")), 4096);
    assert_true(json_is_null(json_object_get(usage, "pids_peak")));
    assert_int_equal(json_integer_value(json_object_get(usage, "write_bytes")), 0);
    assert_true(json_real_value(json_object_get(limits, "cpus")) == 0.5);
    assert_int_equal(json_integer_value(json_object_get(limits, "timeout_seconds")), 1800);
    assert_true(json_is_null(json_object_get(limits, "cpu_time_seconds")));
    assert_true(json_is_null(json_object_get(limits, "open_files")));
    json_decref(root);
}

static void test_layers_stand_where_their_state_puts_them(void **state)
{
    struct brig_result result = example();
    json_t *root = to_json(&result);
    const json_t *isolation = json_object_get(root, "isolation");
    assert_string_equal(text_at(isolation, "tier"), "process");
    assert_string_equal(text_at(json_object_get(isolation, "layers"), "memory"), "cgroup v2");
    assert_string_equal(text_at(json_object_get(isolation, "degraded"), "cpus"),
                        "no cpu controller");
    assert_string_equal(text_at(json_object_get(isolation, "off"), "pids"), "unlimited");
    assert_int_equal(json_object_size(json_object_get(isolation, "layers")), 1);
    json_decref(root);
}

static void test_labels_are_cut_at_their_first_sign_of_equality(void **state)
{
    struct brig_result result = example();
    json_t *root = to_json(&result);
    assert_string_equal(text_at(json_object_get(root, "labels"), "job"), "a=b");
    assert_string_equal(text_at(json_object_get(root, "labels"), "empty"), "");
    json_decref(root);
    result.labels = NULL;
    root = to_json(&result);
    assert_int_equal(json_object_size(json_object_get(root, "labels")), 0);
    json_decref(root);
}

static void test_a_long_name_of_a_label_is_kept_whole(void **state)
{
    char label[600];
    const char *const labels[] = {label, NULL};
    struct brig_result result = example();
    for (size_t i = 0; i < 250; i++)
        memcpy(label + 2 * i, "\xc3\xa9", 2);
    memcpy(label + 500, "=1", 3);
    result.labels = labels;
    json_t *root = to_json(&result);
    label[500] = 0;
    assert_string_equal(text_at(json_object_get(root, "labels"), label), "1");
    json_decref(root);
}

static void test_many_long_labels_do_not_cost_the_result(void **state)
{
    static char label[131072];
    const char *labels[10] = {NULL};
    struct brig_result result = example();
    memset(label, 'x', sizeof label - 1);
    memcpy(label, "a=", 2);
    for (size_t i = 0; i < 9; i++)
        labels[i] = label;
    result.labels = labels;
    char *text = NULL;
    size_t len;
    assert_int_equal(brig_result_json(&result, &text, &len, NULL), 0);
    brig_free(text);
}

static void test_the_error_of_a_run_is_in_its_result(void **state)
{
    struct brig_error error = {
        .fault = BRIG_FAULT_SYSTEM, .errnum = ECHILD, .stage = "run", .text = "init was killed"};
    struct brig_result result = example();
    result.status = BRIG_ERROR;
    result.exit_code = -1;
    result.error = &error;
    result.notes = "init was killed";
    json_t *root = to_json(&result);
    const json_t *member = json_object_get(root, "error");
    assert_true(json_is_null(json_object_get(root, "exit_code")));
    assert_string_equal(text_at(member, "stage"), "run");
    assert_string_equal(text_at(member, "text"), "init was killed");
    assert_int_equal(json_integer_value(json_object_get(member, "errno")), ECHILD);
    json_decref(root);
}

static void test_an_error_before_the_start_has_the_same_schema(void **state)
{
    struct brig_error error = {.fault = BRIG_FAULT_USAGE, .stage = "spec", .text = "bad \"value\""};
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(brig_error_json(&error, &text, &len, NULL), 0);
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_string_equal(text_at(root, "schema"), "brig.result/1");
    assert_string_equal(text_at(root, "status"), "error");
    assert_string_equal(text_at(root, "notes"), "bad \"value\"");
    json_decref(root);
    brig_free(text);
}

static void test_exit_codes_of_results(void **state)
{
    static const struct {
        enum brig_status status;
        int exit_code, signal, expected;
    } rows[] = {
        {BRIG_EXITED, 0, 0, 0},
        {BRIG_EXITED, 255, 0, 255},
        {BRIG_SIGNALED, -1, SIGSEGV, 139},
        {BRIG_TIMEOUT, -1, SIGTERM, 124},
        {BRIG_MEMORY_LIMIT, 0, 0, 137},
        {BRIG_PIDS_LIMIT, -1, SIGKILL, 137},
        {BRIG_OUTPUT_LIMIT, 0, 0, 137},
        {BRIG_CPU_LIMIT, -1, SIGKILL, 137},
        {BRIG_CANCELLED, -1, SIGTERM, 137},
        {BRIG_ERROR, -1, 0, 125},
        {(enum brig_status)99, 0, 0, 125},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct brig_result result = {
            .status = rows[i].status, .exit_code = rows[i].exit_code, .signal = rows[i].signal};
        assert_int_equal(brig_result_exit_code(&result), rows[i].expected);
    }
}

static void test_exit_codes_of_errors(void **state)
{
    static const struct {
        enum brig_fault fault;
        int expected;
    } rows[] = {
        {BRIG_FAULT_USAGE, 2},       {BRIG_FAULT_REFUSED, 125},
        {BRIG_FAULT_SYSTEM, 125},    {BRIG_FAULT_NOT_EXECUTABLE, 126},
        {BRIG_FAULT_NOT_FOUND, 127}, {BRIG_FAULT_NONE, 125},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct brig_error error = {.fault = rows[i].fault};
        assert_int_equal(brig_error_exit_code(&error), rows[i].expected);
    }
}

static void test_every_status_has_a_name(void **state)
{
    static const char *const names[] = {"exited",       "signaled",   "timeout",
                                        "memory_limit", "pids_limit", "output_limit",
                                        "cpu_limit",    "cancelled",  "error"};
    for (int i = 0; i <= BRIG_ERROR; i++)
        assert_string_equal(brig_status_name((enum brig_status)i), names[i]);
    assert_string_equal(brig_status_name((enum brig_status)(BRIG_ERROR + 1)), "unknown");
    assert_string_equal(brig_status_name((enum brig_status) - 1), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_result_has_every_member_of_its_schema),
        cmocka_unit_test(test_output_is_text_or_base64_and_says_which),
        cmocka_unit_test(test_output_that_was_not_captured_is_null_and_still_counted),
        cmocka_unit_test(test_captured_nothing_is_an_empty_text),
        cmocka_unit_test(test_what_was_left_out_is_said_with_its_place),
        cmocka_unit_test(test_counters_and_limits_that_are_not_there_are_null),
        cmocka_unit_test(test_layers_stand_where_their_state_puts_them),
        cmocka_unit_test(test_labels_are_cut_at_their_first_sign_of_equality),
        cmocka_unit_test(test_a_long_name_of_a_label_is_kept_whole),
        cmocka_unit_test(test_many_long_labels_do_not_cost_the_result),
        cmocka_unit_test(test_the_error_of_a_run_is_in_its_result),
        cmocka_unit_test(test_an_error_before_the_start_has_the_same_schema),
        cmocka_unit_test(test_exit_codes_of_results),
        cmocka_unit_test(test_exit_codes_of_errors),
        cmocka_unit_test(test_every_status_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
