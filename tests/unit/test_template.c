/* SPDX-License-Identifier: MIT */
/* lib/template.c, template/serve.c, child/fork.c: calls of a template are runs as any other, each
 * in a cell of its own. The template is this program itself (template_guest.h). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "brig.h"
#include "directory.h"
#include "template_guest.h"

#define READY_WITHIN (20 * NS_PER_S)

static const char *program; /* this one */

/* ---- the frame ----------------------------------------------------------------------------- */

struct bench {
    struct brig *brig;
    struct dir *dir;
    struct brig_template *template;
    struct brig_run *run;   /* of the template */
    struct brig_spec *spec; /* of calls */
};

static void set(struct brig_spec *spec, const char *key, const char *value)
{
    struct brig_error err = {0};
    if (brig_spec_set(spec, key, value, BRIG_FROM_OPTION, NULL, &err) < 0)
        fail_msg("%s=%s: %s", key, value, err.text);
}

static struct brig_spec *new_spec(const char *const *argv, size_t count)
{
    struct brig_spec *spec = NULL;
    assert_int_equal(brig_spec_new(&spec, NULL), 0);
    assert_int_equal(brig_spec_set_command(spec, argv, count, NULL), 0);
    for (int stream = BRIG_STDOUT; stream <= BRIG_STDERR; stream++)
        assert_int_equal(
            brig_spec_set_sink(spec, (enum brig_stream)stream, BRIG_SINK_CAPTURE, -1, NULL), 0);
    return spec;
}

/* 1, or -errno. */
static int wait_until_ready(struct bench *b, struct brig_error *err)
{
    uint64_t until = clock_now() + READY_WITHIN;
    for (;;) {
        struct pollfd ready = {.fd = brig_template_fd(b->template), .events = POLLIN};
        int ret = brig_template_ready(b->template, err);
        if (ret != 0 || clock_now() > until)
            return ret;
        poll(&ready, 1, 100);
    }
}

static void start_template(struct bench *b, const char *how)
{
    const char *argv[] = {"./test_template", "serve", how};
    struct brig_spec *spec = new_spec(argv, 3);
    struct brig_error err = {0};
    set(spec, "workdir", b->dir->path);
    if (brig_template_start(b->brig, spec, &b->template, &b->run, &err) < 0)
        fail_msg("%s: %s", err.stage, err.text);
    brig_spec_free(spec);
}

static void copy_program(const char *dir)
{
    char path[4096], command[9000];
    snprintf(path, sizeof path, "%s/test_template", dir);
    snprintf(command, sizeof command, "cp '%s' '%s' && chmod 755 '%s'", program, path, path);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): the test's own names */
}

static int start(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    void *dir = NULL;
    if (!b || dir_setup(&dir) < 0 || brig_open(&b->brig, NULL) < 0)
        return -1;
    b->dir = dir;
    copy_program(b->dir->path);
    const char *argv[] = {"call"};
    b->spec = new_spec(argv, 1);
    *state = b;
    alarm(120);
    return 0;
}

static int end(void **state)
{
    struct bench *b = *state;
    brig_warm(b->brig, b->spec, 0, NULL);
    brig_spec_free(b->spec);
    brig_run_free(b->run);
    brig_template_free(b->template);
    brig_close(b->brig);
    assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
    assert_int_equal(errno, ECHILD);
    void *dir = b->dir;
    dir_teardown(&dir);
    free(b);
    alarm(0);
    return 0;
}

static void serve(struct bench *b)
{
    struct brig_error err = {0};
    start_template(b, "well");
    if (wait_until_ready(b, &err) != 1)
        fail_msg("%s", err.text);
    brig_spec_set_template(b->spec, b->template);
}

static int try_start(struct bench *b, const char *job, struct brig_run **run,
                     struct brig_error *err)
{
    int fd = memfd_create("job", MFD_CLOEXEC);
    assert_true(fd >= 0 && write(fd, job, strlen(job)) == (ssize_t)strlen(job));
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(brig_spec_give_stdin(b->spec, fd, NULL), 0);
    int ret = brig_start(b->brig, b->spec, run, err);
    close(fd);
    return ret;
}

static struct brig_run *start_call(struct bench *b, const char *job)
{
    struct brig_run *run = NULL;
    struct brig_error err = {0};
    if (try_start(b, job, &run, &err) < 0)
        fail_msg("%s: %s", err.stage, err.text);
    return run;
}

/* Run a job to its end; `out` gets what it printed. */
static enum brig_status call(struct bench *b, const char *job, char *out, size_t size)
{
    struct brig_run *run = start_call(b, job);
    assert_int_equal(brig_run_wait(run, 30000), 1);
    const struct brig_result *result = brig_run_result(run);
    snprintf(out, size, "%.*s%.*s", (int)result->out.len, (const char *)result->out.data,
             (int)result->err.len, (const char *)result->err.data);
    enum brig_status status = result->status;
    brig_run_free(run);
    return status;
}

/* ---- the tests ----------------------------------------------------------------------------- */

static void test_a_call_has_what_the_template_loaded(void **state)
{
    struct bench *b = *state;
    char out[256];
    set(b->spec, "env", "A=1");
    serve(b);
    assert_int_equal(call(b, "h", out, sizeof out), BRIG_EXITED);
    assert_contains(out, "call ");
    assert_contains(out, "pid 3 loaded 42");
    assert_int_equal(call(b, "senv", out, sizeof out), BRIG_EXITED);
    assert_null(strstr(out, BRIG_TEMPLATE_VARIABLE));
}

static void test_a_call_is_told_where_it_runs(void **state)
{
    struct bench *b = *state;
    serve(b);
    struct brig_run *run = start_call(b, "c");
    assert_int_equal(brig_run_wait(run, 30000), 1);
    assert_int_equal(brig_run_result(run)->exit_code, 0);
    brig_run_free(run);
}

/* While all of them live, no number is used twice. */
static void test_a_call_has_its_own_namespaces(void **state)
{
    static const char *const kinds[] = {"user", "mnt", "pid", "net", "ipc", "uts"};
    struct bench *b = *state;
    serve(b);
    struct brig_run *calls[] = {start_call(b, "w"), start_call(b, "w")};
    const int pids[] = {getpid(), brig_run_pid(b->run), brig_run_pid(calls[0]),
                        brig_run_pid(calls[1])};
    for (size_t kind = 0; kind < COUNT(kinds); kind++) {
        char names[COUNT(pids)][64] = {{0}};
        for (size_t i = 0; i < COUNT(pids); i++) {
            char path[64];
            snprintf(path, sizeof path, "/proc/%d/ns/%s", pids[i], kinds[kind]);
            assert_true(readlink(path, names[i], sizeof names[i] - 1) > 0);
            /* The init of a template that root starts is in the host's own user namespace. */
            for (size_t j = kind == 0 ? 1 : 0; j < i; j++)
                assert_string_not_equal(names[i], names[j]);
        }
    }
    brig_run_free(calls[0]);
    brig_run_free(calls[1]);
}

/* What is only in memory: /tmp, the home, /dev/shm, shared memory of System V. */
static void test_nothing_of_a_call_is_there_for_the_next(void **state)
{
    struct bench *b = *state;
    char out[512];
    serve(b);
    assert_int_equal(
        call(b, "stouch /tmp/left ~/left /dev/shm/left && ipcmk -M 4096 && hostname x; ls /tmp",
             out, sizeof out),
        BRIG_EXITED);
    assert_contains(out, "left\n");
    call(b, "sls -A /tmp ~ /dev/shm; ipcs -m | grep 4096; hostname; ls /proc | grep -c '^[0-9]'",
         out, sizeof out);
    assert_null(strstr(out, "left\n"));
    assert_null(strstr(out, "4096"));
    assert_contains(out, "brig\n");
}

static void test_a_call_is_held_like_any_guest(void **state)
{
    struct bench *b = *state;
    char out[4096];
    serve(b);
    call(b, "sgrep -E '^(Cap|NoNewPrivs|Seccomp)' /proc/self/status; ls /proc/self/fd | wc -l", out,
         sizeof out);
    assert_contains(out, "CapPrm:\t0000000000000000");
    assert_contains(out, "CapBnd:\t0000000000000000");
    assert_contains(out, "NoNewPrivs:\t1");
    assert_contains(out, "Seccomp:\t2");
    assert_contains(out, "\n4\n"); /* its streams, and the directory that ls reads */
    call(b, "sunshare -U true; mount -t tmpfs x /mnt; echo x > /etc/hosts; cat /proc/kallsyms", out,
         sizeof out);
    assert_contains(out, "unshare failed");
    assert_contains(out, "Read-only");
    assert_contains(out, "kallsyms: Permission denied");
}

static void test_the_layers_are_told_as_they_are(void **state)
{
    struct bench *b = *state;
    serve(b);
    struct brig_run *run = start_call(b, "h");
    assert_int_equal(brig_run_wait(run, 30000), 1);
    const struct brig_isolation *isolation = &brig_run_result(run)->isolation;
    assert_string_equal(isolation->tier, "cell");
    bool landlock = false;
    for (size_t i = 0; i < isolation->count; i++) {
        const struct brig_layer *layer = &isolation->layers[i];
        landlock = landlock ||
                   (strcmp(layer->name, "landlock") == 0 && layer->state == BRIG_LAYER_APPLIED);
    }
    assert_true(landlock);
    brig_run_free(run);
    brig_run_cancel(b->run, NULL);
    assert_int_equal(brig_run_wait(b->run, 30000), 1);
    isolation = &brig_run_result(b->run)->isolation;
    for (size_t i = 0; i < isolation->count; i++) {
        if (strcmp(isolation->layers[i].name, "landlock") == 0)
            assert_int_equal(isolation->layers[i].state, BRIG_LAYER_OFF);
    }
}

static void test_limits_are_of_each_call(void **state)
{
    struct bench *b = *state;
    char out[256];
    set(b->spec, "memory", "64M");
    serve(b);
    assert_int_equal(call(b, "m", out, sizeof out), BRIG_MEMORY_LIMIT);
    set(b->spec, "timeout", "500ms");
    assert_int_equal(call(b, "w", out, sizeof out), BRIG_TIMEOUT);
    set(b->spec, "timeout", "1m");
    assert_int_equal(call(b, "d", out, sizeof out), BRIG_SIGNALED);
    assert_int_equal(call(b, "h", out, sizeof out), BRIG_EXITED); /* it still serves */
}

/* What fails on its way to a job is told at once, and as what it is. */
static void test_a_call_that_cannot_begin(void **state)
{
    static const char *const limits[] = {"100K", "300K"};
    struct bench *b = *state;
    char out[256];
    serve(b);
    for (size_t i = 0; i < COUNT(limits); i++) {
        struct brig_error err = {0};
        struct brig_run *run = NULL;
        uint64_t began = clock_now();
        set(b->spec, "memory", limits[i]);
        if (try_start(b, "h", &run, &err) == 0) { /* little is enough for this one */
            brig_run_free(run);
            continue;
        }
        assert_true(clock_now() - began < 4 * NS_PER_S);
        assert_string_equal(err.stage, "start");
        assert_contains(err.text, "limit");
    }
    set(b->spec, "memory", "64M");
    assert_int_equal(call(b, "h", out, sizeof out), BRIG_EXITED);
}

static void test_forked_ahead(void **state)
{
    struct bench *b = *state;
    serve(b);
    assert_int_equal(brig_warm(b->brig, b->spec, 2, NULL), 0);
    struct brig_run *run = start_call(b, "h");
    assert_true(brig_run_was_warm(run));
    assert_int_equal(brig_run_wait(run, 30000), 1);
    assert_contains((const char *)brig_run_result(run)->out.data, "pid 3 loaded 42");
    brig_run_free(run);
}

/* Gone, or about to be reaped. */
static bool is_over(int pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    return fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0 || strstr(text, ") Z");
}

/* One that only answers, and would go on for ever: it is gone when the last cell is. */
static void test_an_answer_before_the_end(void **state)
{
    struct bench *b = *state;
    size_t len = 0;
    set(b->spec, "channel", "on");
    serve(b);
    assert_int_equal(brig_warm(b->brig, b->spec, 1, NULL), 0);
    struct brig_run *run = start_call(b, "a");
    const char *answer = NULL;
    while (!answer && !brig_run_wait(run, 20))
        answer = brig_run_answer(run, &len);
    assert_non_null(answer);
    assert_memory_equal(answer, "{\"a\": 1}", len);
    assert_null(brig_run_result(run));
    int pid = brig_run_pid(run);
    brig_run_free(run); /* it is killed by that, whatever the pool thread has to do first */
    uint64_t until = clock_now() + 5 * NS_PER_S;
    while (!is_over(pid))
        assert_true(clock_now() < until);
    assert_int_equal(brig_warm(b->brig, b->spec, 0, NULL), 0);
    assert_int_equal(kill(pid, 0), -1);
}

static int fill_memory(struct bench *b, long size, int seals, uint64_t *there)
{
    char job[64];
    snprintf(job, sizeof job, "f%ld %d", size, seals);
    struct brig_run *run = start_call(b, job);
    assert_int_equal(brig_run_wait(run, 30000), 1);
    assert_int_equal(brig_run_result(run)->exit_code, 0);
    int ret = brig_run_memory(run, there);
    if (ret >= 0) {
        char text[6] = "";
        assert_int_equal(pread(ret, text, 5, 0), 5);
        assert_string_equal(text, "first");
        assert_int_equal(pwrite(ret, "other", 5, 0), -1); /* nor can we change it */
    }
    brig_run_free(run);
    return ret;
}

static void test_the_memory_file_counts_once_it_is_sealed(void **state)
{
    struct bench *b = *state;
    const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    uint64_t size = 7;
    set(b->spec, "channel", "on");
    set(b->spec, "result_size", "1M");
    serve(b);
    assert_int_equal(fill_memory(b, 0, all, &size), -ENOENT);
    assert_int_equal(fill_memory(b, 100000, 0, &size), -EPERM);
    assert_int_equal(fill_memory(b, 100000, F_SEAL_SHRINK | F_SEAL_GROW, &size), -EPERM);
    assert_int_equal(fill_memory(b, 100000, F_SEAL_WRITE | F_SEAL_GROW, &size), -EPERM);
    assert_int_equal(fill_memory(b, 100000, F_SEAL_WRITE | F_SEAL_SHRINK, &size), -EPERM);
    assert_int_equal(fill_memory(b, (1 << 20) + 1, all, &size), -EFBIG);
    assert_int_equal(size, 7);
    assert_true(fill_memory(b, 1 << 20, all, &size) >= 0);
    assert_int_equal(size, 1 << 20);
}

/* Hidden once: what is shown of a secret may look like another one. */
static void test_an_answer_with_secrets_stays_as_it_was_given(void **state)
{
    struct bench *b = *state;
    size_t len = 0;
    set(b->spec, "channel", "on");
    set(b->spec, "redact_pattern", "[a-z]+");
    serve(b);
    struct brig_run *run = start_call(b, "x");
    const char *answer = NULL;
    while (!(answer = brig_run_answer(run, &len)))
        assert_int_equal(brig_run_wait(run, 20), 0);
    char given[256];
    snprintf(given, sizeof given, "%.*s", (int)len, answer);
    assert_contains(given, "[redacted:");
    assert_int_equal(brig_run_wait(run, 30000), 1);
    const struct brig_result *result = brig_run_result(run);
    assert_ptr_equal(result->output, answer);
    assert_int_equal(result->output_len, len);
    assert_memory_equal(result->output, given, len);
    brig_run_free(run);
}

/* A cell that was built for a run has no socket for a template. */
static void test_a_template_is_not_started_in_a_parked_cell(void **state)
{
    struct bench *b = *state;
    struct brig_error err = {0};
    const char *argv[] = {"./test_template", "serve", "well"};
    struct brig_spec *spec = new_spec(argv, COUNT(argv));
    set(spec, "workdir", b->dir->path);
    assert_int_equal(brig_warm(b->brig, spec, 1, NULL), 0);
    assert_int_equal(brig_template_start(b->brig, spec, &b->template, &b->run, &err), 0);
    assert_false(brig_run_was_warm(b->run));
    assert_int_equal(wait_until_ready(b, &err), 1);
    assert_int_equal(brig_warm(b->brig, spec, 0, NULL), 0);
    brig_spec_free(spec);
}

/* Whatever it sends after that: what the caller has been given stays what it sent. */
static void test_an_answer_and_another_one(void **state)
{
    struct bench *b = *state;
    size_t len = 0;
    set(b->spec, "channel", "on");
    serve(b);
    struct brig_run *run = start_call(b, "t");
    while (!brig_run_answer(run, &len))
        assert_int_equal(brig_run_wait(run, 20), 0);
    assert_int_equal(brig_run_wait(run, 30000), 1);
    const struct brig_result *result = brig_run_result(run);
    assert_int_equal(result->status, BRIG_EXITED);
    assert_int_equal(result->output_len, 1);
    assert_memory_equal(result->output, "1", 1);
    brig_run_free(run);
    run = start_call(b, "t"); /* nobody asks */
    assert_int_equal(brig_run_wait(run, 30000), 1);
    assert_null(brig_run_result(run)->output);
    brig_run_free(run);
}

static void check_input(struct bench *b, const char *input, size_t len, const char *wanted)
{
    struct brig_run *run = NULL;
    struct brig_error err = {0};
    if (brig_spec_give_input(b->spec, input, len, &err) < 0 ||
        brig_start(b->brig, b->spec, &run, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(brig_run_wait(run, 30000), 1);
    assert_int_equal(brig_run_result(run)->out.len, strlen(wanted));
    assert_memory_equal(brig_run_result(run)->out.data, wanted, strlen(wanted));
    brig_run_free(run);
}

static void test_input_that_comes_with_the_job(void **state)
{
    static char input[BRIG_INPUT_MAX + 1];
    struct bench *b = *state;
    struct brig_run *run = NULL;
    struct brig_error err = {0};
    serve(b);
    memset(input, 'z', sizeof input);
    input[0] = 'i';
    struct brig_spec *copy = NULL; /* which has it as well, and so has what was read into */
    assert_int_equal(brig_spec_give_input(b->spec, input, 3, NULL), 0);
    assert_int_equal(brig_spec_copy(b->spec, &copy, NULL), 0);
    assert_int_equal(brig_spec_read_json(b->spec, "{\"timeout\":20}", 14, "text", &err), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(brig_start(b->brig, i == 0 ? copy : b->spec, &run, &err), 0);
        assert_int_equal(brig_run_wait(run, 30000), 1);
        assert_memory_equal(brig_run_result(run)->out.data, "3 iz", 4);
        brig_run_free(run);
    }
    brig_spec_free(copy);
    for (unsigned ahead = 0; ahead < 2; ahead++) {
        assert_int_equal(brig_warm(b->brig, b->spec, ahead, NULL), 0);
        check_input(b, input, 2, "2 iz");
        check_input(b, input, BRIG_INPUT_MAX, "16384 iz");
    }
    assert_int_equal(brig_spec_give_input(b->spec, input, sizeof input, &err), -EINVAL);
    assert_contains(err.text, "16385 bytes");
    assert_int_equal(brig_spec_give_input(b->spec, input, 0, NULL), -EINVAL);
    assert_int_equal(brig_spec_give_input(b->spec, NULL, 0, NULL), 0);
    run = start_call(b, "h"); /* which is on its stdin again */
    assert_int_equal(brig_run_wait(run, 30000), 1);
    assert_contains((const char *)brig_run_result(run)->out.data, "pid 3");
    brig_run_free(run);
    brig_spec_set_template(b->spec, NULL);
    assert_int_equal(brig_spec_give_input(b->spec, input, 2, NULL), 0);
    assert_true(brig_start(b->brig, b->spec, &run, &err) < 0);
    assert_int_equal(err.fault, BRIG_FAULT_USAGE);
    assert_contains(err.text, "only a call of a template");
}

/* Is a pidfd of it open here? */
static bool is_held(int pid)
{
    char path[64], text[512], wanted[32];
    bool held = false;
    snprintf(wanted, sizeof wanted, "\nPid:\t%d\n", pid);
    for (int fd = 0; fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
        held =
            held || (fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 && strstr(text, wanted));
    }
    return held;
}

/* The pool thread is not in a fork: there, the run is let go, and nothing of it stays open. */
static void test_an_answered_call_in_a_fork(void **state)
{
    struct bench *b = *state;
    size_t len = 0;
    set(b->spec, "channel", "on");
    serve(b);
    assert_int_equal(brig_warm(b->brig, b->spec, 1, NULL), 0);
    struct brig_run *run = start_call(b, "a");
    while (!brig_run_answer(run, &len))
        assert_int_equal(brig_run_wait(run, 20), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int init = brig_run_pid(run);
        bool before = is_held(init);
        brig_run_free(run);
        _exit(before && !is_held(init) ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(kill(brig_run_pid(run), 0), 0); /* it goes on */
    brig_run_free(run);
}

static void test_what_a_call_cannot_have(void **state)
{
    static const char *const keys[][2] = {
        {"ro", "/usr"}, {"rw", "/tmp"}, {"tmpfs", "/x"}, {"view", "host"}, {"network", "host"}};
    struct bench *b = *state;
    serve(b);
    for (size_t i = 0; i < COUNT(keys); i++) {
        const char *argv[] = {"call"};
        struct brig_spec *spec = new_spec(argv, 1);
        struct brig_error err = {0};
        struct brig_run *run = NULL;
        set(spec, keys[i][0], keys[i][1]);
        brig_spec_set_template(spec, b->template);
        assert_true(brig_start(b->brig, spec, &run, &err) < 0);
        assert_contains(err.text, keys[i][0]);
        brig_spec_free(spec);
    }
}

static void test_not_ready_with_threads(void **state)
{
    struct bench *b = *state;
    struct brig_error err = {0};
    start_template(b, "threads");
    assert_true(wait_until_ready(b, &err) < 0);
    assert_int_equal(brig_run_wait(b->run, 30000), 1);
    assert_contains((const char *)brig_run_result(b->run)->err.data, "busy");
}

/* Calls would find in it what others have left. */
static void test_not_ready_with_shared_memory(void **state)
{
    struct bench *b = *state;
    struct brig_error err = {0};
    start_template(b, "shares");
    assert_true(wait_until_ready(b, &err) < 0);
    assert_int_equal(brig_run_wait(b->run, 30000), 1);
    assert_contains((const char *)brig_run_result(b->run)->err.data, "not supported");
    brig_run_free(b->run);
    brig_template_free(b->template);
    start_template(b, "keeps"); /* to itself */
    assert_int_equal(wait_until_ready(b, &err), 1);
}

static void test_a_template_that_talks_nonsense(void **state)
{
    struct bench *b = *state;
    struct brig_error err = {0};
    struct brig_run *run = NULL;
    start_template(b, "junk");
    assert_true(wait_until_ready(b, &err) < 0);
    static const char *const lies[] = {"liar", "traitor", "fool"};
    for (size_t i = 0; i < COUNT(lies); i++) {
        brig_run_free(b->run);
        brig_template_free(b->template);
        start_template(b, lies[i]);
        assert_int_equal(wait_until_ready(b, &err), 1);
        brig_spec_set_template(b->spec, b->template);
        err = (struct brig_error){0};
        assert_true(try_start(b, "h", &run, &err) < 0);
        assert_string_equal(err.stage, "template");
        assert_contains(err.text, "cannot fork");
    }
}

static int count_descriptors(void)
{
    int count = 0;
    DIR *listing = opendir("/proc/self/fd");
    assert_non_null(listing);
    while (readdir(listing))
        count++;
    closedir(listing);
    return count;
}

/* It says that it is ready, and that it has forked, each with two descriptors: as many as the
 * kernel puts where there is room for one. */
static void test_review_d6_descriptors_that_nobody_asked_for(void **state)
{
    struct bench *b = *state;
    struct brig_error err = {0};
    struct brig_run *run = NULL;
    int before = 0;
    for (int i = 0; i < 4; i++) {
        if (i == 2) /* what the handle keeps for the next runs is there now */
            before = count_descriptors();
        start_template(b, "generous");
        assert_int_equal(wait_until_ready(b, &err), 1);
        brig_spec_set_template(b->spec, b->template);
        assert_true(try_start(b, "h", &run, &err) < 0);
        brig_spec_set_template(b->spec, NULL);
        brig_run_free(b->run);
        brig_template_free(b->template);
        b->run = NULL;
        b->template = NULL;
    }
    assert_int_equal(count_descriptors(), before);
}

/* Pending signals are counted for the user of a namespace, and for the users of those above it. */
static void test_review_d6_signals_of_one_call_are_not_its_siblings(void **state)
{
    struct bench *b = *state;
    char path[4200], taken[16] = "", out[256];
    uint64_t until = clock_now() + READY_WITHIN;
    serve(b);
    struct brig_run *greedy = start_call(b, "Q");
    snprintf(path, sizeof path, "%s/taken", b->dir->path);
    while (!strchr(taken, '\n') && clock_now() < until) {
        brig_run_wait(greedy, 5);
        if (fd_read_file(AT_FDCWD, path, taken, sizeof taken) < 0)
            taken[0] = 0;
    }
    assert_int_equal(atoi(taken), 1024);
    assert_int_equal(call(b, "q", out, sizeof out), BRIG_EXITED);
    assert_string_equal(out, "10");
    brig_run_free(greedy);
}

static void test_calls_end_with_their_template(void **state)
{
    struct bench *b = *state;
    struct brig_error err = {0};
    serve(b);
    struct brig_run *run = start_call(b, "w");
    for (int i = 0; i < 2; i++)
        brig_run_cancel(b->run, NULL);
    assert_int_equal(brig_run_wait(b->run, 30000), 1);
    assert_int_equal(brig_run_wait(run, 30000), 1);
    /* The first cancel asks all processes to end; the call's init may be quick enough to tell. */
    enum brig_status status = brig_run_result(run)->status;
    assert_true(status == BRIG_ERROR ||
                (status == BRIG_SIGNALED && brig_run_result(run)->signal == SIGTERM));
    brig_run_free(run);
    assert_true(try_start(b, "h", &run, &err) < 0);
    assert_contains(err.text, "has ended");
}

static void test_a_fork_of_the_caller_has_no_template(void **state)
{
    struct bench *b = *state;
    serve(b);
    pid_t pid = fork();
    if (pid == 0) {
        struct brig_run *run = NULL;
        struct brig_error err = {0};
        int ret = try_start(b, "h", &run, &err);
        _exit(ret < 0 && strstr(err.text, "fork") ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    char out[256];
    assert_int_equal(call(b, "h", out, sizeof out), BRIG_EXITED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)

int main(int argc, char **argv)
{
    static char path[4096];
    if (argc > 2 && strcmp(argv[1], "serve") == 0)
        return be_template(argv[2]);
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
        return 1;
    program = path;
    const struct CMUnitTest tests[] = {
        TEST(test_a_call_has_what_the_template_loaded),
        TEST(test_a_call_is_told_where_it_runs),
        TEST(test_a_call_has_its_own_namespaces),
        TEST(test_nothing_of_a_call_is_there_for_the_next),
        TEST(test_a_call_is_held_like_any_guest),
        TEST(test_the_layers_are_told_as_they_are),
        TEST(test_limits_are_of_each_call),
        TEST(test_a_call_that_cannot_begin),
        TEST(test_forked_ahead),
        TEST(test_an_answer_before_the_end),
        TEST(test_the_memory_file_counts_once_it_is_sealed),
        TEST(test_an_answered_call_in_a_fork),
        TEST(test_an_answer_with_secrets_stays_as_it_was_given),
        TEST(test_a_template_is_not_started_in_a_parked_cell),
        TEST(test_an_answer_and_another_one),
        TEST(test_input_that_comes_with_the_job),
        TEST(test_what_a_call_cannot_have),
        TEST(test_not_ready_with_threads),
        TEST(test_not_ready_with_shared_memory),
        TEST(test_a_template_that_talks_nonsense),
        TEST(test_review_d6_descriptors_that_nobody_asked_for),
        TEST(test_review_d6_signals_of_one_call_are_not_its_siblings),
        TEST(test_calls_end_with_their_template),
        TEST(test_a_fork_of_the_caller_has_no_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
