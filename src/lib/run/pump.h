/* SPDX-License-Identifier: MIT */
/* Moves the guest's stdout and stderr to their sinks, in chunks of at most 64 KiB, each captured,
 * passed on or dropped. Both streams share one budget, which is exact to the byte. Called by run.c
 * and start.c.
 *
 * The pump never waits. A stream is *blocked* while its sink does not take the pending bytes:
 * nothing more is read from the guest on that stream until pump_flush() has written them. The pump
 * does not close the guest's file descriptors; the run owns them. */
#ifndef LIB_PUMP_H
#define LIB_PUMP_H

#include "base/buf.h"
#include "base/writer.h"
#include "brig.h"
#include "lib/redact/redact.h"
#include "lib/spec/spec.h"
#include "tail.h"

#define PUMP_CHUNK 65536
#define PUMP_BULK  (1u << 20) /* the most to move at once, from a guest that writes much */

struct pump_stream {
    int fd; /* the pipe from the guest; -1 at its end */
    enum brig_sink sink;
    struct writer writer;
    unsigned char *chunk; /* has room before it for the beginning of a character */
    void *memory;         /* the allocation that holds the chunk */
    /* Bytes of the chunk or the queue that the nonblocking writer has not yet taken. */
    const unsigned char *pending_at;
    size_t pending;
    bool full; /* nothing is pending, but the nonblocking writer would take nothing now */
    struct buf capture;
    uint64_t bytes, omitted;
    size_t omitted_at;
    size_t carry;          /* bytes of an incomplete character, kept before the chunk for events */
    unsigned char held[4]; /* part of a character that may not fit the budget */
    size_t held_len;
    bool cut_before; /* bytes were omitted before the next ones */
    int broken;      /* errno of a sink that failed */
    /* The bytes that the last call delivered, whole characters only. */
    const unsigned char *event;
    size_t event_len;
    size_t read_len; /* bytes read by the last call, within the budget or not */
    bool bulk;       /* the guest writes much, so the pipe was enlarged */
    /* Redaction: bytes read into the chunk go through the redactor to the queue, and from there to
     * the sink. If events or the budget need them in the chunk, they are copied back to it. */
    const struct redact_rules *rules; /* NULL: nothing is hidden */
    struct redactor *redactor;        /* created at the first byte */
    unsigned char *wide; /* used for reads instead of the chunk, when much comes; or NULL */
    void *wide_memory;   /* the allocation that holds it */
    struct buf queue;
    size_t queue_at;
    bool redacted;      /* the redactor has ended: nothing more comes */
    uint64_t swallowed; /* bytes swallowed by the redactor and counted against the budget */
};

struct pump {
    struct pump_stream streams[3]; /* by enum brig_stream; [0] is not used */
    uint64_t left;                 /* rest of the budget, or of its first half when truncating */
    bool truncate, watched, over;
    struct tail tail;
};

int pump_init(struct pump *pump, const struct spec_sink sinks[3], const int fds[3], uint64_t budget,
              bool truncate, struct brig_error *err);

/* Hide secrets in a stream. Call this before the first byte is read. */
void pump_redact(struct pump *pump, int stream, const struct redact_rules *rules);
void pump_done(struct pump *pump);

enum pump_state {
    PUMP_MOVED,   /* something was read and delivered */
    PUMP_EMPTY,   /* nothing to read now */
    PUMP_BLOCKED, /* the sink takes nothing now */
    PUMP_ENDED,   /* end of the stream */
};

/* Read one chunk and deliver it. If nothing has to look at the bytes, one call may move more. */
enum pump_state pump_read(struct pump *pump, int stream);

/* Is there more to deliver without reading from the guest? Polling its descriptor does not tell. */
bool pump_has_more(const struct pump *pump, int stream);

/* Has the stream ended, and has all of it been delivered? */
bool pump_is_done(const struct pump *pump, int stream);

/* Does the stream wait for its sink? */
bool pump_waits(const struct pump *pump, int stream);

/* Write the pending bytes. Returns true if nothing is pending any more. */
bool pump_flush(struct pump *pump, int stream);

/* Drop the pending bytes, and count them as omitted. */
void pump_drop_pending(struct pump *pump, int stream);

/* Drop the rest of a stream: the bytes held back, and `left` bytes that were never read. */
void pump_drop_unread(struct pump *pump, int stream, int left);

/* After the end of both streams: deliver one chunk of the ring of last bytes. Returns PUMP_ENDED
 * when it is empty. */
enum pump_state pump_finish(struct pump *pump, int *stream);

/* At the end of a stream: make an incomplete character that was carried over the stream's event. */
bool pump_release_carry(struct pump *pump, int stream);

#endif
