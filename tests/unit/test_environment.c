/* SPDX-License-Identifier: MIT */
/* lib/environment.c: what of the caller's environment gets through, and who wins. */
#include "lib/spec/environment.h"

#include <errno.h>

#include "directory.h"

struct fixture {
    struct dir *dir;
    struct brig_spec *spec;
    struct strings env;
};

static int start(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (!f || dir_setup((void **)&f->dir) < 0)
        return -1;
    *state = f;
    return brig_spec_new(&f->spec, NULL);
}

static int end(void **state)
{
    struct fixture *f = *state;
    strings_done(&f->env);
    brig_spec_free(f->spec);
    dir_teardown((void **)&f->dir);
    free(f);
    return 0;
}

#define environment_test(test) cmocka_unit_test_setup_teardown(test, start, end)

static const char *const no_host[] = {NULL};

static void set(struct fixture *f, const char *key, const char *value)
{
    assert_int_equal(brig_spec_set(f->spec, key, value, BRIG_FROM_OPTION, NULL, NULL), 0);
}

static int build(struct fixture *f, const char *const *host, struct brig_error *err)
{
    strings_done(&f->env);
    return environment_build(&f->env, f->spec, (char *const *)host, NULL, NULL, err);
}

static void add_file(struct fixture *f, const char *name, const char *text)
{
    set(f, "env_file", dir_text(f->dir, name, text, 0600));
}

static void check_value(const struct fixture *f, const char *name, const char *value)
{
    const char *found = environment_get(f->env.items, name);
    if (!value)
        assert_null(found);
    else
        assert_string_equal(found, value);
}

/* ---- the caller's -------------------------------------------------------------------------- */

static void test_only_the_short_list_gets_through(void **state)
{
    struct fixture *f = *state;
    const char *const host[] = {
        "PATH=/bin",    "HOME=/root", "USER=me",  "LANG=C",    "LC_ALL=C",
        "TERM=xterm",   "SHELL=/sh",  "TZ=UTC",   "TMPDIR=/t", "SECRET=1",
        "LD_PRELOAD=x", "LC_=no",     "PATHS=no", "PAT=no",    "LCX_A=no",
        "AWS_KEY=no",   "LC_TIME=de", "path=no",  "no sign",   "BRIG_MEMORY=1",
        "=odd",         "",           NULL};
    assert_int_equal(build(f, host, NULL), 0);
    assert_int_equal(f->env.count, 10);
    check_value(f, "PATH", "/bin");
    check_value(f, "LC_ALL", "C");
    check_value(f, "LC_TIME", "de");
    check_value(f, "TMPDIR", "/t");
    check_value(f, "SECRET", NULL);
    check_value(f, "LC_", NULL);
    check_value(f, "PATHS", NULL);
}

static void test_no_environment_is_none(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(build(f, no_host, NULL), 0);
    assert_int_equal(f->env.count, 0);
    assert_int_equal(build(f, NULL, NULL), 0);
    assert_int_equal(f->env.count, 0);
}

static void test_a_variable_that_the_caller_has_twice_is_there_once(void **state)
{
    struct fixture *f = *state;
    const char *const host[] = {"PATH=/a", "PATH=/b", NULL};
    assert_int_equal(build(f, host, NULL), 0);
    assert_int_equal(f->env.count, 1);
}

/* ---- --env --------------------------------------------------------------------------------- */

static void test_a_name_alone_passes_the_callers_value_on(void **state)
{
    struct fixture *f = *state;
    const char *const host[] = {"SECRET=s=1", "EMPTY=", NULL};
    set(f, "env", "SECRET");
    set(f, "env", "EMPTY");
    assert_int_equal(build(f, host, NULL), 0);
    check_value(f, "SECRET", "s=1");
    check_value(f, "EMPTY", "");
}

static void test_a_name_that_the_caller_does_not_have_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct brig_error err;
    const char *const host[] = {"SECRETS=1", NULL};
    set(f, "env", "SECRET");
    assert_int_equal(build(f, host, &err), -EINVAL);
    assert_int_equal(err.fault, BRIG_FAULT_USAGE);
    assert_contains(err.text, "\"SECRET\" is not set here");
}

static void test_a_named_value_wins_over_the_callers_and_the_last_one_wins(void **state)
{
    struct fixture *f = *state;
    const char *const host[] = {"PATH=/host", NULL};
    set(f, "env", "PATH=/first");
    set(f, "env", "PATH=/last");
    set(f, "env", "EMPTY=");
    assert_int_equal(build(f, host, NULL), 0);
    assert_int_equal(f->env.count, 2);
    check_value(f, "PATH", "/last");
    check_value(f, "EMPTY", "");
}

/* ---- --env-file ---------------------------------------------------------------------------- */

static void test_a_file_gives_its_lines_and_skips_comments(void **state)
{
    struct fixture *f = *state;
    add_file(f, "a.env",
             "A=1\n\n# comment=no\nB=two words = and more\nC=\nD=no newline at the end");
    assert_int_equal(build(f, no_host, NULL), 0);
    assert_int_equal(f->env.count, 4);
    check_value(f, "A", "1");
    check_value(f, "B", "two words = and more");
    check_value(f, "C", "");
    check_value(f, "D", "no newline at the end");
}

static void test_an_empty_file_gives_nothing(void **state)
{
    struct fixture *f = *state;
    add_file(f, "a.env", "");
    add_file(f, "b.env", "\n\n#\n");
    assert_int_equal(build(f, no_host, NULL), 0);
    assert_int_equal(f->env.count, 0);
}

static void test_a_file_wins_over_the_caller_and_env_wins_over_it(void **state)
{
    struct fixture *f = *state;
    const char *const host[] = {"PATH=/host", "HOME=/host", NULL};
    set(f, "env", "A=option"); /* given before the files, and still the last word */
    add_file(f, "a.env", "A=first\nB=first\nPATH=/file\n");
    add_file(f, "b.env", "A=second\nB=second\n");
    assert_int_equal(build(f, host, NULL), 0);
    check_value(f, "A", "option");
    check_value(f, "B", "second");
    check_value(f, "PATH", "/file");
    check_value(f, "HOME", "/host");
}

static void check_file_refused(struct fixture *f, const char *why)
{
    struct brig_error err = {0};
    assert_int_equal(build(f, no_host, &err), -EINVAL);
    assert_int_equal(err.fault, BRIG_FAULT_USAGE);
    assert_string_equal(err.stage, "environment");
    assert_contains(err.text, why);
}

static void test_a_line_without_a_name_or_a_value_is_named(void **state)
{
    struct fixture *f = *state;
    add_file(f, "a.env", "A=1\n\n=2\n");
    check_file_refused(f, "a.env: line 3: is not NAME=VALUE");
}

static void test_a_line_that_is_a_name_only_is_refused(void **state)
{
    struct fixture *f = *state;
    add_file(f, "a.env", "A=1\nB");
    check_file_refused(f, "a.env: line 2: is not NAME=VALUE");
}

static void test_a_file_with_a_nul_byte_is_refused(void **state)
{
    struct fixture *f = *state;
    set(f, "env_file", dir_write(f->dir, "a.env", "A=1\0B=2\n", 8, 0600));
    check_file_refused(f, "holds a NUL byte");
}

static void test_a_missing_file_is_refused(void **state)
{
    struct fixture *f = *state;
    set(f, "env_file", dir_path(f->dir, "none"));
    check_file_refused(f, "No such file");
}

static void test_what_is_not_a_file_is_refused_without_waiting(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(mkfifoat(f->dir->fd, "fifo", 0600), 0);
    set(f, "env_file", dir_path(f->dir, "fifo"));
    alarm(20);
    check_file_refused(f, "is not a regular file");
    alarm(0);
}

static void test_a_file_is_bounded_to_the_byte(void **state)
{
    struct fixture *f = *state;
    const size_t max = 1u << 20;
    char *text = malloc(max + 1);
    memset(text, '\n', max + 1);
    memcpy(text, "A=1", 3);
    set(f, "env_file", dir_write(f->dir, "a.env", text, max, 0600));
    assert_int_equal(build(f, no_host, NULL), 0);
    check_value(f, "A", "1");
    dir_write(f->dir, "a.env", text, max + 1, 0600);
    check_file_refused(f, "is larger than 1048576 bytes");
    free(text);
}

/* ---- get ----------------------------------------------------------------------------------- */

static void test_get_finds_the_whole_name_only(void **state)
{
    const char *const list[] = {"AB=1", "A", "ABC=2", "A=3", NULL};
    char *const *entries = (char *const *)list;
    assert_string_equal(environment_get(entries, "A"), "3");
    assert_string_equal(environment_get(entries, "AB"), "1");
    assert_null(environment_get(entries, "B"));
    assert_null(environment_get(entries, ""));
    assert_null(environment_get(NULL, "A"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        environment_test(test_only_the_short_list_gets_through),
        environment_test(test_no_environment_is_none),
        environment_test(test_a_variable_that_the_caller_has_twice_is_there_once),
        environment_test(test_a_name_alone_passes_the_callers_value_on),
        environment_test(test_a_name_that_the_caller_does_not_have_is_an_error),
        environment_test(test_a_named_value_wins_over_the_callers_and_the_last_one_wins),
        environment_test(test_a_file_gives_its_lines_and_skips_comments),
        environment_test(test_an_empty_file_gives_nothing),
        environment_test(test_a_file_wins_over_the_caller_and_env_wins_over_it),
        environment_test(test_a_line_without_a_name_or_a_value_is_named),
        environment_test(test_a_line_that_is_a_name_only_is_refused),
        environment_test(test_a_file_with_a_nul_byte_is_refused),
        environment_test(test_a_missing_file_is_refused),
        environment_test(test_what_is_not_a_file_is_refused_without_waiting),
        environment_test(test_a_file_is_bounded_to_the_byte),
        cmocka_unit_test(test_get_finds_the_whole_name_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
