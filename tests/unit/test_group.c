/* SPDX-License-Identifier: MIT */
/* lib/group.c: reading the kernel's small files. What needs a cgroup is in tests/system. */
#include "lib/cgroup/group.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "directory.h"

static void test_a_key_is_found_by_its_whole_name(void **state)
{
    struct dir *dir = *state;
    dir_text(dir, "memory.events", "low 1\noom 2\noom_kill 3\noom_group_kill 4\nmax 5", 0600);
    assert_int_equal(group_read_key(dir->fd, "memory.events", "oom"), 2);
    assert_int_equal(group_read_key(dir->fd, "memory.events", "oom_kill"), 3);
    assert_int_equal(group_read_key(dir->fd, "memory.events", "max"), 5);
    assert_int_equal(group_read_key(dir->fd, "memory.events", "kill"), BRIG_UNKNOWN);
    assert_int_equal(group_read_key(dir->fd, "memory.events", "oo"), BRIG_UNKNOWN);
    assert_int_equal(group_read_key(dir->fd, "none", "oom"), BRIG_UNKNOWN);
}

static void test_a_file_of_keys_that_is_empty_or_too_long_is_unknown(void **state)
{
    struct dir *dir = *state;
    char text[5000];
    dir_text(dir, "empty", "", 0600);
    assert_int_equal(group_read_key(dir->fd, "empty", "max"), BRIG_UNKNOWN);
    memset(text, '\n', sizeof text);
    memcpy(text, "max 1\n", 6);
    dir_write(dir, "long", text, sizeof text, 0600);
    assert_int_equal(group_read_key(dir->fd, "long", "max"), BRIG_UNKNOWN);
}

static void test_a_number_is_read_and_max_is_none(void **state)
{
    static const struct {
        const char *text;
        uint64_t value;
    } rows[] = {
        {"0\n", 0},
        {"4096\n", 4096},
        {"9223372036854771712\n", UINT64_C(9223372036854771712)},
        {"max\n", BRIG_UNKNOWN},
        {"", BRIG_UNKNOWN},
        {"\n", BRIG_UNKNOWN},
    };
    struct dir *dir = *state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        dir_text(dir, "memory.max", rows[i].text, 0600);
        assert_int_equal(group_read_number(dir->fd, "memory.max"), rows[i].value);
    }
    assert_int_equal(group_read_number(dir->fd, "none"), BRIG_UNKNOWN);
}

static void test_a_number_is_written_and_unlimited_is_left_out(void **state)
{
    struct dir *dir = *state;
    dir_text(dir, "pids.max", "before", 0600);
    assert_int_equal(group_write_number(dir->fd, "pids.max", BRIG_UNLIMITED), 0);
    assert_int_equal(group_read_number(dir->fd, "pids.max"), BRIG_UNKNOWN);
    dir_text(dir, "pids.max", "", 0600);
    assert_int_equal(group_write_number(dir->fd, "pids.max", 42), 0);
    assert_int_equal(group_read_number(dir->fd, "pids.max"), 42);
    assert_int_equal(group_write_number(dir->fd, "none", 1), -ENOENT);
    assert_int_equal(group_write_number(dir->fd, "none", BRIG_UNLIMITED), 0);
}

/* ---- the lines of /proc/self/cgroup --------------------------------------------------------- */

static const char hybrid[] = "12:cpu,cpuacct:/user.slice\n"
                             "11:memory:/a:b/c\n"
                             "5:net_cls,net_prio:/\n"
                             "1:name=systemd:/init.scope\n"
                             "0::/user.slice/session-1.scope\n";

static void check_path(const char *controller, const char *names, const char *own)
{
    char controllers[64] = "", path[256] = "";
    assert_int_equal(
        group_own_path(hybrid, controller, controllers, sizeof controllers, path, sizeof path), 0);
    assert_string_equal(controllers, names);
    assert_string_equal(path, own);
}

static void test_the_own_path_is_that_of_the_line_with_the_controller(void **state)
{
    check_path("cpu", "cpu,cpuacct", "/user.slice");
    check_path("cpuacct", "cpu,cpuacct", "/user.slice");
    check_path("memory", "memory", "/a:b/c"); /* a path may hold a colon */
    check_path("net_prio", "net_cls,net_prio", "/");
    check_path("", "", "/user.slice/session-1.scope");
}

static void test_a_controller_that_is_not_there_has_no_path(void **state)
{
    static const char *const names[] = {"pids", "cp", "acct", "cpu,cpuacct", "net", "memory2", ","};
    static const char *const texts[] = {"", "\n", "0\n", "0:\n", "x", ":", "11:memory", "0:x:/\n"};
    char controllers[64], path[256];
    for (size_t i = 0; i < COUNT(names); i++)
        assert_int_equal(
            group_own_path(hybrid, names[i], controllers, sizeof controllers, path, sizeof path),
            -ENOENT);
    for (size_t i = 0; i < COUNT(texts); i++) {
        assert_int_equal(
            group_own_path(texts[i], "", controllers, sizeof controllers, path, sizeof path),
            -ENOENT);
        assert_int_equal(
            group_own_path(texts[i], "memory", controllers, sizeof controllers, path, sizeof path),
            -ENOENT);
    }
}

static void test_a_path_that_does_not_fit_is_an_error(void **state)
{
    char controllers[64], path[7]; /* "/a:b/c" with its end */
    assert_int_equal(
        group_own_path(hybrid, "memory", controllers, sizeof controllers, path, sizeof path), 0);
    assert_int_equal(
        group_own_path(hybrid, "memory", controllers, sizeof controllers, path, sizeof path - 1),
        -ENAMETOOLONG);
}

static void test_the_kernels_own_lines_are_understood(void **state)
{
    char text[8192], controllers[256], path[4096];
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (n <= 0)
        skip_because("no /proc/self/cgroup");
    close(fd);
    text[n] = 0;
    const char *names = strchr(text, ':') + 1;
    char first[64];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(names, ",:"), names);
    assert_int_equal(
        group_own_path(text, first, controllers, sizeof controllers, path, sizeof path), 0);
    assert_int_equal(path[0], '/');
}

/* ---- killing ------------------------------------------------------------------------------- */

static pid_t spawn_sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    return pid;
}

static bool was_killed(pid_t pid)
{
    int status = 0;
    bool ended = waitpid(pid, &status, WNOHANG) == pid;
    for (int i = 0; !ended && i < 100; i++) {
        usleep(1000);
        ended = waitpid(pid, &status, WNOHANG) == pid;
    }
    if (!ended) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* The name of a group that this process is in: the last part of the first path that has one. */
static void own_group(char *name, size_t size)
{
    char line[4096];
    FILE *file = fopen("/proc/self/cgroup", "re");
    name[0] = 0;
    while (file && !name[0] && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        snprintf(name, size, "%s", strrchr(line, '/') ? strrchr(line, '/') + 1 : "");
    }
    if (file)
        fclose(file);
}

static bool kill_listed(struct dir *dir, const char *list, pid_t pid, const char *group)
{
    char text[8192];
    snprintf(text, sizeof text, "%s%d\n", list, (int)pid);
    dir_text(dir, "cgroup.procs", text, 0600);
    int count = group_kill_listed(dir->fd, group);
    bool killed = was_killed(pid);
    assert_int_equal(count, killed);
    return killed;
}

/* Its number may have been given to another process since the list was read. */
static void test_only_a_listed_process_that_is_in_the_group_is_killed(void **state)
{
    char own[256];
    own_group(own, sizeof own);
    assert_true(kill_listed(*state, "0\n1\n\n", spawn_sleeper(), own));
    assert_false(kill_listed(*state, "", spawn_sleeper(), "brig.no.such.group-1"));
    dir_text(*state, "cgroup.procs", "", 0600);
    struct dir *dir = *state;
    assert_int_equal(group_kill_listed(dir->fd, ":"), 0);
    assert_int_equal(unlinkat(dir->fd, "cgroup.procs", 0), 0);
    assert_int_equal(group_kill_listed(dir->fd, ":"), 0);
}

static void test_a_long_list_is_read_to_its_end(void **state)
{
    char list[6001] = ""; /* numbers that no process has; more than one read */
    for (size_t i = 0; i < 6000; i += 8)
        memcpy(list + i, "9999999\n", 9);
    char own[256];
    own_group(own, sizeof own);
    assert_true(kill_listed(*state, list, spawn_sleeper(), own));
}

static void test_a_group_whose_name_only_begins_like_it_is_another_one(void **state)
{
    char name[256];
    own_group(name, sizeof name);
    if (strlen(name) < 2)
        skip_because("this process is in no group with a name");
    assert_true(kill_listed(*state, "", spawn_sleeper(), name));
    name[strlen(name) - 1] = 0;
    assert_false(kill_listed(*state, "", spawn_sleeper(), name));
}

static void test_a_group_that_was_never_made_can_be_read_killed_and_removed(void **state)
{
    struct group group = GROUP_NONE;
    struct group_counters counters;
    group_read(&group, &counters);
    assert_int_equal(counters.oom_kills, BRIG_UNKNOWN);
    assert_int_equal(counters.memory_peak, BRIG_UNKNOWN);
    assert_false(group_populated(&group));
    group_kill(&group);
    assert_int_equal(group_remove(&group), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        dir_test(test_a_key_is_found_by_its_whole_name),
        dir_test(test_a_file_of_keys_that_is_empty_or_too_long_is_unknown),
        dir_test(test_a_number_is_read_and_max_is_none),
        dir_test(test_a_number_is_written_and_unlimited_is_left_out),
        cmocka_unit_test(test_the_own_path_is_that_of_the_line_with_the_controller),
        cmocka_unit_test(test_a_controller_that_is_not_there_has_no_path),
        cmocka_unit_test(test_a_path_that_does_not_fit_is_an_error),
        cmocka_unit_test(test_the_kernels_own_lines_are_understood),
        dir_test(test_only_a_listed_process_that_is_in_the_group_is_killed),
        dir_test(test_a_long_list_is_read_to_its_end),
        dir_test(test_a_group_whose_name_only_begins_like_it_is_another_one),
        cmocka_unit_test(test_a_group_that_was_never_made_can_be_read_killed_and_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
