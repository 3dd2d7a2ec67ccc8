/* SPDX-License-Identifier: MIT */
/* lib/eventlog.c: whole lines of JSON, a queue that is bounded, and an account of what was dropped.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <unistd.h>

#include "check.h"
#include "lib/run/run.h"

#define ROOM 8192

struct bench {
    struct brig_run run;
    struct brig_event_log *log;
    int ends[2];
    uint64_t sequence;
    char text[1u << 20];
    size_t len;
};

static int start(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    if (!b || pipe2(b->ends, O_CLOEXEC) < 0)
        return -1;
    fcntl(b->ends[1], F_SETPIPE_SZ, 4096);
    fcntl(b->ends[0], F_SETFL, O_NONBLOCK);
    snprintf(b->run.report.id, sizeof b->run.report.id, "r1");
    b->run.clocks.started_at = INT64_C(1709210096000000000);
    *state = b;
    alarm(20);
    return brig_event_log_new(&b->log, b->ends[1], ROOM, NULL);
}

static int end(void **state)
{
    struct bench *b = *state;
    alarm(0);
    brig_event_log_free(b->log);
    if (b->ends[0] >= 0)
        close(b->ends[0]);
    close(b->ends[1]);
    free(b);
    return 0;
}

#define log_test(test) cmocka_unit_test_setup_teardown(test, start, end)

static void add(struct bench *b, struct brig_event event)
{
    event.sequence = ++b->sequence;
    event.elapsed_ns = UINT64_C(1500000000);
    brig_event_log_add(b->log, &b->run, &event);
}

static void add_output(struct bench *b, const char *bytes, size_t len)
{
    add(b, (struct brig_event){.type = BRIG_EVENT_OUTPUT,
                               .stream = BRIG_STDOUT,
                               .data = (const unsigned char *)bytes,
                               .len = len});
}

static bool read_some(struct bench *b)
{
    ssize_t n = read(b->ends[0], b->text + b->len, sizeof b->text - b->len);
    b->len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

static void read_all(struct bench *b)
{
    do
        brig_event_log_flush(b->log);
    while (read_some(b));
}

/* The next line of what was read, or NULL. */
static json_t *next_line(struct bench *b, size_t *at)
{
    const char *line = b->text + *at, *newline = memchr(line, '\n', b->len - *at);
    if (!newline) {
        assert_int_equal(*at, b->len); /* no half of a line at the end */
        return NULL;
    }
    json_error_t error;
    size_t len = (size_t)(newline - line);
    json_t *root = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!root)
        fail_msg("%s: %.*s", error.text, (int)len, line);
    *at += len + 1;
    return root;
}

static const char *text_at(const json_t *root, const char *key)
{
    return json_string_value(json_object_get(root, key));
}

static json_int_t number_at(const json_t *root, const char *key)
{
    return json_integer_value(json_object_get(root, key));
}

/* ---- lines --------------------------------------------------------------------------------- */

static void test_every_kind_of_event_is_a_line_of_its_own(void **state)
{
    static const char *const types[] = {"started", "stdout", "stderr", "usage", "limit", "ended"};
    struct bench *b = *state;
    add(b, (struct brig_event){.type = BRIG_EVENT_STARTED, .pid = 42});
    add_output(b, "a\nb", 3);
    add(b, (struct brig_event){.type = BRIG_EVENT_OUTPUT,
                               .stream = BRIG_STDERR,
                               .data = (const unsigned char *)"\xff",
                               .len = 1});
    add(b, (struct brig_event){.type = BRIG_EVENT_USAGE,
                               .memory_bytes = 5,
                               .cpu_ns = 500000000,
                               .pids = BRIG_UNKNOWN});
    add(b, (struct brig_event){.type = BRIG_EVENT_LIMIT, .limit = "timeout"});
    add(b, (struct brig_event){.type = BRIG_EVENT_ENDED});
    read_all(b);
    size_t at = 0;
    for (size_t i = 0; i < COUNT(types); i++) {
        json_t *line = next_line(b, &at);
        assert_non_null(line);
        assert_string_equal(text_at(line, "type"), types[i]);
        assert_int_equal(number_at(line, "sequence"), i + 1);
        assert_string_equal(text_at(line, "run"), "r1");
        assert_string_equal(text_at(line, "time"), "2024-02-29T12:34:57.500Z");
        assert_true(json_real_value(json_object_get(line, "elapsed_seconds")) == 1.5);
        assert_null(json_object_get(line, "dropped"));
        json_decref(line);
    }
    assert_null(next_line(b, &at));
}

static void test_output_is_text_or_base64(void **state)
{
    struct bench *b = *state;
    add_output(b, "a\n\0", 3);
    add_output(b, "\xff\xfe", 2);
    read_all(b);
    size_t at = 0;
    json_t *line = next_line(b, &at);
    assert_int_equal(json_string_length(json_object_get(line, "data")), 3);
    assert_string_equal(text_at(line, "encoding"), "utf-8");
    json_decref(line);
    line = next_line(b, &at);
    assert_string_equal(text_at(line, "data"), "//4=");
    assert_string_equal(text_at(line, "encoding"), "base64");
    json_decref(line);
}

static void test_the_largest_chunk_of_the_worst_bytes_fits_a_line(void **state)
{
    struct bench *b = *state;
    static char controls[PUMP_CHUNK];
    struct brig_event_log *log;
    memset(controls, 1, sizeof controls);
    assert_int_equal(brig_event_log_new(&log, b->ends[1], 1u << 20, NULL), 0);
    brig_event_log_free(b->log);
    b->log = log;
    add_output(b, controls, sizeof controls);
    read_all(b);
    size_t at = 0;
    json_t *line = next_line(b, &at);
    assert_non_null(line);
    assert_int_equal(json_string_length(json_object_get(line, "data")), sizeof controls);
    assert_int_equal(brig_event_log_dropped(b->log), 0);
    json_decref(line);
}

/* ---- a slow reader ------------------------------------------------------------------------- */

static void test_a_reader_that_does_not_read_costs_lines_and_no_time(void **state)
{
    struct bench *b = *state;
    char bytes[100];
    memset(bytes, 'x', sizeof bytes);
    for (int i = 0; i < 1000; i++) {
        add_output(b, bytes, sizeof bytes);
        assert_true(brig_event_log_flush(b->log) <= ROOM);
    }
    assert_true(brig_event_log_dropped(b->log) > 0);
}

/* Lines are numbered without gaps, so what is missing can be counted and compared. */
static void test_what_was_dropped_is_said_by_the_next_line(void **state)
{
    struct bench *b = *state;
    char bytes[100];
    memset(bytes, 'x', sizeof bytes);
    for (int i = 0; i < 500; i++) {
        add_output(b, bytes, sizeof bytes);
        if (i % 90 == 89) {
            read_some(b);
            brig_event_log_flush(b->log);
        }
    }
    read_all(b);
    add(b, (struct brig_event){.type = BRIG_EVENT_ENDED});
    read_all(b);
    size_t at = 0;
    json_int_t last = 0, said = 0;
    for (json_t *line; (line = next_line(b, &at)); json_decref(line)) {
        json_int_t sequence = number_at(line, "sequence");
        said += number_at(line, "dropped");
        assert_true(sequence > last);
        last = sequence;
    }
    assert_int_equal(last, 501);
    assert_int_equal(said, brig_event_log_dropped(b->log));
}

static void test_the_last_line_is_kept_over_the_oldest(void **state)
{
    struct bench *b = *state;
    char bytes[1000];
    memset(bytes, 'x', sizeof bytes);
    for (int i = 0; i < 100; i++)
        add_output(b, bytes, sizeof bytes);
    add(b, (struct brig_event){.type = BRIG_EVENT_ENDED});
    read_all(b);
    assert_contains(b->text, "\"type\":\"ended\"");
}

static void test_a_line_that_is_larger_than_the_queue_is_dropped_and_counted(void **state)
{
    struct bench *b = *state;
    static char bytes[ROOM];
    add_output(b, bytes, sizeof bytes);
    assert_int_equal(brig_event_log_dropped(b->log), 1);
    add(b, (struct brig_event){.type = BRIG_EVENT_ENDED});
    read_all(b);
    size_t at = 0;
    json_t *line = next_line(b, &at);
    assert_int_equal(number_at(line, "dropped"), 1);
    json_decref(line);
}

static void test_the_descriptor_polls_when_there_is_room_again(void **state)
{
    struct bench *b = *state;
    char bytes[1000];
    struct pollfd ready = {.fd = brig_event_log_fd(b->log), .events = POLLIN};
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(poll(&ready, 1, 0), 0); /* nothing queued, nothing to do */
    for (int i = 0; i < 6; i++)
        add_output(b, bytes, sizeof bytes);
    assert_true(brig_event_log_flush(b->log) > 0);
    assert_int_equal(poll(&ready, 1, 0), 0);
    assert_true(read_some(b));
    assert_int_equal(poll(&ready, 1, 5000), 1);
    read_all(b);
    assert_int_equal(poll(&ready, 1, 0), 0);
    assert_int_equal(brig_event_log_dropped(b->log), 0);
}

static void test_a_reader_that_is_gone_costs_all_lines_and_no_signal(void **state)
{
    struct bench *b = *state;
    close(b->ends[0]);
    b->ends[0] = -1;
    for (int i = 0; i < 10; i++)
        add_output(b, "x", 1);
    assert_int_equal(brig_event_log_dropped(b->log), 10);
    assert_int_equal(brig_event_log_flush(b->log), 0);
}

static void test_what_is_not_a_descriptor_is_refused(void **state)
{
    struct brig_event_log *log = (struct brig_event_log *)state;
    struct brig_error err;
    assert_int_equal(brig_event_log_new(&log, 100000, ROOM, &err), -EBADF);
    assert_ptr_equal(log, state);
    assert_contains(err.text, "cannot write events to descriptor 100000");
    brig_event_log_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        log_test(test_every_kind_of_event_is_a_line_of_its_own),
        log_test(test_output_is_text_or_base64),
        log_test(test_the_largest_chunk_of_the_worst_bytes_fits_a_line),
        log_test(test_a_reader_that_does_not_read_costs_lines_and_no_time),
        log_test(test_what_was_dropped_is_said_by_the_next_line),
        log_test(test_the_last_line_is_kept_over_the_oldest),
        log_test(test_a_line_that_is_larger_than_the_queue_is_dropped_and_counted),
        log_test(test_the_descriptor_polls_when_there_is_room_again),
        log_test(test_a_reader_that_is_gone_costs_all_lines_and_no_signal),
        cmocka_unit_test(test_what_is_not_a_descriptor_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
