/* SPDX-License-Identifier: MIT */
/* lib/operator.c: which file is trusted, what it may say, and how a maximum is applied. */
#include "lib/spec/operator.h"

#include <errno.h>

#include "directory.h"

static int read_file(struct dir *dir, const char *text, struct operator_limits *limits,
                     struct brig_error *err)
{
    const char *path = dir_text(dir, "limits.json", text, 0644);
    return operator_read(limits, path, err);
}

static void no_maxima(struct operator_limits *limits)
{
    for (int i = 0; i < KEY_COUNT; i++)
        limits->maximum[i] = BRIG_UNLIMITED;
}

/* A file that is refused leaves what was there. */
static void check_refused(struct dir *dir, const char *path, const char *why)
{
    struct operator_limits limits, before;
    struct brig_error err = {0};
    memset(&limits, 0x55, sizeof limits);
    before = limits;
    int ret = operator_read(&limits, path, &err);
    if (ret >= 0)
        fail_msg("%s was accepted", path);
    assert_int_equal(err.fault, BRIG_FAULT_REFUSED);
    assert_string_equal(err.stage, "operator");
    assert_contains(err.text, path);
    assert_contains(err.text, why);
    assert_memory_equal(&limits, &before, sizeof limits);
}

static void need_root(void)
{
    if (geteuid() != 0)
        skip_because("optional: needs root: makes a file that belongs to root");
}

/* ---- trust --------------------------------------------------------------------------------- */

static void test_a_missing_file_sets_no_maxima(void **state)
{
    struct dir *dir = *state;
    struct operator_limits limits;
    memset(&limits, 0, sizeof limits);
    assert_int_equal(operator_read(&limits, dir_path(dir, "none"), NULL), 0);
    for (int i = 0; i < KEY_COUNT; i++)
        assert_int_equal(limits.maximum[i], BRIG_UNLIMITED);
    assert_int_equal(operator_read(&limits, dir_path(dir, "no/directory"), NULL), 0);
}

static void test_a_file_that_others_can_write_is_refused(void **state)
{
    static const mode_t modes[] = {0664, 0646, 0666, 0622};
    need_root();
    for (size_t i = 0; i < COUNT(modes); i++)
        check_refused(*state, dir_text(*state, "limits.json", "{}", modes[i]),
                      "must belong to root, and nobody else may have write permission");
}

static void test_a_file_of_another_user_is_refused(void **state)
{
    need_root();
    const char *path = dir_text(*state, "limits.json", "{}", 0644);
    assert_int_equal(chown(path, 65534, 0), 0);
    check_refused(*state, path, "must belong to root");
}

static void test_what_is_not_a_file_is_refused(void **state)
{
    struct dir *dir = *state;
    need_root();
    check_refused(dir, dir->path, "is not a regular file");
    assert_int_equal(mkfifoat(dir->fd, "fifo", 0600), 0);
    check_refused(dir, dir_path(dir, "fifo"), "is not a regular file");
}

static void test_a_link_is_not_followed(void **state)
{
    struct dir *dir = *state;
    struct operator_limits limits;
    struct brig_error err;
    dir_text(dir, "real.json", "{}", 0644);
    assert_int_equal(symlinkat("real.json", dir->fd, "limits.json"), 0);
    assert_int_equal(operator_read(&limits, dir_path(dir, "limits.json"), &err), -ELOOP);
    assert_int_equal(err.fault, BRIG_FAULT_SYSTEM);
}

static void test_a_file_that_is_too_large_is_refused(void **state)
{
    struct dir *dir = *state;
    struct operator_limits limits;
    char *text = malloc(65538);
    need_root();
    memset(text, ' ', 65538);
    memcpy(text, "{}", 2);
    const char *path = dir_write(dir, "limits.json", text, 65536, 0644);
    assert_int_equal(operator_read(&limits, path, NULL), 0);
    path = dir_write(dir, "limits.json", text, 65537, 0644);
    assert_int_equal(operator_read(&limits, path, NULL), -EFBIG);
    free(text);
}

/* ---- contents ------------------------------------------------------------------------------ */

static void test_maxima_are_read_as_texts_and_as_numbers(void **state)
{
    struct operator_limits limits;
    need_root();
    assert_int_equal(read_file(*state,
                               "{\"maximum\": {\"memory\": \"8G\", \"timeout\": \"2h\","
                               " \"pids\": 500, \"cpus\": 1.5, \"output\": 1048576,"
                               " \"cpu_time\": \"unlimited\"}}",
                               &limits, NULL),
                     0);
    assert_int_equal(limits.maximum[KEY_MEMORY], UINT64_C(8) << 30);
    assert_int_equal(limits.maximum[KEY_TIMEOUT], UINT64_C(7200000000000));
    assert_int_equal(limits.maximum[KEY_PIDS], 500);
    assert_int_equal(limits.maximum[KEY_CPUS], 1500);
    assert_int_equal(limits.maximum[KEY_OUTPUT], 1 << 20);
    assert_int_equal(limits.maximum[KEY_CPU_TIME], BRIG_UNLIMITED);
    assert_int_equal(limits.maximum[KEY_KILL_AFTER], BRIG_UNLIMITED);
}

static void test_an_empty_object_sets_no_maxima(void **state)
{
    struct operator_limits limits;
    need_root();
    assert_int_equal(read_file(*state, "{}", &limits, NULL), 0);
    assert_int_equal(limits.maximum[KEY_MEMORY], BRIG_UNLIMITED);
    assert_int_equal(read_file(*state, "{\"maximum\": {}}", &limits, NULL), 0);
}

static void test_a_file_that_is_wrong_is_refused_whole(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "line "},
        {"[]", "is not a JSON object"},
        {"{\"maximum\": {\"memory\": \"1G\"}", "line "},
        {"{\"maximum\": {\"memory\": \"1G\", \"memory\": \"2G\"}}", "duplicate"},
        {"{\"maximum\": []}", "only \"maximum\", an object"},
        {"{\"Maximum\": {}}", "not \"Maximum\""},
        {"{\"maximum\": {\"memory\": \"1G\"}, \"minimum\": {}}", "not \"minimum\""},
        {"{\"maximum\": {\"memory\": \"1G\", \"view\": \"host\"}}", "maximum.view: is not a limit"},
        {"{\"maximum\": {\"memory\": \"1G\", \"x\": 1}}", "maximum.x: is not a limit"},
        {"{\"maximum\": {\"memory\": 0}}", "maximum.memory: \"0\" is zero"},
        {"{\"maximum\": {\"memory\": -1}}", "\"-1\" is negative"},
        {"{\"maximum\": {\"memory\": \"lots\"}}", "\"lots\" is not a number"},
        {"{\"maximum\": {\"memory\": null}}", "is not a string or a number"},
        {"{\"maximum\": {\"memory\": [1]}}", "is not a string or a number"},
        {"{\"maximum\": {\"kill_after\": \"unlimited\"}}", "cannot be unlimited"},
    };
    need_root();
    for (size_t i = 0; i < COUNT(rows); i++)
        check_refused(*state, dir_text(*state, "limits.json", rows[i].text, 0644), rows[i].why);
}

/* A number may be written in any way that JSON has, as in a spec. */
static void test_a_large_number_with_a_point_is_a_number(void **state)
{
    struct operator_limits limits;
    need_root();
    assert_int_equal(read_file(*state, "{\"maximum\": {\"memory\": 8589934592.0}}", &limits, NULL),
                     0);
    assert_int_equal(limits.maximum[KEY_MEMORY], UINT64_C(8) << 30);
}

/* ---- applying ------------------------------------------------------------------------------ */

static void test_a_value_up_to_the_maximum_is_taken_as_it_is(void **state)
{
    struct operator_limits limits;
    uint64_t out = 0;
    no_maxima(&limits);
    limits.maximum[KEY_PIDS] = 50;
    assert_int_equal(operator_apply(&limits, KEY_PIDS, 50, true, &out, NULL), 0);
    assert_int_equal(out, 50);
    assert_int_equal(operator_apply(&limits, KEY_PIDS, 1, false, &out, NULL), 0);
    assert_int_equal(out, 1);
    assert_int_equal(operator_apply(&limits, KEY_MEMORY, BRIG_UNLIMITED, true, &out, NULL), 0);
    assert_int_equal(out, BRIG_UNLIMITED);
}

static void test_a_value_over_the_maximum_is_refused_with_both_numbers(void **state)
{
    struct operator_limits limits;
    struct brig_error err;
    uint64_t out = 7;
    no_maxima(&limits);
    limits.maximum[KEY_MEMORY] = UINT64_C(1) << 30;
    assert_int_equal(operator_apply(&limits, KEY_MEMORY, UINT64_C(4) << 30, true, &out, &err),
                     -EINVAL);
    assert_int_equal(err.fault, BRIG_FAULT_REFUSED);
    assert_string_equal(err.text, "memory: 4 GiB is over the operator's maximum of 1 GiB");
    assert_int_equal(out, 7);
    limits.maximum[KEY_TIMEOUT] = UINT64_C(60000000000);
    operator_apply(&limits, KEY_TIMEOUT, BRIG_UNLIMITED, true, &out, &err);
    assert_string_equal(err.text, "timeout: unlimited is over the operator's maximum of 1m");
}

static void test_the_two_numbers_of_a_refusal_differ(void **state)
{
    struct operator_limits limits;
    struct brig_error err;
    char same[128];
    uint64_t out;
    no_maxima(&limits);
    limits.maximum[KEY_MEMORY] = UINT64_C(1) << 30;
    operator_apply(&limits, KEY_MEMORY, (UINT64_C(1) << 30) + 1, true, &out, &err);
    snprintf(same, sizeof same, "memory: 1 GiB is over the operator's maximum of 1 GiB");
    assert_string_not_equal(err.text, same);
}

static void test_a_default_over_the_maximum_is_lowered_to_it(void **state)
{
    struct operator_limits limits;
    uint64_t out = 0;
    no_maxima(&limits);
    limits.maximum[KEY_MEMORY] = 1000;
    limits.maximum[KEY_OPEN_FILES] = 64;
    assert_int_equal(operator_apply(&limits, KEY_MEMORY, UINT64_C(2) << 30, false, &out, NULL), 0);
    assert_int_equal(out, 1000);
    /* Not set at all is more than any maximum. */
    assert_int_equal(operator_apply(&limits, KEY_OPEN_FILES, BRIG_UNLIMITED, false, &out, NULL), 0);
    assert_int_equal(out, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        dir_test(test_a_missing_file_sets_no_maxima),
        dir_test(test_a_file_that_others_can_write_is_refused),
        dir_test(test_a_file_of_another_user_is_refused),
        dir_test(test_what_is_not_a_file_is_refused),
        dir_test(test_a_link_is_not_followed),
        dir_test(test_a_file_that_is_too_large_is_refused),
        dir_test(test_maxima_are_read_as_texts_and_as_numbers),
        dir_test(test_an_empty_object_sets_no_maxima),
        dir_test(test_a_file_that_is_wrong_is_refused_whole),
        dir_test(test_a_large_number_with_a_point_is_a_number),
        cmocka_unit_test(test_a_value_up_to_the_maximum_is_taken_as_it_is),
        cmocka_unit_test(test_a_value_over_the_maximum_is_refused_with_both_numbers),
        cmocka_unit_test(test_the_two_numbers_of_a_refusal_differ),
        cmocka_unit_test(test_a_default_over_the_maximum_is_lowered_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
