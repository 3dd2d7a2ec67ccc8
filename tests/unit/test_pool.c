/* SPDX-License-Identifier: MIT */
/* lib/pool.c: cells built ahead are used once, only for runs that they fit, and leave nothing,
 * however their owner ends. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "brig.h"
#include "directory.h"

struct bench {
    struct brig *brig;
    struct brig_spec *spec;
    struct dir *dir;
};

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static void set(struct brig_spec *spec, const char *key, const char *value)
{
    struct brig_error err = {0};
    if (brig_spec_set(spec, key, value, BRIG_FROM_OPTION, NULL, &err) < 0)
        fail_msg("%s=%s: %s", key, value, err.text);
}

static struct brig_spec *new_spec(const struct bench *b, const char *script)
{
    const char *argv[] = {"sh", "-c", script};
    struct brig_spec *spec = NULL;
    assert_int_equal(brig_spec_new(&spec, NULL), 0);
    assert_int_equal(brig_spec_set_command(spec, argv, 3, NULL), 0);
    assert_int_equal(brig_spec_set_sink(spec, BRIG_STDOUT, BRIG_SINK_CAPTURE, -1, NULL), 0);
    set(spec, "workdir", b->dir->path);
    return spec;
}

static int start(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    void *dir = NULL;
    if (!b || dir_setup(&dir) < 0 || brig_open(&b->brig, NULL) < 0)
        return -1;
    b->dir = dir;
    b->spec = new_spec(b, "true");
    *state = b;
    alarm(120);
    return 0;
}

/* Whatever happened, no process of ours is left. */
static int end(void **state)
{
    struct bench *b = *state;
    brig_spec_free(b->spec);
    brig_close(b->brig);
    assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
    assert_int_equal(errno, ECHILD);
    void *dir = b->dir;
    dir_teardown(&dir);
    free(b);
    alarm(0);
    return 0;
}

static void pool_thread(struct bench *b, unsigned cells)
{
    struct brig_error err = {0};
    if (brig_warm(b->brig, b->spec, cells, &err) < 0)
        fail_msg("%s", err.text);
    while (brig_warm_ready(b->brig, b->spec) < cells)
        nap();
}

/* Run a spec to its end; true if it was warm. `out` gets what it printed. */
static bool run_spec(struct bench *b, struct brig_spec *spec, int code, char *out, size_t size)
{
    struct brig_error err = {0};
    struct brig_run *run = NULL;
    if (brig_start(b->brig, spec, &run, &err) < 0)
        fail_msg("%s", err.text);
    brig_spec_free(spec);
    assert_int_equal(brig_run_wait(run, -1), 1);
    const struct brig_result *result = brig_run_result(run);
    assert_int_equal(result->status, BRIG_EXITED);
    assert_int_equal(result->exit_code, code);
    assert_int_equal(result->isolation.warm, brig_run_was_warm(run));
    snprintf(out, size, "%.*s", (int)result->out.len,
             result->out.data ? (const char *)result->out.data : "");
    bool warm = brig_run_was_warm(run);
    brig_run_free(run);
    return warm;
}

static bool run_script(struct bench *b, const char *script, int code, char *out, size_t size)
{
    return run_spec(b, new_spec(b, script), code, out, size);
}

static void test_a_warm_run_is_like_a_cold_one(void **state)
{
    static const char script[] =
        "id -u; pwd; echo $HOME $TMPDIR $0 $#; cat /proc/self/cgroup | wc -l;"
        "grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status; ulimit -c; tty;"
        "ls /proc/self/fd | wc -l; ls /tmp /dev; exit 7";
    struct bench *b = *state;
    char cold[4096], warm[4096];
    assert_false(run_script(b, script, 7, cold, sizeof cold));
    pool_thread(b, 2);
    assert_true(run_script(b, script, 7, warm, sizeof warm));
    assert_string_equal(cold, warm);
    assert_contains(warm, b->dir->path);
}

static void test_a_cell_is_used_once(void **state)
{
    struct bench *b = *state;
    char out[256];
    pool_thread(b, 3);
    for (int i = 0; i < 12; i++) {
        bool warm = run_script(
            b, "ls -A /tmp /home/brig /dev/shm; cd /tmp; touch mark ~/mark /dev/shm/mark", 0, out,
            sizeof out);
        assert_true(warm || i >= 3);
        assert_null(strstr(out, "mark"));
    }
}

static void test_what_differs_is_the_jobs(void **state)
{
    struct bench *b = *state;
    char out[256];
    pool_thread(b, 1);
    struct brig_spec *spec = new_spec(b, "echo $COLOR; cat; exit 4");
    set(spec, "env", "COLOR=red");
    set(spec, "timeout", "60");
    set(spec, "output", "1K");
    set(spec, "stdin", dir_text(b->dir, "in", "from a file\n", 0644));
    assert_true(run_spec(b, spec, 4, out, sizeof out));
    assert_string_equal(out, "red\nfrom a file\n");
}

static void test_what_does_not_fit_is_built_anew(void **state)
{
    static const char *const rows[][2] = {
        {"memory", "100M"}, {"pids", "20"},        {"network", "host"}, {"ro", "/var"},
        {"tmpfs", "/x"},    {"open_files", "100"}, {"view", "host"},    {"cpu_time", "5"},
    };
    struct bench *b = *state;
    char out[64];
    pool_thread(b, 1);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct brig_spec *spec = new_spec(b, "echo ok");
        set(spec, rows[i][0], rows[i][1]);
        assert_false(run_spec(b, spec, 0, out, sizeof out));
        assert_string_equal(out, "ok\n");
    }
    assert_int_equal(brig_warm_ready(b->brig, b->spec), 1);
}

static void test_a_dir_that_was_replaced_is_not_shown(void **state)
{
    struct bench *b = *state;
    char out[64], moved[96];
    dir_text(b->dir, "old", "", 0644);
    pool_thread(b, 1);
    snprintf(moved, sizeof moved, "%s.moved", b->dir->path);
    assert_int_equal(rename(b->dir->path, moved), 0);
    assert_int_equal(mkdir(b->dir->path, 0700), 0);
    bool warm = run_script(b, "ls", 0, out, sizeof out);
    assert_int_equal(rmdir(b->dir->path), 0);
    assert_int_equal(rename(moved, b->dir->path), 0);
    assert_false(warm);
    assert_string_equal(out, "");
}

static void test_a_job_that_is_too_large_is_run_cold(void **state)
{
    struct bench *b = *state;
    char out[64];
    static char script[100000];
    pool_thread(b, 1);
    memset(script, ' ', sizeof script - 1);
    memcpy(script, "echo ok;", 8);
    assert_false(run_script(b, script, 0, out, sizeof out));
    assert_string_equal(out, "ok\n");
}

static void test_a_command_that_is_not_there_is_told(void **state)
{
    struct bench *b = *state;
    struct brig_error err = {0};
    struct brig_run *run = NULL;
    const char *argv[] = {"no-such-command"};
    pool_thread(b, 1);
    struct brig_spec *spec = new_spec(b, "");
    assert_int_equal(brig_spec_set_command(spec, argv, 1, NULL), 0);
    assert_true(brig_start(b->brig, spec, &run, &err) < 0);
    assert_int_equal(err.fault, BRIG_FAULT_NOT_FOUND);
    argv[0] = dir_text(b->dir, "script", "#!/no/interpreter\n", 0755);
    assert_int_equal(brig_spec_set_command(spec, argv, 1, NULL), 0);
    assert_true(brig_start(b->brig, spec, &run, &err) < 0);
    assert_contains(err.text, "/no/interpreter");
    brig_spec_free(spec);
}

static void test_wrong_use_is_refused(void **state)
{
    struct bench *b = *state;
    struct brig_error err = {0};
    assert_true(brig_warm(b->brig, b->spec, 65, &err) < 0);
    assert_contains(err.text, "64");
    assert_int_equal(brig_warm(b->brig, b->spec, 0, &err), 0);
    assert_int_equal(brig_warm_ready(b->brig, b->spec), 0);
    set(b->spec, "ro", "/no/such/directory");
    assert_true(brig_warm(b->brig, b->spec, 1, &err) < 0);
    assert_contains(err.text, "/no/such/directory");
}

static void test_no_more_are_kept_when_asked(void **state)
{
    struct bench *b = *state;
    pool_thread(b, 4);
    assert_int_equal(brig_warm(b->brig, b->spec, 0, NULL), 0);
    while (brig_warm_ready(b->brig, b->spec) > 0)
        nap();
}

static void test_a_fork_has_none(void **state)
{
    struct bench *b = *state;
    char out[64];
    int status = 0;
    pool_thread(b, 1);
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = brig_warm_ready(b->brig, b->spec) == 0 &&
                  !run_script(b, "echo ok", 0, out, sizeof out) && strcmp(out, "ok\n") == 0;
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(run_script(b, "echo ok", 0, out, sizeof out));
}

/* Children of a killed owner come to us. */
static void test_nothing_survives_a_killed_owner(void **state)
{
    struct bench *b = *state;
    int ready[2], status;
    char byte;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t owner = fork();
    if (owner == 0) {
        pool_thread(b, 4);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    kill(owner, SIGKILL);
    int reaped = 0;
    uint64_t until = clock_now() + 20 * NS_PER_S;
    while (reaped < 5 && clock_now() < until) {
        pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
        reaped += pid > 0;
        if (pid <= 0)
            nap();
    }
    assert_int_equal(reaped, 5); /* it, and four inits: their guests are theirs to reap */
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

/* However a spec is changed: a cell that was built for what it was is not taken. */
static void test_a_spec_that_was_changed_is_another_one(void **state)
{
    static const char text[] =
        "{\"tools\":[{\"name\":\"t\",\"description\":\"d\",\"command\":[\"sh\",\"-c\","
        "\"ulimit -n\"],\"open_files\":500}]}";
    struct bench *b = *state;
    struct brig_tools *tools = NULL;
    struct brig_error err = {0};
    struct brig_spec *spec = NULL;
    char out[64];
    if (brig_tools_read(&tools, text, sizeof text - 1, "tools", &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(brig_warm(b->brig, brig_tools_spec(tools, 0), 1, NULL), 0);
    set(b->spec, "open_files", "64");
    brig_tools_bound(tools, b->spec);
    assert_int_equal(brig_spec_copy(brig_tools_spec(tools, 0), &spec, NULL), 0);
    assert_int_equal(brig_spec_set_sink(spec, BRIG_STDOUT, BRIG_SINK_CAPTURE, -1, NULL), 0);
    assert_false(run_spec(b, spec, 0, out, sizeof out));
    assert_string_equal(out, "64\n");
    brig_tools_free(tools);
}

#define pool_test(test) cmocka_unit_test_setup_teardown(test, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        pool_test(test_a_warm_run_is_like_a_cold_one),
        pool_test(test_a_cell_is_used_once),
        pool_test(test_what_differs_is_the_jobs),
        pool_test(test_what_does_not_fit_is_built_anew),
        pool_test(test_a_dir_that_was_replaced_is_not_shown),
        pool_test(test_a_job_that_is_too_large_is_run_cold),
        pool_test(test_a_command_that_is_not_there_is_told),
        pool_test(test_wrong_use_is_refused),
        pool_test(test_no_more_are_kept_when_asked),
        pool_test(test_a_fork_has_none),
        pool_test(test_nothing_survives_a_killed_owner),
        pool_test(test_a_spec_that_was_changed_is_another_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
