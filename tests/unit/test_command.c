/* SPDX-License-Identifier: MIT */
/* lib/command.c: which file a command is, and that each way of not being one has its own words. */
#include "lib/plan/command.h"

#include <errno.h>

#include "directory.h"

/* Without a cell: the host's files. */
static const struct command_place *place_of(const struct dir *dir)
{
    static struct command_place place;
    place = (struct command_place){.workdir = dir->fd};
    return &place;
}

static void check_found(struct dir *dir, const char *name, const char *path, const char *expected)
{
    char *out = NULL;
    struct brig_error err = {0};
    if (command_find(name, path, place_of(dir), &out, &err) != 0)
        fail_msg("%s: %s", name, err.text);
    assert_string_equal(out, expected);
    free(out);
}

static void check_error(const struct brig_error *err, int ret, enum brig_fault fault, int errnum,
                        const char *why)
{
    assert_int_equal(ret, -errnum);
    assert_int_equal(err->fault, fault);
    assert_int_equal(err->errnum, errnum);
    assert_string_equal(err->stage, "exec");
    assert_contains(err->text, why);
}

static void check_refused(struct dir *dir, const char *name, const char *path,
                          enum brig_fault fault, int errnum, const char *why)
{
    char *out = NULL;
    struct brig_error err = {0};
    int ret = command_find(name, path, place_of(dir), &out, &err);
    check_error(&err, ret, fault, errnum, why);
    assert_null(out);
}

/* ---- looking up ---------------------------------------------------------------------------- */

static void test_a_name_is_looked_up_in_path_from_left_to_right(void **state)
{
    struct dir *dir = *state;
    mkdirat(dir->fd, "a", 0755);
    mkdirat(dir->fd, "b", 0755);
    dir_text(dir, "b/tool", "#!/bin/sh\n", 0755);
    check_found(dir, "tool", "a:b", "b/tool");
    dir_text(dir, "a/tool", "#!/bin/sh\n", 0755);
    check_found(dir, "tool", "a:b", "a/tool");
    check_found(dir, "tool", "missing:a", "a/tool");
}

static void test_path_is_taken_from_the_work_dir(void **state)
{
    struct dir *dir = *state;
    char path[128], expected[160];
    mkdirat(dir->fd, "bin", 0755);
    dir_text(dir, "bin/tool", "#!/bin/sh\n", 0755);
    snprintf(path, sizeof path, "%s/bin", dir->path);
    snprintf(expected, sizeof expected, "%s/tool", path);
    check_found(dir, "tool", path, expected);
    check_found(dir, "tool", "bin", "bin/tool");
}

static void test_an_empty_element_of_path_is_the_work_dir(void **state)
{
    struct dir *dir = *state;
    dir_text(dir, "tool", "#!/bin/sh\n", 0755);
    check_found(dir, "tool", ":/nowhere", "./tool");
    check_found(dir, "tool", "/nowhere:", "./tool");
    check_found(dir, "tool", "/nowhere::/nothing", "./tool");
}

static void test_without_path_the_system_dirs_are_searched(void **state)
{
    char *out = NULL;
    struct dir *dir = *state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(command_find("sh", i ? "" : NULL, place_of(dir), &out, NULL), 0);
        assert_contains(out, "bin/sh");
        free(out);
    }
}

static void test_a_name_with_a_slash_is_not_looked_up(void **state)
{
    struct dir *dir = *state;
    dir_text(dir, "tool", "#!/bin/sh\n", 0755);
    check_found(dir, "./tool", "/usr/bin", "./tool");
    check_found(dir, "/bin/sh", "/nowhere", "/bin/sh");
    check_refused(dir, "./sh", "/bin", BRIG_FAULT_NOT_FOUND, ENOENT, "./sh: no such file");
}

static void test_a_link_to_a_program_is_one(void **state)
{
    struct dir *dir = *state;
    assert_int_equal(symlinkat("/bin/sh", dir->fd, "link"), 0);
    check_found(dir, "./link", NULL, "./link");
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void test_a_name_that_is_nowhere_is_not_found_and_path_is_shown(void **state)
{
    check_refused(*state, "no-such-tool", "/usr/bin:/bin", BRIG_FAULT_NOT_FOUND, ENOENT,
                  "no-such-tool: not found in PATH (/usr/bin:/bin)");
}

static void test_a_missing_file_and_a_dead_link_are_not_found(void **state)
{
    struct dir *dir = *state;
    assert_int_equal(symlinkat("nowhere", dir->fd, "dead"), 0);
    check_refused(dir, "./none", NULL, BRIG_FAULT_NOT_FOUND, ENOENT, "./none: no such file");
    check_refused(dir, "./dead", NULL, BRIG_FAULT_NOT_FOUND, ENOENT, "./dead: no such file");
}

static void test_a_file_in_the_middle_of_the_path_is_named_so(void **state)
{
    struct dir *dir = *state;
    dir_text(dir, "file", "", 0644);
    check_refused(dir, "./file/tool", NULL, BRIG_FAULT_NOT_FOUND, ENOTDIR,
                  "a part of the path is not a directory");
}

static void test_a_dir_is_not_executable(void **state)
{
    struct dir *dir = *state;
    mkdirat(dir->fd, "directory", 0755);
    check_refused(dir, "./directory", NULL, BRIG_FAULT_NOT_EXECUTABLE, EISDIR, "is a directory");
    check_refused(dir, "directory", ".", BRIG_FAULT_NOT_EXECUTABLE, EISDIR, "is a directory");
}

static void test_a_file_without_permission_is_not_executable(void **state)
{
    struct dir *dir = *state;
    dir_text(dir, "plain", "#!/bin/sh\n", 0644);
    check_refused(dir, "./plain", NULL, BRIG_FAULT_NOT_EXECUTABLE, EACCES,
                  "is not executable (permission denied)");
    check_refused(dir, "plain", ".", BRIG_FAULT_NOT_EXECUTABLE, EACCES, "is not executable");
}

static void test_what_is_not_a_file_is_not_executable(void **state)
{
    struct dir *dir = *state;
    assert_int_equal(mkfifoat(dir->fd, "fifo", 0755), 0);
    check_refused(dir, "./fifo", NULL, BRIG_FAULT_NOT_EXECUTABLE, EACCES, "is not executable");
    check_refused(dir, "/dev/null", NULL, BRIG_FAULT_NOT_EXECUTABLE, EACCES, "is not executable");
}

static void test_links_in_a_circle_are_named_so(void **state)
{
    struct dir *dir = *state;
    assert_int_equal(symlinkat("b", dir->fd, "a"), 0);
    assert_int_equal(symlinkat("a", dir->fd, "b"), 0);
    check_refused(dir, "./a", NULL, BRIG_FAULT_NOT_EXECUTABLE, ELOOP, "too many symbolic links");
}

static void test_a_later_program_is_taken_over_an_earlier_file_without_permission(void **state)
{
    struct dir *dir = *state;
    mkdirat(dir->fd, "a", 0755);
    mkdirat(dir->fd, "b", 0755);
    dir_text(dir, "a/tool", "", 0644);
    check_refused(dir, "tool", "a:b", BRIG_FAULT_NOT_EXECUTABLE, EACCES, "a/tool: ");
    dir_text(dir, "b/tool", "#!/bin/sh\n", 0755);
    check_found(dir, "tool", "a:b", "b/tool");
}

/* ---- errors of exec ------------------------------------------------------------------------ */

static void check_exec_error(struct dir *dir, const char *path, int errnum, enum brig_fault fault,
                             const char *why)
{
    struct brig_error err = {0};
    int ret = command_exec_error(path, place_of(dir), errnum, &err);
    check_error(&err, ret, fault, errnum, why);
}

static void test_a_script_without_its_interpreter_names_it(void **state)
{
    static const struct {
        const char *text, *interpreter;
    } rows[] = {
        {"#!/no/such/interpreter\n", "/no/such/interpreter"},
        {"#! \t/no/such/spaced -x\n", "/no/such/spaced"},
        {"#!/no/such/end", "/no/such/end"},
        {"#!/no/such/\x1b[2J\n", "/no/such/\\x1b[2J"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char why[128];
        dir_text(*state, "script", rows[i].text, 0755);
        snprintf(why, sizeof why, "its interpreter %s does not exist", rows[i].interpreter);
        check_exec_error(*state, "./script", ENOENT, BRIG_FAULT_NOT_EXECUTABLE, why);
    }
}

static void test_review_u7_a_carriage_return_is_named(void **state)
{
    static const char *const texts[] = {"#!/bin/sh\r\necho\r\n", "#! /bin/sh \r\n",
                                        "#!/bin/sh -x\r\n"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        dir_text(*state, "script", texts[i], 0755);
        check_exec_error(*state, "./script", ENOENT, BRIG_FAULT_NOT_EXECUTABLE,
                         "its first line ends with a carriage return");
    }
}

static void test_a_program_without_its_loader_says_so(void **state)
{
    static const char *const texts[] = {"\x7f\x45LF", "", "#", "#!", "#!\n"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        dir_text(*state, "program", texts[i], 0755);
        check_exec_error(*state, "./program", ENOENT, BRIG_FAULT_NOT_EXECUTABLE,
                         "its program loader does not exist");
    }
}

static void test_every_other_errno_has_its_own_words(void **state)
{
    static const struct {
        int errnum;
        enum brig_fault fault;
        const char *why;
    } rows[] = {
        {ENOEXEC, BRIG_FAULT_NOT_EXECUTABLE, "neither a program for this machine nor a script"},
        {E2BIG, BRIG_FAULT_NOT_EXECUTABLE, "argument list and environment are too long"},
        {ETXTBSY, BRIG_FAULT_NOT_EXECUTABLE, "is being written"},
        {EACCES, BRIG_FAULT_NOT_EXECUTABLE, "permission denied"},
        {ELOOP, BRIG_FAULT_NOT_EXECUTABLE, "interpreters of interpreters"},
        {ENOTDIR, BRIG_FAULT_NOT_FOUND, "is not a directory"},
        {EISDIR, BRIG_FAULT_NOT_EXECUTABLE, "is a directory"},
        {EIO, BRIG_FAULT_NOT_EXECUTABLE, "Input/output error"},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_exec_error(*state, "./x", rows[i].errnum, rows[i].fault, rows[i].why);
    check_exec_error(*state, "./x", ENOENT, BRIG_FAULT_NOT_FOUND, "./x: no such file");
}

static void test_the_exit_codes_are_126_and_127(void **state)
{
    struct brig_error err = {0};
    struct dir *dir = *state;
    char *out = NULL;
    command_find("./none", NULL, place_of(dir), &out, &err);
    assert_int_equal(brig_error_exit_code(&err), 127);
    command_find("/dev/null", NULL, place_of(dir), &out, &err);
    assert_int_equal(brig_error_exit_code(&err), 126);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        dir_test(test_a_name_is_looked_up_in_path_from_left_to_right),
        dir_test(test_path_is_taken_from_the_work_dir),
        dir_test(test_an_empty_element_of_path_is_the_work_dir),
        dir_test(test_without_path_the_system_dirs_are_searched),
        dir_test(test_a_name_with_a_slash_is_not_looked_up),
        dir_test(test_a_link_to_a_program_is_one),
        dir_test(test_a_name_that_is_nowhere_is_not_found_and_path_is_shown),
        dir_test(test_a_missing_file_and_a_dead_link_are_not_found),
        dir_test(test_a_file_in_the_middle_of_the_path_is_named_so),
        dir_test(test_a_dir_is_not_executable),
        dir_test(test_a_file_without_permission_is_not_executable),
        dir_test(test_what_is_not_a_file_is_not_executable),
        dir_test(test_links_in_a_circle_are_named_so),
        dir_test(test_a_later_program_is_taken_over_an_earlier_file_without_permission),
        dir_test(test_a_script_without_its_interpreter_names_it),
        dir_test(test_review_u7_a_carriage_return_is_named),
        dir_test(test_a_program_without_its_loader_says_so),
        dir_test(test_every_other_errno_has_its_own_words),
        dir_test(test_the_exit_codes_are_126_and_127),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
