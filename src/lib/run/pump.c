/* The pump. */
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

/* What a redactor may give at once: what it held, and what it was fed, each byte of which may have
 * become the name of a secret. */
#define QUEUE_MAX (16u << 20)

/* A guest that has this much waiting writes faster than it is read: what a pipe of 64 KiB holds at
 * least when it is full, since a page of it is not filled by a write that does not fit what is left
 * of it. */
#define BULK_FROM (PUMP_CHUNK / 2)

/* What is read at once for the redactor when much comes: more of it would not stay in a cache, less
 * would wake the guest and the reader more often. */
#define WIDE (2 * PUMP_CHUNK)

#define NAME_MAX_LEN 51 /* [redacted:NAME], with a name of a pattern's */
_Static_assert((WIDE + REDACT_HOLD) * NAME_MAX_LEN <= QUEUE_MAX, "a queue holds what is read");

static int init_stream(struct pump_stream *s, struct spec_sink sink, int fd, uint64_t budget,
                       struct brig_error *err)
{
    s->fd = fd;
    s->sink = sink.kind;
    s->outlet.fd = -1;
    s->chunk = chunk_new(PUMP_CHUNK, &s->memory);
    if (!s->chunk)
        return error_memory(err, STAGE);
    buf_init(&s->capture, sink.kind == BRIG_SINK_CAPTURE ? (size_t)budget : 0);
    if (sink.kind != BRIG_SINK_PASS)
        return 0;
    int ret = outlet_open(&s->outlet, sink.fd);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "cannot write to descriptor %d: %s", sink.fd,
                            error_text(-ret));
    return 0;
}

int pump_init(struct pump *pump, const struct spec_sink sinks[3], const int fds[3], uint64_t budget,
              bool truncate, struct brig_error *err)
{
    *pump = (struct pump){.truncate = truncate, .left = truncate ? budget / 2 : budget};
    pump->streams[BRIG_STDOUT].outlet.fd = pump->streams[BRIG_STDERR].outlet.fd = -1;
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
        outlet_close(&s->outlet);
        free(s->memory);
        free(s->wide_memory);
        redactor_free(s->redactor);
        buf_done(&s->queue);
        buf_done(&s->capture);
    }
    tail_done(&pump->tail);
    *pump = (struct pump){0};
    pump->streams[BRIG_STDOUT].outlet.fd = pump->streams[BRIG_STDERR].outlet.fd = -1;
}

/* Bytes that nobody will see. Where the first of them were is where they are missing. */
static void omit(struct pump_stream *s, uint64_t len)
{
    if (!s->omitted)
        s->omitted_at = s->capture.len;
    s->omitted += len;
}

/* Give out whole characters: hold the beginning of a cut one back, in front of the next chunk. */
static void make_event(struct pump_stream *s, size_t len)
{
    const unsigned char *start = s->chunk - s->carry;
    size_t total = s->carry + len;
    size_t cut = text_utf8_tail(start, total);
    s->event = start;
    s->event_len = total - cut;
    s->carry = cut;
}

/* The bytes held back move in front of the chunk before the chunk is read over. */
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

void pump_drop_unread(struct pump *pump, int stream, int left)
{
    struct pump_stream *s = &pump->streams[stream];
    if (s->redactor && !s->redacted)
        omit(s, redactor_held(s->redactor));
    s->redacted = true;
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
        ssize_t n = outlet_write(&s->outlet, s->pending_at, s->pending);
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
    s->full = false; /* who reads next finds out */
    return true;
}

/* These bytes, of the chunk or the queue, are within the budget; of the chunk, if they are watched.
 */
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
        if (s->capture.failed) { /* no memory: what cannot be kept is counted as left out */
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

/* The longest character but one byte: a part of one that may not fit the budget is kept back until
 * the rest of it has come. */
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

/* A pipe takes 64 KiB; with more, a guest that writes much is waited for less often, and so is its
 * reader. */
static void enlarge(struct pump_stream *s)
{
    s->bulk = true;
    fcntl(s->fd, F_SETPIPE_SZ, PUMP_BULK); /* refused to a user who has many: then it stays */
    if (s->sink == BRIG_SINK_PASS)
        outlet_enlarge(&s->outlet, PUMP_BULK);
    if (s->rules)
        s->wide = chunk_new(WIDE, &s->wide_memory); /* without memory it goes in chunks as before */
}

/* Into the ring of last bytes, when the first half of the budget is used up. */
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

/* From pipe to pipe. What a full sink does not take stays in the guest's pipe. */
static ssize_t move_to_outlet(struct pump_stream *s)
{
    int left = 0;
    ssize_t n = outlet_splice(&s->outlet, s->fd, PUMP_BULK);
    bool stopped = n == -EAGAIN || (n > 0 && n < (ssize_t)PUMP_BULK);
    s->full = stopped && outlet_can_wait(&s->outlet) && ioctl(s->fd, FIONREAD, &left) == 0 && left;
    return n;
}

/* What is far from the end of the budget and of nobody's interest need not go through the chunk.
 * PUMP_EMPTY if it has to be read as always, whatever the reason is: reading tells. */
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
        n = move_to_outlet(s);
    if (n <= 0)
        return s->full ? PUMP_BLOCKED : PUMP_EMPTY;
    s->read_len = (size_t)n;
    if (pump->left != BRIG_UNLIMITED && !in_tail)
        pump->left -= (uint64_t)n;
    s->bytes += in_tail ? 0 : (uint64_t)n;
    return PUMP_MOVED;
}

/* ---- hiding secrets ------------------------------------------------------------------------ */

bool pump_has_more(const struct pump *pump, int stream)
{
    const struct pump_stream *s = &pump->streams[stream];
    return s->queue_at < s->queue.len;
}

bool pump_is_done(const struct pump *pump, int stream)
{
    const struct pump_stream *s = &pump->streams[stream];
    return s->fd < 0 && (!s->rules || s->broken || (s->redacted && !pump_has_more(pump, stream)));
}

/* Read some, or end the redactor where there is nothing more, so that the queue has what may be
 * shown of it: nothing, perhaps, since what comes next decides. */
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

/* All of it at once, where nobody looks at it and the budget is far from its end. */
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

static enum pump_state read_redacted(struct pump *pump, int stream)
{
    struct pump_stream *s = &pump->streams[stream];
    s->read_len = 0;
    if (!pump_has_more(pump, stream)) {
        enum pump_state state = fill_queue(s);
        if (state != PUMP_MOVED)
            return state;
    }
    size_t held = s->held_len, room = PUMP_CHUNK - s->carry - held;
    size_t take = s->queue.len - s->queue_at < room ? s->queue.len - s->queue_at : room;
    if (take == 0 || deliver_queue(pump, stream))
        return PUMP_MOVED;
    memcpy(s->chunk, s->held, held);
    memcpy(s->chunk + held, s->queue.data + s->queue_at, take);
    s->held_len = 0;
    s->queue_at += take;
    account(pump, stream, held + take);
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

/* What was held, now that nothing comes after it. */
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

/* Bytes were left out before these: they do not begin with the end of a character. */
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
    /* The ring says whose bytes are the oldest; only then is it known whose chunk they go to. */
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
