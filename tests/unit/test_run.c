/* SPDX-License-Identifier: MIT */
/* lib/run.c as an event loop sees it: late steps, events and their bytes, and that ending and
 * freeing leave nothing. What a guest can do is in tests/system. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "brig.h"
#include "check.h"

struct bench {
    struct brig *brig;
    struct brig_spec *spec;
    struct brig_run *run;
    struct buf events[3]; /* the bytes of all output events, by stream */
    uint64_t sequence;
    int fds;
};

static int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static int start(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    if (!b || brig_open(&b->brig, NULL) < 0 || brig_spec_new(&b->spec, NULL) < 0)
        return -1;
    for (size_t i = 0; i < COUNT(b->events); i++)
        buf_init(&b->events[i], 1u << 20);
    b->fds = count_fds();
    *state = b;
    alarm(60);
    return 0;
}

/* Whatever happened, nothing of the run is left. */
static int end(void **state)
{
    struct bench *b = *state;
    alarm(0);
    brig_run_free(b->run);
    assert_int_equal(count_fds(), b->fds);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    brig_spec_free(b->spec);
    brig_close(b->brig);
    for (size_t i = 0; i < COUNT(b->events); i++)
        buf_done(&b->events[i]);
    free(b);
    return 0;
}

#define step_test(test) cmocka_unit_test_setup_teardown(test, start, end)

static void set(struct bench *b, const char *key, const char *value)
{
    assert_int_equal(brig_spec_set(b->spec, key, value, BRIG_FROM_OPTION, NULL, NULL), 0);
}

static void run_shell(struct bench *b, const char *script)
{
    const char *command[] = {"/bin/sh", "-c", script};
    struct brig_error err;
    assert_int_equal(brig_spec_set_command(b->spec, command, 3, NULL), 0);
    if (brig_start(b->brig, b->spec, &b->run, &err) < 0)
        fail_msg("%s", err.text);
    brig_run_watch(b->run);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void keep_events(struct bench *b)
{
    struct brig_event event;
    while (brig_run_next_event(b->run, &event)) {
        assert_int_equal(event.sequence, b->sequence + 1);
        b->sequence = event.sequence;
        if (event.type == BRIG_EVENT_OUTPUT)
            buf_add(&b->events[event.stream], event.data, event.len);
    }
}

static const struct brig_result *finish(struct bench *b)
{
    struct pollfd ready = {.fd = brig_run_fd(b->run), .events = POLLIN};
    while (!brig_run_step(b->run)) {
        keep_events(b);
        assert_null(brig_run_result(b->run));
        assert_int_equal(poll(&ready, 1, 30000), 1);
    }
    keep_events(b);
    return brig_run_result(b->run);
}

static void check_events(const struct bench *b, const struct brig_result *result)
{
    const struct brig_output *outputs[] = {NULL, &result->out, &result->err};
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        assert_int_equal(b->events[i].len, outputs[i]->len);
        if (outputs[i]->len)
            assert_memory_equal(b->events[i].data, outputs[i]->data, outputs[i]->len);
    }
}

/* ---- results ------------------------------------------------------------------------------- */

static void test_a_run_that_is_stepped_in_time_ends_with_its_result(void **state)
{
    struct bench *b = *state;
    run_shell(b, "echo out; echo err >&2; exit 3");
    const struct brig_result *result = finish(b);
    assert_int_equal(result->status, BRIG_EXITED);
    assert_int_equal(result->exit_code, 3);
    assert_memory_equal(result->out.data, "out\n", 4);
    assert_memory_equal(result->err.data, "err\n", 4);
    check_events(b, result);
    assert_int_equal(brig_run_step(b->run), 1); /* and again, for ever */
}

static void test_a_run_that_is_stepped_late_loses_nothing(void **state)
{
    struct bench *b = *state;
    run_shell(b, "echo out; echo err >&2; exit 3");
    sleep_ms(300);
    const struct brig_result *result = finish(b);
    assert_int_equal(result->exit_code, 3);
    assert_memory_equal(result->out.data, "out\n", 4);
    check_events(b, result);
}

static void test_waiting_ends_when_its_time_is_over(void **state)
{
    struct bench *b = *state;
    run_shell(b, "sleep 100");
    uint64_t before = clock_now();
    assert_int_equal(brig_run_wait(b->run, 50), 0);
    assert_true(clock_now() - before >= 50 * NS_PER_MS);
    assert_null(brig_run_result(b->run));
}

/* ---- events -------------------------------------------------------------------------------- */

/* Head and tail of a truncated output come in the same step if the step comes late. */
static void test_events_of_one_step_have_bytes_of_their_own(void **state)
{
    struct bench *b = *state;
    set(b, "output", "10");
    set(b, "on_output_limit", "truncate");
    run_shell(b, "printf abcdefghijklmnopqrstuvwxyz");
    sleep_ms(300);
    const struct brig_result *result = finish(b);
    assert_memory_equal(result->out.data, "abcdevwxyz", 10);
    check_events(b, result);
}

static void test_a_character_that_is_cut_at_the_end_of_a_tail_is_in_an_event(void **state)
{
    struct bench *b = *state;
    set(b, "output", "10");
    set(b, "on_output_limit", "truncate");
    run_shell(b, "printf 'abcdefghijklmnopqrstuvwxyz\\303'");
    const struct brig_result *result = finish(b);
    assert_memory_equal(result->out.data, "abcdewxyz\xc3", 10);
    assert_int_equal(b->events[BRIG_STDOUT].len, 10);
}

/* ---- ending -------------------------------------------------------------------------------- */

static void test_a_cancel_says_why(void **state)
{
    struct bench *b = *state;
    run_shell(b, "sleep 100");
    brig_run_cancel(b->run, "the test is over\n");
    const struct brig_result *result = finish(b);
    assert_int_equal(result->status, BRIG_CANCELLED);
    assert_string_equal(result->notes, "Cancelled: the test is over\\x0a.");
    brig_run_cancel(b->run, "too late");
    assert_int_equal(brig_run_result(b->run)->status, BRIG_CANCELLED);
}

static void test_a_second_cancel_does_not_wait(void **state)
{
    struct bench *b = *state;
    set(b, "kill_after", "50s");
    run_shell(b, "trap '' TERM; echo ready; while :; do sleep 1; done");
    while (b->events[BRIG_STDOUT].len == 0) {
        assert_int_equal(brig_run_step(b->run), 0);
        keep_events(b);
        sleep_ms(1);
    }
    brig_run_cancel(b->run, NULL);
    assert_int_equal(brig_run_wait(b->run, 200), 0);
    brig_run_cancel(b->run, NULL);
    assert_int_equal(brig_run_wait(b->run, 20000), 1);
    assert_int_equal(brig_run_result(b->run)->status, BRIG_CANCELLED);
}

static void test_freeing_a_run_that_goes_on_ends_it(void **state)
{
    struct bench *b = *state;
    run_shell(b, "trap '' TERM; sleep 100 & sleep 100");
    sleep_ms(100);
    brig_run_free(b->run);
    b->run = NULL;
}

static void test_a_start_that_failed_leaves_nothing_and_the_output_alone(void **state)
{
    static const char *const commands[] = {"no-such-command", "/dev/null", "/etc/passwd"};
    struct bench *b = *state;
    for (size_t i = 0; i < COUNT(commands); i++) {
        struct brig_run *run = (struct brig_run *)b;
        struct brig_error err = {0};
        assert_int_equal(brig_spec_set_command(b->spec, &commands[i], 1, NULL), 0);
        assert_true(brig_start(b->brig, b->spec, &run, &err) < 0);
        assert_ptr_equal(run, b);
        assert_contains(err.text, commands[i]);
        assert_int_equal(count_fds(), b->fds);
    }
}

static void test_null_is_accepted_where_it_may_be(void **state)
{
    brig_run_free(NULL);
    brig_close(NULL);
    brig_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        step_test(test_a_run_that_is_stepped_in_time_ends_with_its_result),
        step_test(test_a_run_that_is_stepped_late_loses_nothing),
        step_test(test_waiting_ends_when_its_time_is_over),
        step_test(test_events_of_one_step_have_bytes_of_their_own),
        step_test(test_a_character_that_is_cut_at_the_end_of_a_tail_is_in_an_event),
        step_test(test_a_cancel_says_why),
        step_test(test_a_second_cancel_does_not_wait),
        step_test(test_freeing_a_run_that_goes_on_ends_it),
        step_test(test_a_start_that_failed_leaves_nothing_and_the_output_alone),
        cmocka_unit_test(test_null_is_accepted_where_it_may_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
