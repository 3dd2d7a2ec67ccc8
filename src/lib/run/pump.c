/* SPDX-License-Identifier: MIT */
/* Implements the pump: reading, the budget, redaction and delivery. pump.h has the interface. */
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/chunk.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

#define STAGE "output"

/* The most that a redactor may return at once: the bytes that it held and the bytes that it was
 * fed, each of which may have become the name of a secret. */
#define QUEUE_MAX (16u << 20)

/* A guest with this much waiting writes faster than the supervisor reads. A full pipe of 64 KiB
 * holds at least this much: a write that does not fit the rest of a page begins a new page. */
#define BULK_FROM (PUMP_CHUNK / 2)

/* The size of a read for the redactor when there is much output. A larger one would not stay in the
 * CPU's cache; a smaller one would wake the guest and the reader more often. */
#define WIDE (2 * PUMP_CHUNK)

#define NAME_MAX_LEN 51 /* [redacted:NAME], with the name of a pattern */
_Static_assert((WIDE + REDACT_HOLD) * NAME_MAX_LEN <= QUEUE_MAX, "a queue holds what is read");

static int init_stream(struct pump_stream *s, struct spec_sink sink, int fd, uint64_t budget,
                       struct brig_error *err)
{
    s->fd = fd;
    s->sink = sink.kind;
    s->writer.fd = -1;
    s->chunk = chunk_new(PUMP_CHUNK, &s->memory);
    if (!s->chunk)
        return error_memory(err, STAGE);
    buf_init(&s->capture, sink.kind == BRIG_SINK_CAPTURE ? (size_t)budget : 0);
    if (sink.kind != BRIG_SINK_PASS)
        return 0;
    int ret = writer_open(&s->writer, sink.fd);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "cannot write to descriptor %d: %s", sink.fd,
                            error_text(-ret));
    return 0;
}

int pump_init(struct pump *pump, const struct spec_sink sinks[3], const int fds[3], uint64_t budget,
              bool truncate, struct brig_error *err)
{
    *pump = (struct pump){.truncate = truncate, .left = truncate ? budget / 2 : budget};
    pump->streams[BRIG_STDOUT].writer.fd = pump->streams[BRIG_STDERR].writer.fd = -1;
    int ret = 0;
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR && ret == 0; i++)
        ret = init_stream(&pump->streams[i], sinks[i], fds[i], budget, err);
    if (ret == 0 && truncate && tail_init(&pump->tail, (size_t)(budget - budget / 2)) < 0)
        ret = error_memory(err, STAGE);
    if (ret < 0)
        pump_done(pump);
    return ret;
}

void pump_redact(struct pump *pump, int stream, const struct redact_rules *rules)
{
    struct pump_stream *s = &pump->streams[stream];
    if (s->rules)
        return;
    buf_init(&s->queue, QUEUE_MAX);
    s->rules = rules;
}

void pump_done(struct pump *pump)
{
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        struct pump_stream *s = &pump->streams[i];
        writer_close(&s->writer);
        free(s->memory);
        free(s->wide_memory);
        redactor_free(s->redactor);
        buf_done(&s->queue);
        buf_done(&s->capture);
    }
    tail_done(&pump->tail);
    *pump = (struct pump){0};
    pump->streams[BRIG_STDOUT].writer.fd = pump->streams[BRIG_STDERR].writer.fd = -1;
}

/* Count bytes that are not delivered. omitted_at is the position of the first of them. */
static void omit(struct pump_stream *s, uint64_t len)
{
    if (!s->omitted)
        s->omitted_at = s->capture.len;
    s->omitted += len;
}

/* Set the event to whole characters: carry the beginning of a cut character over to the next
 * chunk. */
static void make_event(struct pump_stream *s, size_t len)
{
    const unsigned char *start = s->chunk - s->carry;
    size_t total = s->carry + len;
    size_t cut = text_utf8_tail(start, total);
    s->event = start;
    s->event_len = total - cut;
    s->carry = cut;
}

/* Move the carried bytes in front of the chunk before the chunk is overwritten. */
static void settle_carry(struct pump_stream *s)
{
    if (s->event && s->carry)
        memmove(s->chunk - s->carry, s->event + s->event_len, s->carry);
    s->event = NULL;
    s->event_len = 0;
}

bool pump_release_carry(struct pump *pump, int stream)
{
    struct pump_stream *s = &pump->streams[stream];
    settle_carry(s);
    if (!pump->watched || !s->carry)
        return false;
    s->event = s->chunk - s->carry;
    s->event_len = s->carry;
    s->carry = 0;
    return true;
}

void pump_drop_pending(struct pump *pump, int stream)
{
    struct pump_stream *s = &pump->streams[stream];
    s->bytes -= s->pending;
    omit(s, s->pending + (s->queue.len - s->queue_at));
    s->pending = 0;
    s->queue_at = s->queue.len;
}

/* Omit the bytes that the redactor still holds; it will not decide about them any more. */
static void drop_held(struct pump_stream *s)
{
    if (s->redactor && !s->redacted)
        omit(s, redactor_held(s->redactor));
    s->redacted = true;
}

void pump_drop_unread(struct pump *pump, int stream, int left)
{
    struct pump_stream *s = &pump->streams[stream];
    drop_held(s);
    if (s->fd >= 0 && left > 0)
        omit(s, (uint64_t)left);
}

bool pump_waits(const struct pump *pump, int stream)
{
    const struct pump_stream *s = &pump->streams[stream];
    return s->pending || (s->full && s->fd >= 0);
}

bool pump_flush(struct pump *pump, int stream)
{
    struct pump_stream *s = &pump->streams[stream];
    while (s->pending) {
        ssize_t n = writer_write(&s->writer, s->pending_at, s->pending);
        if (n == -EAGAIN)
            return false;
        if (n < 0) {
            s->broken = (int)-n;
            pump_drop_pending(pump, stream);
            break;
        }
        s->pending_at += n;
        s->pending -= (size_t)n;
    }
    s->full = false; /* the next read finds out whether the writer is still full */
    return true;
}

/* Deliver bytes of the chunk or the queue that were counted against the budget. If the run is
 * watched, they must be in the chunk. */
static void deliver(struct pump *pump, int stream, const unsigned char *bytes, size_t len)
{
    struct pump_stream *s = &pump->streams[stream];
    if (len == 0)
        return;
    if (s->broken) {
        omit(s, len);
        return;
    }
    s->bytes += len;
    if (s->sink == BRIG_SINK_CAPTURE) {
        buf_add(&s->capture, bytes, len);
        if (s->capture.failed) { /* out of memory: count the bytes as omitted */
            s->broken = s->capture.failed;
            s->bytes -= len;
            omit(s, len);
            return;
        }
    }
    if (s->sink == BRIG_SINK_PASS) {
        s->pending_at = bytes;
        s->pending = len;
        pump_flush(pump, stream);
    }
    if (pump->watched)
        make_event(s, len);
}

/* The longest incomplete character. A part of a character that may not fit the budget is held back
 * until the rest of it has come. */
#define PART_MAX 3

static void hold(struct pump *pump, struct pump_stream *s, const unsigned char *part, size_t len)
{
    memcpy(s->held, part, len);
    s->held_len = len;
    pump->left += len;
}

static void account(struct pump *pump, int stream, size_t len)
{
    struct pump_stream *s = &pump->streams[stream];
    size_t take = len < pump->left ? len : (size_t)pump->left;
    bool fits = take == len;
    if (pump->left != BRIG_UNLIMITED)
        pump->left -= take;
    size_t part = pump->left < PART_MAX ? text_utf8_tail(s->chunk, take) : 0;
    take -= part;
    if (fits && part)
        hold(pump, s, s->chunk + take, part);
    if (!fits && pump->truncate)
        tail_add(&pump->tail, stream, s->chunk + take, len - take);
    deliver(pump, stream, s->chunk, take);
    if (!fits && !pump->truncate) {
        pump->over = true;
        omit(s, len - take);
    }
}

/* A pipe has 64 KiB by default. With a larger one, a guest that writes much and its reader wait for
 * each other less often. */
static void enlarge(struct pump_stream *s)
{
    s->bulk = true;
    fcntl(s->fd, F_SETPIPE_SZ, PUMP_BULK); /* may fail for a user with many pipes */
    if (s->sink == BRIG_SINK_PASS)
        writer_enlarge(&s->writer, PUMP_BULK);
    if (s->rules)
        s->wide = chunk_new(WIDE, &s->wide_memory); /* if NULL, the chunk is used as before */
}

/* Read into the ring of last bytes, once the first half of the budget is used up. */
static ssize_t move_to_tail(struct pump *pump, int stream)
{
    size_t room;
    unsigned char *at = tail_space(&pump->tail, &room);
    ssize_t n = read(pump->streams[stream].fd, at, room < PUMP_BULK ? room : PUMP_BULK);
    if (n > 0)
        tail_added(&pump->tail, stream, (size_t)n);
    return n;
}

static ssize_t move_to_capture(struct pump_stream *s)
{
    char *at = buf_reserve_now(&s->capture, PUMP_BULK);
    ssize_t n = at ? read(s->fd, at, PUMP_BULK) : -1;
    s->capture.len += n > 0 ? (size_t)n : 0;
    return n;
}

/* Splice from pipe to pipe. Bytes that a full sink does not take stay in the guest's pipe. */
static ssize_t move_to_writer(struct pump_stream *s)
{
    int left = 0;
    ssize_t n = writer_splice(&s->writer, s->fd, PUMP_BULK);
    bool stopped = n == -EAGAIN || (n > 0 && n < (ssize_t)PUMP_BULK);
    s->full = stopped && writer_can_wait(&s->writer) && ioctl(s->fd, FIONREAD, &left) == 0 && left;
    return n;
}

/* Move output past the chunk: allowed far from the end of the budget, if nothing has to look at the
 * bytes. Returns PUMP_EMPTY if the output must be read through the chunk, for whatever reason; the
 * read then finds the reason. */
static enum pump_state move_bulk(struct pump *pump, int stream)
{
    struct pump_stream *s = &pump->streams[stream];
    bool in_tail = pump->truncate && pump->left == 0;
    ssize_t n = -1;
    if (!s->bulk || pump->watched || s->broken || s->held_len || s->rules ||
        (pump->left < 2 * PUMP_BULK && !in_tail))
        return PUMP_EMPTY;
    if (in_tail)
        n = move_to_tail(pump, stream);
    else if (s->sink == BRIG_SINK_CAPTURE)
        n = move_to_capture(s);
    else if (s->sink == BRIG_SINK_PASS)
        n = move_to_writer(s);
    if (n <= 0)
        return s->full ? PUMP_BLOCKED : PUMP_EMPTY;
    s->read_len = (size_t)n;
    if (pump->left != BRIG_UNLIMITED && !in_tail)
        pump->left -= (uint64_t)n;
    s->bytes += in_tail ? 0 : (uint64_t)n;
    return PUMP_MOVED;
}

/* ---- hiding secrets ------------------------------------------------------------------------ */

static bool has_queue(const struct pump_stream *s)
{
    return s->queue_at < s->queue.len;
}

bool pump_has_more(const struct pump *pump, int stream)
{
    return has_queue(&pump->streams[stream]);
}

bool pump_is_done(const struct pump *pump, int stream)
{
    const struct pump_stream *s = &pump->streams[stream];
    return s->fd < 0 && (!s->rules || s->broken || (s->redacted && !pump_has_more(pump, stream)));
}

/* Read from the guest, or end the redactor at the end of the stream, and fill the queue with the
 * bytes that may be shown. The queue may stay empty, since later bytes decide about the held
 * ones. */
static enum pump_state fill_queue(struct pump_stream *s)
{
    unsigned char *into = s->wide ? s->wide : s->chunk;
    ssize_t n = s->fd >= 0 ? read(s->fd, into, s->wide ? WIDE : PUMP_CHUNK) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return PUMP_EMPTY;
    s->queue.len = s->queue_at = 0;
    s->read_len = n > 0 ? (size_t)n : 0;
    if (n >= BULK_FROM && !s->bulk)
        enlarge(s);
    if (n > 0 && !s->redactor)
        n = redactor_new(&s->redactor, s->rules) < 0 ? -ENOMEM : n;
    if (n > 0) {
        n = redactor_feed(s->redactor, (const char *)into, (size_t)n, &s->queue);
    } else if (n == 0 && !s->redacted) {
        s->redacted = true;
        n = s->redactor ? redactor_end(s->redactor, &s->queue) : 0;
    } else if (n == 0) {
        return PUMP_ENDED;
    }
    if (n < 0 || s->queue.failed) {
        s->broken = n < 0 ? (int)-n : s->queue.failed;
        omit(s, s->read_len);
        s->queue.len = 0;
    }
    return PUMP_MOVED;
}

/* Count hidden bytes against the budget as well; without this, a guest could write an endless
 * secret for ever. A run that truncates its output reads on in any case. */
static void count_swallowed(struct pump *pump, struct pump_stream *s)
{
    uint64_t all = s->redactor ? redactor_swallowed(s->redactor) : 0;
    uint64_t more = all > s->swallowed ? all - s->swallowed : 0;
    if (pump->truncate || pump->left == BRIG_UNLIMITED || more == 0 || has_queue(s))
        return;
    s->swallowed = all;
    if (more <= pump->left) {
        pump->left -= more;
        return;
    }
    pump->over = true;
    omit(s, more - pump->left);
    pump->left = 0;
}

/* Read and omit, so that the guest can end. */
static enum pump_state read_and_omit(struct pump_stream *s)
{
    ssize_t n = s->fd >= 0 ? read(s->fd, s->chunk, PUMP_CHUNK) : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return PUMP_EMPTY;
    if (n <= 0) {
        drop_held(s);
        return PUMP_ENDED;
    }
    s->read_len = (size_t)n;
    omit(s, (uint64_t)n);
    return PUMP_MOVED;
}

/* Deliver the whole queue at once, if the run is not watched and the end of the budget is far. */
static bool deliver_queue(struct pump *pump, int stream)
{
    struct pump_stream *s = &pump->streams[stream];
    size_t len = s->queue.len - s->queue_at;
    if (pump->watched || s->held_len || pump->left < len + PUMP_CHUNK)
        return false;
    if (pump->left != BRIG_UNLIMITED)
        pump->left -= len;
    deliver(pump, stream, (const unsigned char *)s->queue.data + s->queue_at, len);
    s->queue_at = s->queue.len;
    return true;
}

/* Deliver as much of the queue as fits a chunk. */
static void take_queue(struct pump *pump, int stream)
{
    struct pump_stream *s = &pump->streams[stream];
    size_t held = s->held_len, room = PUMP_CHUNK - s->carry - held;
    size_t take = s->queue.len - s->queue_at < room ? s->queue.len - s->queue_at : room;
    if (take == 0 || deliver_queue(pump, stream))
        return;
    memcpy(s->chunk, s->held, held);
    memcpy(s->chunk + held, s->queue.data + s->queue_at, take);
    s->held_len = 0;
    s->queue_at += take;
    account(pump, stream, held + take);
}

static enum pump_state read_redacted(struct pump *pump, int stream)
{
    struct pump_stream *s = &pump->streams[stream];
    s->read_len = 0;
    if (!has_queue(s) && pump->over && !pump->truncate)
        return read_and_omit(s);
    if (!has_queue(s)) {
        enum pump_state state = fill_queue(s);
        if (state != PUMP_MOVED)
            return state;
    }
    take_queue(pump, stream);
    count_swallowed(pump, s);
    return PUMP_MOVED;
}

enum pump_state pump_read(struct pump *pump, int stream)
{
    struct pump_stream *s = &pump->streams[stream];
    settle_carry(s);
    if (pump_is_done(pump, stream))
        return PUMP_ENDED;
    if (!pump_flush(pump, stream))
        return PUMP_BLOCKED;
    if (s->rules)
        return read_redacted(pump, stream);
    s->read_len = 0;
    enum pump_state state = move_bulk(pump, stream);
    if (state != PUMP_EMPTY)
        return state;
    ssize_t n = read(s->fd, s->chunk + s->held_len, PUMP_CHUNK - s->carry - s->held_len);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? PUMP_EMPTY : PUMP_ENDED;
    if (n == 0)
        return PUMP_ENDED;
    s->read_len = (size_t)n;
    if (n >= BULK_FROM && !s->bulk)
        enlarge(s);
    size_t held = s->held_len;
    memcpy(s->chunk, s->held, held);
    s->held_len = 0;
    account(pump, stream, held + (size_t)n);
    return PUMP_MOVED;
}

/* Deliver the held part of a character at the end of the stream. */
static bool release_held(struct pump *pump, int stream)
{
    struct pump_stream *s = &pump->streams[stream];
    size_t len = s->held_len;
    s->held_len = 0;
    if (!len)
        return false;
    if (pump->over || len > pump->left) {
        pump->over = true;
        omit(s, len);
        return false;
    }
    pump->left -= len;
    settle_carry(s);
    memcpy(s->chunk, s->held, len);
    deliver(pump, stream, s->chunk, len);
    return true;
}

/* Drop the end of a character whose beginning was omitted. */
static size_t skip_part(struct pump_stream *s, size_t len)
{
    size_t skip = 0;
    while (s->cut_before && skip < 3 && skip < len && (s->chunk[skip] & 0xc0) == 0x80)
        skip++;
    s->cut_before = false;
    memmove(s->chunk, s->chunk + skip, len - skip);
    if (skip)
        omit(s, skip);
    return len - skip;
}

enum pump_state pump_finish(struct pump *pump, int *stream)
{
    int next = BRIG_STDOUT;
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        if (!pump_flush(pump, i))
            return PUMP_BLOCKED;
    }
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        if (release_held(pump, i)) {
            *stream = i;
            return PUMP_MOVED;
        }
    }
    /* Only the ring knows which stream has the oldest bytes, and thus which chunk they go to. */
    if (pump->tail.count)
        next = pump->tail.segments[pump->tail.first].stream;
    struct pump_stream *s = &pump->streams[next];
    settle_carry(s);
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR && pump->truncate; i++) {
        uint64_t dropped = pump->tail.dropped[i];
        if (!dropped)
            continue;
        omit(&pump->streams[i], dropped);
        pump->tail.dropped[i] = 0;
        pump->streams[i].cut_before = true;
        pump->over = true;
    }
    size_t n = tail_take(&pump->tail, stream, s->chunk, PUMP_CHUNK - s->carry);
    if (n == 0)
        return PUMP_ENDED;
    size_t shown = skip_part(s, n);
    deliver(pump, *stream, s->chunk, shown);
    return PUMP_MOVED;
}
