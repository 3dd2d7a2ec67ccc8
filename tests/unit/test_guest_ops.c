/* SPDX-License-Identifier: MIT */
/* child/guest_ops.c: operations do what they say, and the first that fails stops the rest. Each
 * test runs in a child, because an operation changes the process for good. */
#include "child/guest_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Run in a child; true if `check` holds there afterwards. */
static bool run_in_child(const struct op *ops, uint32_t count, long expected, uint32_t expected_at,
                         bool (*check)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        uint32_t failed = 99;
        long ret = op_run(ops, count, &failed);
        _exit(ret == expected && failed == expected_at && check() ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool nothing(void)
{
    return true;
}

static bool has_no_new_privs(void)
{
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

static bool has_own_session(void)
{
    return getsid(0) == getpid();
}

static bool is_in_root(void)
{
    char path[16];
    return getcwd(path, sizeof path) && strcmp(path, "/") == 0;
}

static bool has_64_files(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 64 && limit.rlim_max == 65;
}

static void test_each_operation_does_what_it_says(void **state)
{
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct op no_new_privs = {.kind = OP_NO_NEW_PRIVS, .fd = -1};
    const struct op session = {.kind = OP_NEW_SESSION, .fd = -1};
    const struct op chdir_op = {.kind = OP_CHDIR, .fd = root};
    const struct op rlimit = {.kind = OP_RLIMIT, .fd = -1, .rlimit = {RLIMIT_NOFILE, 64, 65}};
    assert_true(run_in_child(&no_new_privs, 1, 0, 99, has_no_new_privs));
    assert_true(run_in_child(&session, 1, 0, 99, has_own_session));
    assert_true(run_in_child(&chdir_op, 1, 0, 99, is_in_root));
    assert_true(run_in_child(&rlimit, 1, 0, 99, has_64_files));
    close(root);
}

static void test_joining_writes_a_zero_to_the_group(void **state)
{
    int ends[2];
    char text[4] = "";
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const struct op join = {.kind = OP_JOIN_GROUP, .fd = ends[1]};
    assert_true(run_in_child(&join, 1, 0, 99, nothing));
    close(ends[1]);
    assert_int_equal(read(ends[0], text, sizeof text), 1);
    assert_string_equal(text, "0");
    close(ends[0]);
}

static bool has_no_new_privs_unset(void)
{
    return !has_no_new_privs();
}

static void test_the_first_failure_stops_and_is_named(void **state)
{
    const struct op ops[] = {
        {.kind = OP_NEW_SESSION, .fd = -1},
        {.kind = OP_CHDIR, .fd = 100000},
        {.kind = OP_NO_NEW_PRIVS, .fd = -1},
    };
    assert_true(run_in_child(ops, COUNT(ops), -EBADF, 1, has_no_new_privs_unset));
}

/* Skipping what it does not know would leave a limit off in silence. */
static void test_an_unknown_operation_fails(void **state)
{
    static const uint32_t kinds[] = {0, 1000, UINT32_MAX};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        const struct op op = {.kind = kinds[i], .fd = -1};
        assert_true(run_in_child(&op, 1, -ENOSYS, 0, nothing));
    }
}

static void test_no_operations_are_no_failure(void **state)
{
    assert_true(run_in_child(NULL, 0, 0, 99, nothing));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_operation_does_what_it_says),
        cmocka_unit_test(test_joining_writes_a_zero_to_the_group),
        cmocka_unit_test(test_the_first_failure_stops_and_is_named),
        cmocka_unit_test(test_an_unknown_operation_fails),
        cmocka_unit_test(test_no_operations_are_no_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
