/* SPDX-License-Identifier: MIT */
/* lib/pump.c over real pipes: the budget holds to the byte however the output is cut, truncation
 * keeps the head and the tail exactly, and a sink that takes nothing holds nothing else up. */
#include "lib/run/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.h"
#include "check.h"
#include "random.h"

#define INPUT_MAX (1u << 20)

/* A pump with both ends of its pipes, and all that went into it in the order it was read. */
struct bench {
    struct pump pump;
    int read_ends[3], write_ends[3];
    int sink_fds[3]; /* memory files, for BRIG_SINK_PASS */
    uint64_t budget;
    size_t count;
    unsigned char bytes[INPUT_MAX], streams[INPUT_MAX];
    unsigned char unread[3][INPUT_MAX]; /* written and not yet read, by stream */
    size_t unread_at[3], unread_end[3];
    struct buf events[3];
};

static struct bench *bench_new(uint64_t budget, bool truncate, enum brig_sink out,
                               enum brig_sink err)
{
    struct bench *b = calloc(1, sizeof *b);
    struct spec_sink sinks[3] = {{0}};
    assert_non_null(b);
    b->budget = budget;
    b->read_ends[0] = b->write_ends[0] = -1;
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        b->read_ends[i] = ends[0];
        b->write_ends[i] = ends[1];
        b->sink_fds[i] = memfd_create("sink", MFD_CLOEXEC);
        sinks[i] = (struct spec_sink){i == BRIG_STDOUT ? out : err, b->sink_fds[i]};
        buf_init(&b->events[i], INPUT_MAX);
    }
    assert_int_equal(pump_init(&b->pump, sinks, b->read_ends, budget, truncate, NULL), 0);
    return b;
}

static void bench_free(struct bench *b)
{
    pump_done(&b->pump);
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        close(b->read_ends[i]);
        if (b->write_ends[i] >= 0)
            close(b->write_ends[i]);
        close(b->sink_fds[i]);
        buf_done(&b->events[i]);
    }
    free(b);
}

static void bench_write(struct bench *b, int stream, const unsigned char *bytes, size_t len)
{
    ssize_t n = write(b->write_ends[stream], bytes, len);
    if (n < 0) {
        assert_int_equal(errno, EAGAIN);
        return;
    }
    memcpy(b->unread[stream] + b->unread_end[stream], bytes, (size_t)n);
    b->unread_end[stream] += (size_t)n;
}

static void keep_event(struct bench *b, int stream)
{
    const struct pump_stream *s = &b->pump.streams[stream];
    if (s->event)
        buf_add(&b->events[stream], s->event, s->event_len);
}

static enum pump_state bench_read(struct bench *b, int stream)
{
    int before = 0, after = 0;
    ioctl(b->read_ends[stream], FIONREAD, &before);
    enum pump_state state = pump_read(&b->pump, stream);
    ioctl(b->read_ends[stream], FIONREAD, &after);
    assert_true(state == PUMP_MOVED || before == after);
    size_t n = (size_t)(before - after);
    memcpy(b->bytes + b->count, b->unread[stream] + b->unread_at[stream], n);
    memset(b->streams + b->count, stream, n);
    b->unread_at[stream] += n;
    b->count += n;
    if (state == PUMP_MOVED)
        keep_event(b, stream);
    return state;
}

static void bench_end(struct bench *b)
{
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        close(b->write_ends[i]);
        b->write_ends[i] = -1;
        enum pump_state state;
        while ((state = bench_read(b, i)) == PUMP_MOVED) {
        }
        assert_int_equal(state, PUMP_ENDED);
    }
    int stream = 0;
    enum pump_state state;
    while ((state = pump_finish(&b->pump, &stream)) == PUMP_MOVED)
        keep_event(b, stream);
    assert_int_equal(state, PUMP_ENDED);
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        if (pump_release_carry(&b->pump, i))
            keep_event(b, i);
    }
}

/* ---- what should come out ------------------------------------------------------------------ */

struct expected {
    unsigned char *bytes[3];
    size_t len[3], omitted[3], omitted_at[3];
};

static void expect_range(const struct bench *b, struct expected *e, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        int stream = b->streams[i];
        e->bytes[stream][e->len[stream]++] = b->bytes[i];
    }
}

/* The head is the first part of all that was read, the tail the last: whatever the stream. */
static struct expected expect(const struct bench *b)
{
    struct expected e = {0};
    size_t budget = b->budget > b->count ? b->count : (size_t)b->budget;
    size_t head = b->pump.truncate ? (size_t)(b->budget / 2) : budget;
    size_t tail = b->pump.truncate ? (size_t)(b->budget - b->budget / 2) : 0;
    head = head < b->count ? head : b->count;
    tail = tail < b->count - head ? tail : b->count - head;
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++)
        e.bytes[i] = malloc(b->count + 1);
    expect_range(b, &e, 0, head);
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++)
        e.omitted_at[i] = e.len[i];
    for (size_t i = head; i < b->count - tail; i++)
        e.omitted[b->streams[i]]++;
    expect_range(b, &e, b->count - tail, b->count);
    return e;
}

static void check_delivered(const struct bench *b, int stream, const unsigned char *bytes,
                            size_t len)
{
    const struct pump_stream *s = &b->pump.streams[stream];
    if (s->sink == BRIG_SINK_CAPTURE) {
        assert_int_equal(s->capture.len, len);
        if (len)
            assert_memory_equal(s->capture.data, bytes, len);
    }
    if (s->sink == BRIG_SINK_PASS) {
        unsigned char *file = malloc(len + 1);
        assert_int_equal(pread(b->sink_fds[stream], file, len + 1, 0), (ssize_t)len);
        assert_memory_equal(file, bytes, len);
        free(file);
    }
    if (b->pump.watched) {
        assert_int_equal(b->events[stream].len, len);
        if (len)
            assert_memory_equal(b->events[stream].data, bytes, len);
    }
}

static void check_all(const struct bench *b)
{
    struct expected e = expect(b);
    uint64_t total = 0;
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        const struct pump_stream *s = &b->pump.streams[i];
        assert_int_equal(s->bytes, e.len[i]);
        assert_int_equal(s->omitted, e.omitted[i]);
        if (b->pump.truncate && s->sink == BRIG_SINK_CAPTURE && s->omitted)
            assert_int_equal(s->omitted_at, e.omitted_at[i]);
        check_delivered(b, i, e.bytes[i], e.len[i]);
        total += s->bytes;
        free(e.bytes[i]);
    }
    assert_true(total <= b->budget);
    assert_int_equal(b->pump.over, e.omitted[BRIG_STDOUT] + e.omitted[BRIG_STDERR] > 0);
}

/* ---- random chunkings ---------------------------------------------------------------------- */

static size_t random_length(struct random *random)
{
    static const size_t longest[] = {1, 8, 300, 5000, 70000};
    return random_below(random, longest[random_below(random, COUNT(longest))] + 1);
}

static void run_random(struct random *random, bool truncate, bool watched)
{
    static unsigned char bytes[70000];
    uint64_t budget = 1 + random_below(random, random_below(random, 2) ? 64 : 200000);
    struct bench *b = bench_new(budget, truncate, (enum brig_sink)random_below(random, 3),
                                (enum brig_sink)random_below(random, 3));
    b->pump.watched = watched;
    size_t rounds = random_below(random, 60);
    for (size_t i = 0; i < rounds; i++) {
        int stream = BRIG_STDOUT + (int)random_below(random, 2);
        size_t len = random_length(random);
        if (b->count + b->unread_end[1] - b->unread_at[1] + b->unread_end[2] - b->unread_at[2] +
                len >
            INPUT_MAX / 2)
            break;
        random_fill(random, bytes, len);
        for (size_t j = 0; j < len; j++)
            bytes[j] &= 0x7f; /* whole characters, so that the budget can be used to the byte */
        bench_write(b, stream, bytes, len);
        if (random_below(random, 2))
            bench_read(b, BRIG_STDOUT + (int)random_below(random, 2));
    }
    bench_end(b);
    check_all(b);
    bench_free(b);
}

static void test_the_budget_holds_to_the_byte_for_random_chunkings(void **state)
{
    struct random random = {7};
    for (int i = 0; i < 150; i++)
        run_random(&random, false, i % 2);
}

static void test_truncation_keeps_head_and_tail_for_random_chunkings(void **state)
{
    struct random random = {8};
    for (int i = 0; i < 150; i++)
        run_random(&random, true, i % 2);
}

/* What was shown is text, within the budget, a beginning and an end of what was written. */
static void check_characters(const struct bench *b, const unsigned char *text, size_t len)
{
    const struct pump_stream *s = &b->pump.streams[BRIG_STDOUT];
    const unsigned char *shown = (const unsigned char *)s->capture.data;
    size_t head = s->omitted ? s->omitted_at : s->capture.len;
    assert_true(s->bytes <= b->budget && s->bytes + 8 >= (b->budget < len ? b->budget : len));
    assert_int_equal(s->bytes + s->omitted, len);
    assert_int_equal(b->pump.over, s->omitted > 0);
    if (!s->capture.len)
        return;
    assert_memory_equal(shown, text, head);
    assert_memory_equal(shown + head, text + len - (s->capture.len - head), s->capture.len - head);
    assert_true(text_is_utf8(shown, head));
    assert_true(text_is_utf8(shown + head, s->capture.len - head));
    assert_int_equal(b->events[BRIG_STDOUT].len, s->capture.len);
}

static void run_characters(struct random *random, bool truncate)
{
    static const char *const characters[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\xa6\x80"};
    unsigned char text[400];
    size_t len = 0, written = 0, most = 1 + random_below(random, sizeof text - 4);
    while (len < most) {
        const char *character = characters[random_below(random, COUNT(characters))];
        memcpy(text + len, character, strlen(character));
        len += strlen(character);
    }
    struct bench *b =
        bench_new(1 + random_below(random, 450), truncate, BRIG_SINK_CAPTURE, BRIG_SINK_CAPTURE);
    b->pump.watched = true;
    while (written < len) {
        size_t n = 1 + random_below(random, len - written);
        bench_write(b, BRIG_STDOUT, text + written, n);
        bench_read(b, BRIG_STDOUT);
        written += n;
    }
    bench_end(b);
    check_characters(b, text, len);
    bench_free(b);
}

static void test_no_part_of_a_character_is_shown_for_random_chunkings(void **state)
{
    struct random random = {9};
    for (int i = 0; i < 4000; i++)
        run_characters(&random, i % 2);
}

/* ---- the edges of the budget --------------------------------------------------------------- */

static void write_both(struct bench *b, size_t out, size_t err)
{
    static const unsigned char bytes[2][17] = {"abcdefghijklmnop", "ABCDEFGHIJKLMNOP"};
    bench_write(b, BRIG_STDOUT, bytes[0], out);
    bench_write(b, BRIG_STDERR, bytes[1], err);
    bench_end(b);
}

static void test_exactly_the_budget_is_not_over_it(void **state)
{
    for (int truncate = 0; truncate < 2; truncate++) {
        struct bench *b = bench_new(10, truncate, BRIG_SINK_CAPTURE, BRIG_SINK_CAPTURE);
        write_both(b, 6, 4);
        assert_false(b->pump.over);
        check_all(b);
        bench_free(b);
    }
}

static void test_one_byte_more_is_over_it(void **state)
{
    for (int truncate = 0; truncate < 2; truncate++) {
        struct bench *b = bench_new(10, truncate, BRIG_SINK_CAPTURE, BRIG_SINK_CAPTURE);
        write_both(b, 6, 5);
        assert_true(b->pump.over);
        assert_int_equal(b->pump.streams[1].omitted + b->pump.streams[2].omitted, 1);
        check_all(b);
        bench_free(b);
    }
}

static void test_a_budget_of_one_byte_keeps_the_first_or_the_last(void **state)
{
    struct bench *b = bench_new(1, false, BRIG_SINK_CAPTURE, BRIG_SINK_CAPTURE);
    write_both(b, 3, 3);
    assert_memory_equal(b->pump.streams[BRIG_STDOUT].capture.data, "a", 1);
    check_all(b);
    bench_free(b);
    b = bench_new(1, true, BRIG_SINK_CAPTURE, BRIG_SINK_CAPTURE);
    write_both(b, 3, 3);
    assert_memory_equal(b->pump.streams[BRIG_STDERR].capture.data, "C", 1);
    check_all(b);
    bench_free(b);
}

static void test_what_one_stream_used_up_the_other_does_not_have(void **state)
{
    struct bench *b = bench_new(4, false, BRIG_SINK_CAPTURE, BRIG_SINK_CAPTURE);
    write_both(b, 4, 4);
    assert_int_equal(b->pump.streams[BRIG_STDOUT].bytes, 4);
    assert_int_equal(b->pump.streams[BRIG_STDERR].bytes, 0);
    assert_int_equal(b->pump.streams[BRIG_STDERR].omitted, 4);
    check_all(b);
    bench_free(b);
}

static void test_a_discarded_stream_counts_against_the_budget(void **state)
{
    struct bench *b = bench_new(4, false, BRIG_SINK_DISCARD, BRIG_SINK_CAPTURE);
    write_both(b, 3, 3);
    assert_int_equal(b->pump.streams[BRIG_STDOUT].bytes, 3);
    assert_null(b->pump.streams[BRIG_STDOUT].capture.data);
    assert_int_equal(b->pump.streams[BRIG_STDERR].bytes, 1);
    bench_free(b);
}

static void test_no_budget_passes_all(void **state)
{
    struct bench *b = bench_new(BRIG_UNLIMITED, false, BRIG_SINK_PASS, BRIG_SINK_DISCARD);
    write_both(b, 16, 16);
    assert_false(b->pump.over);
    assert_int_equal(b->pump.left, BRIG_UNLIMITED);
    check_all(b);
    bench_free(b);
}

static void test_an_empty_stream_is_empty_not_ended(void **state)
{
    struct bench *b = bench_new(10, false, BRIG_SINK_CAPTURE, BRIG_SINK_CAPTURE);
    assert_int_equal(bench_read(b, BRIG_STDOUT), PUMP_EMPTY);
    write_both(b, 0, 0);
    assert_int_equal(pump_read(&b->pump, BRIG_STDOUT), PUMP_ENDED);
    b->pump.streams[BRIG_STDOUT].fd = -1;
    assert_int_equal(pump_read(&b->pump, BRIG_STDOUT), PUMP_ENDED);
    check_all(b);
    bench_free(b);
}

/* ---- sinks --------------------------------------------------------------------------------- */

/* stdout goes to a pipe of one page that nobody reads yet. */
static struct bench *narrow_bench(int ends[2])
{
    struct bench *b = bench_new(INPUT_MAX, false, BRIG_SINK_DISCARD, BRIG_SINK_CAPTURE);
    struct spec_sink sinks[3] = {{0}, {BRIG_SINK_PASS, 0}, {BRIG_SINK_CAPTURE, 0}};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
    sinks[BRIG_STDOUT].fd = ends[1];
    pump_done(&b->pump);
    assert_int_equal(pump_init(&b->pump, sinks, b->read_ends, INPUT_MAX, false, NULL), 0);
    return b;
}

static void test_a_reader_that_does_not_read_blocks_its_stream_only(void **state)
{
    static unsigned char bytes[10000], back[10000];
    struct random random = {9};
    int ends[2];
    struct bench *b = narrow_bench(ends);
    random_fill(&random, bytes, sizeof bytes);
    bench_write(b, BRIG_STDOUT, bytes, sizeof bytes);
    bench_write(b, BRIG_STDERR, bytes, 100);
    alarm(20);
    assert_int_equal(bench_read(b, BRIG_STDOUT), PUMP_MOVED);
    assert_true(b->pump.streams[BRIG_STDOUT].pending > 0);
    assert_int_equal(bench_read(b, BRIG_STDOUT), PUMP_BLOCKED);
    assert_false(pump_flush(&b->pump, BRIG_STDOUT));
    assert_int_equal(bench_read(b, BRIG_STDERR), PUMP_MOVED);
    int stream = 0;
    assert_int_equal(pump_finish(&b->pump, &stream), PUMP_BLOCKED);
    size_t got = 0;
    while (got < sizeof bytes) {
        ssize_t n = read(ends[0], back + got, sizeof back - got);
        assert_true(n > 0);
        got += (size_t)n;
        pump_flush(&b->pump, BRIG_STDOUT);
    }
    alarm(0);
    assert_true(pump_flush(&b->pump, BRIG_STDOUT));
    assert_memory_equal(back, bytes, sizeof bytes);
    assert_int_equal(b->pump.streams[BRIG_STDOUT].bytes, sizeof bytes);
    close(ends[0]);
    close(ends[1]);
    bench_free(b);
}

static void test_bytes_that_a_reader_did_not_take_before_it_left_are_omitted(void **state)
{
    static unsigned char bytes[10000];
    char page[4096];
    int ends[2];
    struct bench *b = narrow_bench(ends);
    struct pump_stream *s = &b->pump.streams[BRIG_STDOUT];
    bench_write(b, BRIG_STDOUT, bytes, sizeof bytes);
    assert_int_equal(bench_read(b, BRIG_STDOUT), PUMP_MOVED);
    assert_int_equal(read(ends[0], page, sizeof page), sizeof page);
    close(ends[0]);
    assert_true(pump_flush(&b->pump, BRIG_STDOUT));
    assert_int_equal(s->broken, EPIPE);
    assert_int_equal(s->bytes + s->omitted, sizeof bytes);
    assert_int_equal(s->bytes, 4096);
    bench_write(b, BRIG_STDOUT, bytes, 10);
    assert_int_equal(bench_read(b, BRIG_STDOUT), PUMP_MOVED);
    assert_int_equal(s->bytes, 4096);
    assert_int_equal(s->omitted, sizeof bytes - 4096 + 10);
    close(ends[1]);
    bench_free(b);
}

static void test_a_full_disk_is_a_broken_sink(void **state)
{
    struct bench *b = bench_new(100, false, BRIG_SINK_DISCARD, BRIG_SINK_CAPTURE);
    struct spec_sink sinks[3] = {
        {0}, {BRIG_SINK_PASS, open("/dev/full", O_WRONLY | O_CLOEXEC)}, {BRIG_SINK_CAPTURE, 0}};
    pump_done(&b->pump);
    assert_int_equal(pump_init(&b->pump, sinks, b->read_ends, 100, false, NULL), 0);
    write_both(b, 5, 5);
    assert_int_equal(b->pump.streams[BRIG_STDOUT].broken, ENOSPC);
    assert_int_equal(b->pump.streams[BRIG_STDOUT].bytes, 0);
    assert_int_equal(b->pump.streams[BRIG_STDOUT].omitted, 5);
    assert_int_equal(b->pump.streams[BRIG_STDERR].bytes, 5);
    close(sinks[BRIG_STDOUT].fd);
    bench_free(b);
}

static void test_a_sink_that_is_not_a_descriptor_is_an_error_and_leaves_nothing(void **state)
{
    struct pump pump;
    struct brig_error err;
    struct spec_sink sinks[3] = {{0}, {BRIG_SINK_CAPTURE, 0}, {BRIG_SINK_PASS, 100000}};
    const int fds[3] = {-1, -1, -1};
    assert_int_equal(pump_init(&pump, sinks, fds, 100, true, &err), -EBADF);
    assert_int_equal(err.fault, BRIG_FAULT_SYSTEM);
    assert_contains(err.text, "cannot write to descriptor 100000");
    pump_done(&pump);
}

/* ---- events -------------------------------------------------------------------------------- */

/* Text of characters of all lengths, cut anywhere on its way. */
static void test_events_hold_whole_characters_however_the_text_is_cut(void **state)
{
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xf4\x8f\xbf\xbf\xed\x9f\xbf";
    const unsigned char *s = (const unsigned char *)text;
    for (size_t step = 1; step < sizeof text; step++) {
        struct bench *b = bench_new(INPUT_MAX, false, BRIG_SINK_DISCARD, BRIG_SINK_DISCARD);
        b->pump.watched = true;
        for (size_t at = 0; at < sizeof text - 1; at += step) {
            size_t left = sizeof text - 1 - at;
            const struct pump_stream *out = &b->pump.streams[BRIG_STDOUT];
            bench_write(b, BRIG_STDOUT, s + at, left < step ? left : step);
            assert_int_equal(bench_read(b, BRIG_STDOUT), PUMP_MOVED);
            assert_true(text_is_utf8(out->event, out->event_len));
        }
        bench_end(b);
        check_all(b);
        bench_free(b);
    }
}

static void test_a_character_that_is_never_completed_is_released_at_the_end(void **state)
{
    struct bench *b = bench_new(INPUT_MAX, false, BRIG_SINK_CAPTURE, BRIG_SINK_CAPTURE);
    const struct pump_stream *out = &b->pump.streams[BRIG_STDOUT];
    b->pump.watched = true;
    bench_write(b, BRIG_STDOUT, (const unsigned char *)"ab\xe2\x82", 4);
    assert_int_equal(bench_read(b, BRIG_STDOUT), PUMP_MOVED);
    assert_int_equal(out->event_len, 2);
    assert_true(pump_release_carry(&b->pump, BRIG_STDOUT));
    assert_int_equal(out->event_len, 2);
    assert_memory_equal(out->event, "\xe2\x82", 2);
    assert_false(pump_release_carry(&b->pump, BRIG_STDOUT));
    bench_free(b);
}

static void test_the_largest_chunk_leaves_room_for_what_was_held_back(void **state)
{
    static unsigned char bytes[PUMP_CHUNK];
    struct bench *b = bench_new(INPUT_MAX, false, BRIG_SINK_CAPTURE, BRIG_SINK_CAPTURE);
    const struct pump_stream *out = &b->pump.streams[BRIG_STDOUT];
    b->pump.watched = true;
    memset(bytes, 'x', sizeof bytes);
    bench_write(b, BRIG_STDOUT, (const unsigned char *)"\xf0\x9f\x98", 3);
    assert_int_equal(bench_read(b, BRIG_STDOUT), PUMP_MOVED);
    bench_write(b, BRIG_STDOUT, bytes, sizeof bytes);
    while (bench_read(b, BRIG_STDOUT) == PUMP_MOVED)
        assert_true(out->event_len <= PUMP_CHUNK);
    bench_end(b);
    check_all(b);
    bench_free(b);
}

static void test_who_does_not_watch_gets_no_events(void **state)
{
    struct bench *b = bench_new(100, false, BRIG_SINK_CAPTURE, BRIG_SINK_CAPTURE);
    write_both(b, 5, 5);
    assert_null(b->pump.streams[BRIG_STDOUT].event);
    assert_int_equal(b->events[BRIG_STDOUT].len, 0);
    assert_false(pump_release_carry(&b->pump, BRIG_STDOUT));
    bench_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_budget_holds_to_the_byte_for_random_chunkings),
        cmocka_unit_test(test_no_part_of_a_character_is_shown_for_random_chunkings),
        cmocka_unit_test(test_truncation_keeps_head_and_tail_for_random_chunkings),
        cmocka_unit_test(test_exactly_the_budget_is_not_over_it),
        cmocka_unit_test(test_one_byte_more_is_over_it),
        cmocka_unit_test(test_a_budget_of_one_byte_keeps_the_first_or_the_last),
        cmocka_unit_test(test_what_one_stream_used_up_the_other_does_not_have),
        cmocka_unit_test(test_a_discarded_stream_counts_against_the_budget),
        cmocka_unit_test(test_no_budget_passes_all),
        cmocka_unit_test(test_an_empty_stream_is_empty_not_ended),
        cmocka_unit_test(test_a_reader_that_does_not_read_blocks_its_stream_only),
        cmocka_unit_test(test_bytes_that_a_reader_did_not_take_before_it_left_are_omitted),
        cmocka_unit_test(test_a_full_disk_is_a_broken_sink),
        cmocka_unit_test(test_a_sink_that_is_not_a_descriptor_is_an_error_and_leaves_nothing),
        cmocka_unit_test(test_events_hold_whole_characters_however_the_text_is_cut),
        cmocka_unit_test(test_a_character_that_is_never_completed_is_released_at_the_end),
        cmocka_unit_test(test_the_largest_chunk_leaves_room_for_what_was_held_back),
        cmocka_unit_test(test_who_does_not_watch_gets_no_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
