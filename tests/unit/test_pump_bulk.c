/* SPDX-License-Identifier: MIT */
/* lib/pump.c with a guest that writes much: what goes to its sink without being looked at is the
 * same to the byte as what is, whatever the sink, its reader and the budget. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "lib/run/pump.h"
#include "random.h"

#define TOTAL (5u << 20)

enum where { TO_CAPTURE, TO_FILE, TO_PIPE, TO_SOCKET, WHERE_COUNT };

/* A guest's stdout, its pump and the reader of its sink. */
struct flow {
    struct pump pump;
    struct random random;
    enum where where;
    int guest[2], sink[2]; /* read end, write end */
    const unsigned char *text;
    size_t len, sent;
    struct buf got;
};

static void open_sink(struct flow *f)
{
    if (f->where == TO_FILE)
        f->sink[0] = f->sink[1] = memfd_create("sink", MFD_CLOEXEC);
    else if (f->where == TO_PIPE)
        assert_int_equal(pipe2(f->sink, O_CLOEXEC), 0);
    else if (f->where == TO_SOCKET)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, f->sink), 0);
}

static struct flow *flow_new(enum where where, const unsigned char *text, size_t len,
                             uint64_t budget)
{
    struct flow *f = calloc(1, sizeof *f);
    assert_non_null(f);
    *f = (struct flow){.where = where, .sink = {-1, -1}, .text = text, .len = len, .random = {3}};
    buf_init(&f->got, 4 * (size_t)TOTAL);
    assert_int_equal(pipe2(f->guest, O_CLOEXEC | O_NONBLOCK), 0);
    open_sink(f);
    enum brig_sink kind = where == TO_CAPTURE ? BRIG_SINK_CAPTURE : BRIG_SINK_PASS;
    struct spec_sink sinks[3] = {{0}, {kind, f->sink[1]}, {BRIG_SINK_DISCARD, -1}};
    const int fds[3] = {-1, f->guest[0], -1};
    assert_int_equal(pump_init(&f->pump, sinks, fds, budget, false, NULL), 0);
    return f;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void flow_free(struct flow *f)
{
    pump_done(&f->pump);
    close_end(&f->guest[0]);
    close_end(&f->guest[1]);
    close_end(&f->sink[1]);
    if (f->where != TO_FILE)
        close_end(&f->sink[0]);
    buf_done(&f->got);
    free(f);
}

/* The guest writes as much as its pipe takes, in pieces of its own choice; true at its end. */
static bool guest_writes(struct flow *f)
{
    static const size_t most[] = {20, 4096, 9000, 70000, 300000};
    while (f->sent < f->len) {
        size_t n = 1 + random_below(&f->random, most[random_below(&f->random, COUNT(most))]);
        n = n < f->len - f->sent ? n : f->len - f->sent;
        ssize_t done = write(f->guest[1], f->text + f->sent, n);
        if (done < 0)
            return false;
        f->sent += (size_t)done;
    }
    close_end(&f->guest[1]);
    return true;
}

/* Its reader takes up to `most` bytes: 0 is none. */
static void reader_takes(struct flow *f, size_t most)
{
    if (f->where == TO_CAPTURE || f->where == TO_FILE || !most)
        return;
    char *at = buf_reserve(&f->got, most);
    assert_non_null(at);
    ssize_t n = recv(f->sink[0], at, most, MSG_DONTWAIT);
    if (n < 0 && errno == ENOTSOCK) {
        int waiting = 0;
        assert_int_equal(ioctl(f->sink[0], FIONREAD, &waiting), 0);
        n = waiting ? read(f->sink[0], at, most) : 0;
    }
    f->got.len += n > 0 ? (size_t)n : 0;
}

static void finish_flow(struct flow *f)
{
    int stream;
    f->pump.streams[BRIG_STDOUT].fd = -1;
    enum pump_state state;
    while ((state = pump_finish(&f->pump, &stream)) != PUMP_ENDED)
        if (state == PUMP_BLOCKED)
            reader_takes(f, 100000);
    close_end(&f->sink[1]);
    for (size_t before = SIZE_MAX; before != f->got.len;) {
        before = f->got.len;
        reader_takes(f, 100000);
    }
    if (f->where == TO_FILE) {
        off_t size = lseek(f->pump.streams[BRIG_STDOUT].writer.fd, 0, SEEK_END);
        char *at = buf_reserve(&f->got, (size_t)size);
        assert_int_equal(pread(f->pump.streams[BRIG_STDOUT].writer.fd, at, (size_t)size, 0), size);
        f->got.len = (size_t)size;
    }
    if (f->where == TO_CAPTURE)
        buf_add(&f->got, f->pump.streams[BRIG_STDOUT].capture.data,
                f->pump.streams[BRIG_STDOUT].capture.len);
}

/* All of it; the reader takes its pieces, slowly or not, while it runs. */
static void run_flow(struct flow *f, size_t piece)
{
    enum pump_state state;
    alarm(60);
    for (;;) {
        bool ended = guest_writes(f);
        state = pump_read(&f->pump, BRIG_STDOUT);
        assert_true(state != PUMP_BLOCKED || pump_waits(&f->pump, BRIG_STDOUT));
        reader_takes(f, random_below(&f->random, 4) ? random_below(&f->random, piece + 1) : 0);
        if (ended && state == PUMP_ENDED)
            break;
    }
    finish_flow(f);
    alarm(0);
}

/* ---- texts --------------------------------------------------------------------------------- */

static unsigned char plain[TOTAL], telling[TOTAL];

static int make_texts(void **state)
{
    struct random random = {11};
    for (size_t i = 0; i < TOTAL; i++)
        plain[i] = telling[i] = (unsigned char)('a' + random_below(&random, 26));
    for (size_t i = 100; i + 100 < TOTAL; i += 1 + random_below(&random, 200000))
        memcpy(telling + i, " password=hunter2xyz ", 21);
    return 0;
}

static void check_flow(const struct flow *f, const void *expected, size_t len)
{
    const struct pump_stream *s = &f->pump.streams[BRIG_STDOUT];
    assert_int_equal(s->bytes, len);
    assert_int_equal(f->got.len, len);
    assert_memory_equal(f->got.data, expected, len);
    assert_int_equal(f->pump.over, s->omitted > 0);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void test_every_byte_arrives_whatever_the_sink_and_its_reader(void **state)
{
    static const size_t pieces[] = {300, 40000, 400000};
    for (int where = 0; where < WHERE_COUNT; where++) {
        for (size_t i = where == TO_PIPE || where == TO_SOCKET ? 0 : 2; i < COUNT(pieces); i++) {
            size_t len = pieces[i] < 1000 ? 300000 : TOTAL;
            struct flow *f = flow_new((enum where)where, plain, len, BRIG_UNLIMITED - 1);
            run_flow(f, pieces[i]);
            assert_true(f->pump.streams[BRIG_STDOUT].bulk);
            check_flow(f, plain, len);
            flow_free(f);
        }
    }
}

static void test_what_is_hidden_is_the_same_whatever_the_sink_and_its_reader(void **state)
{
    static const size_t pieces[] = {40000, 400000};
    struct redact_rules *rules;
    struct buf expected;
    uint64_t count = 0;
    buf_init(&expected, 2 * (size_t)TOTAL);
    assert_int_equal(redact_rules_new(&rules, NULL, NULL, NULL), 0);
    assert_int_equal(redact_text(rules, (const char *)telling, TOTAL, &expected, &count), 0);
    assert_true(count > 10);
    for (int where = 0; where < WHERE_COUNT; where++) {
        for (size_t i = 0; i < COUNT(pieces); i++) {
            struct flow *f = flow_new((enum where)where, telling, TOTAL, 2 * (uint64_t)TOTAL);
            pump_redact(&f->pump, BRIG_STDOUT, rules);
            run_flow(f, pieces[i]);
            check_flow(f, expected.data, expected.len);
            assert_int_equal(redactor_count(f->pump.streams[BRIG_STDOUT].redactor), count);
            flow_free(f);
        }
    }
    redact_rules_free(rules);
    buf_done(&expected);
}

static void test_the_budget_ends_to_the_byte_wherever_it_does(void **state)
{
    static const size_t short_of[] = {0, 1, 4096, 65537, PUMP_BULK, 2 * PUMP_BULK, 4000000};
    struct redact_rules *rules;
    assert_int_equal(redact_rules_new(&rules, NULL, NULL, NULL), 0);
    for (int where = 0; where < WHERE_COUNT; where++) {
        for (size_t i = 0; i < 2 * COUNT(short_of); i++) {
            size_t budget = TOTAL - short_of[i / 2];
            struct flow *f = flow_new((enum where)where, plain, TOTAL, budget);
            if (i % 2)
                pump_redact(&f->pump, BRIG_STDOUT, rules);
            run_flow(f, 400000);
            check_flow(f, plain, budget);
            assert_int_equal(f->pump.streams[BRIG_STDOUT].omitted, short_of[i / 2]);
            flow_free(f);
        }
    }
    redact_rules_free(rules);
}

/* Nobody reads it until nothing more goes in. */
static void fill_sink(struct flow *f)
{
    const struct pump_stream *s = &f->pump.streams[BRIG_STDOUT];
    for (int i = 0; i < 1000 && !s->full; i++) {
        guest_writes(f);
        pump_read(&f->pump, BRIG_STDOUT);
    }
    assert_true(s->bulk && s->full);
    assert_int_equal(s->pending, 0);
    assert_true(pump_waits(&f->pump, BRIG_STDOUT));
}

/* Nothing that a full sink does not take is read from the guest, so that the guest waits. */
static void test_a_full_pipe_leaves_the_rest_with_the_guest(void **state)
{
    struct flow *f = flow_new(TO_PIPE, plain, TOTAL, BRIG_UNLIMITED - 1);
    struct pump_stream *s = &f->pump.streams[BRIG_STDOUT];
    int waiting = 0;
    fill_sink(f);
    guest_writes(f);
    uint64_t before = s->bytes;
    assert_int_equal(pump_read(&f->pump, BRIG_STDOUT), PUMP_BLOCKED);
    assert_int_equal(s->bytes, before);
    assert_int_equal(s->pending, 0);
    assert_int_equal(ioctl(f->guest[0], FIONREAD, &waiting), 0);
    assert_true(waiting > 0);
    assert_int_equal(s->bytes + (uint64_t)waiting, f->sent);
    run_flow(f, 400000);
    check_flow(f, plain, TOTAL);
    flow_free(f);
}

static void test_a_reader_that_left_a_full_pipe_is_a_broken_sink(void **state)
{
    struct flow *f = flow_new(TO_PIPE, plain, TOTAL, BRIG_UNLIMITED - 1);
    struct pump_stream *s = &f->pump.streams[BRIG_STDOUT];
    fill_sink(f);
    guest_writes(f);
    close_end(&f->sink[0]);
    assert_int_equal(pump_read(&f->pump, BRIG_STDOUT), PUMP_MOVED);
    assert_int_equal(s->broken, EPIPE);
    assert_true(s->omitted > 0);
    assert_false(pump_waits(&f->pump, BRIG_STDOUT));
    flow_free(f);
}

static void test_a_stream_that_is_closed_does_not_wait_for_its_sink(void **state)
{
    struct flow *f = flow_new(TO_PIPE, plain, TOTAL, BRIG_UNLIMITED - 1);
    struct pump_stream *s = &f->pump.streams[BRIG_STDOUT];
    fill_sink(f);
    s->fd = -1;
    assert_false(pump_waits(&f->pump, BRIG_STDOUT));
    flow_free(f);
}

static void test_pipes_are_enlarged_when_much_comes_unless_their_size_was_chosen(void **state)
{
    static const int sizes[] = {0, 8192, 131072};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct flow *f = flow_new(TO_PIPE, plain, TOTAL, BRIG_UNLIMITED - 1);
        if (sizes[i])
            assert_int_equal(fcntl(f->sink[1], F_SETPIPE_SZ, sizes[i]), sizes[i]);
        int before = fcntl(f->sink[1], F_GETPIPE_SZ);
        assert_int_equal(write(f->guest[1], plain, 100), 100);
        assert_int_equal(pump_read(&f->pump, BRIG_STDOUT), PUMP_MOVED);
        assert_int_equal(fcntl(f->sink[1], F_GETPIPE_SZ), before);
        guest_writes(f);
        while (!f->pump.streams[BRIG_STDOUT].bulk) {
            reader_takes(f, 100000);
            guest_writes(f);
            pump_read(&f->pump, BRIG_STDOUT);
        }
        assert_int_equal(fcntl(f->sink[1], F_GETPIPE_SZ), sizes[i] ? before : (int)PUMP_BULK);
        flow_free(f);
    }
}

/* The beginning of something that is hidden, and what may go on for ever behind it. */
static const struct {
    const char *begin, *more;
} endless[] = {
    {"password=abc1", "x"},
    {"{\"password\":\"abc1", "x y"},
    {"'token': 'abc123", "x1"},
    {"\\\"secret\\\": \\\"abc123", "\\\\x"},
    {"Authorization: Bearer abcdef0123456789", " x"},
    {"Cookie: a=bcdef", "; x=y"},
    {"https://user:pw1234", "x"},
    {"ghp_16C7e42F292c6912E7710c838347Ae178B4a", "Z"},
    {"bearer abcdef0123456789abcdef0123456789", "Z"},
    {"-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA0Z3VS5JJcds3xfn\n", "MIIEowIBAAKCAQEA\n"},
    {"CORP-", "x"},                    /* a pattern that goes on */
    {"aaaaaaaaaaaaaaaaaaaaaaaa", "a"}, /* and one that is stopped */
    {"plain ", "text "},
    {"", "password=abc1 "},
};

/* What is read before the budget is known to be used up: it, what is held back, what one read
 * gives. */
static size_t read_until_over(const struct redact_rules *rules, size_t which, uint64_t budget,
                              uint64_t seed)
{
    enum { SIZE = 2 << 20 };
    unsigned char *text = malloc(SIZE);
    struct random random = {seed};
    assert_non_null(text);
    size_t at = random_below(&random, 2000), len = strlen(endless[which].begin);
    memset(text, '.', at);
    text[at++] = '\n';
    memcpy(text + at, endless[which].begin, len);
    for (at += len; at < SIZE; at++)
        text[at] = (unsigned char)endless[which].more[at % strlen(endless[which].more)];
    struct flow *f = flow_new(TO_CAPTURE, text, SIZE, budget);
    size_t read = 0;
    f->random.state = seed;
    f->pump.watched = seed % 2;
    pump_redact(&f->pump, BRIG_STDOUT, rules);
    while (!f->pump.over && read < SIZE) {
        guest_writes(f);
        pump_read(&f->pump, BRIG_STDOUT);
        read += f->pump.streams[BRIG_STDOUT].read_len;
    }
    assert_true(f->pump.over);
    assert_true(f->pump.streams[BRIG_STDOUT].bytes <= budget);
    assert_true(f->pump.streams[BRIG_STDOUT].omitted > 0);
    flow_free(f);
    free(text);
    return read;
}

static void test_review_d3_whatever_is_hidden_counts_against_the_budget(void **state)
{
    static const char *const patterns[] = {"CORP-.*", "(?:a+)+[bc]", NULL};
    struct redact_rules *rules;
    struct random random = {7};
    assert_int_equal(redact_rules_new(&rules, NULL, patterns, NULL), 0);
    for (size_t i = 0; i < 4 * COUNT(endless); i++) {
        uint64_t budget = 1 + random_below(&random, 200000);
        size_t read = read_until_over(rules, i % COUNT(endless), budget, random_next(&random));
        if (read > budget + 3 * REDACT_HOLD + 2 * PUMP_CHUNK)
            fail_msg("%zu: of a budget of %llu, %zu were read", i, (unsigned long long)budget,
                     read);
    }
    redact_rules_free(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_arrives_whatever_the_sink_and_its_reader),
        cmocka_unit_test(test_what_is_hidden_is_the_same_whatever_the_sink_and_its_reader),
        cmocka_unit_test(test_the_budget_ends_to_the_byte_wherever_it_does),
        cmocka_unit_test(test_a_full_pipe_leaves_the_rest_with_the_guest),
        cmocka_unit_test(test_a_reader_that_left_a_full_pipe_is_a_broken_sink),
        cmocka_unit_test(test_a_stream_that_is_closed_does_not_wait_for_its_sink),
        cmocka_unit_test(test_review_d3_whatever_is_hidden_counts_against_the_budget),
        cmocka_unit_test(test_pipes_are_enlarged_when_much_comes_unless_their_size_was_chosen),
    };
    return cmocka_run_group_tests(tests, make_texts, NULL);
}
