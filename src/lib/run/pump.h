/* The guest's stdout and stderr on their way: one shared budget kept to the byte, chunks of at most
 * 64 KiB, each captured, passed on or dropped.
 *
 * The pump never waits. A sink that does not take its bytes makes its stream *blocked*: nothing
 * more is read from the guest on that stream until pump_flush() got rid of them. */
#ifndef LIB_PUMP_H
#define LIB_PUMP_H

#include "base/buf.h"
#include "base/writer.h"
#include "brig.h"
#include "lib/redact/redact.h"
#include "lib/spec/spec.h"
#include "tail.h"

#define PUMP_CHUNK 65536
#define PUMP_BULK  (1u << 20) /* at once, from a guest that writes much */

struct pump_stream {
    int fd; /* from the guest; -1 at its end */
    enum brig_sink sink;
    struct outlet outlet;
    unsigned char *chunk;            /* before it is room for the beginning of a character */
    void *memory;                    /* that it is in */
    const unsigned char *pending_at; /* in the chunk or the queue: not yet taken by the outlet */
    size_t pending;
    bool full; /* nothing is pending, but the outlet would take nothing now */
    struct buf capture;
    uint64_t bytes, omitted;
    size_t omitted_at;
    size_t carry;          /* bytes of an incomplete character kept before the chunk, for events */
    unsigned char held[4]; /* part of a character that may not fit the budget */
    size_t held_len;
    bool cut_before; /* bytes were left out before what comes next */
    int broken;      /* errno of a sink that failed */
    /* What the last call delivered, whole characters only. */
    const unsigned char *event;
    size_t event_len;
    size_t read_len; /* what it read, within the budget or not */
    bool bulk;       /* much was there at once: the pipe is large now */
    /* Where secrets are hidden: what was read into the chunk goes through the redactor to a queue,
     * and from there to the sink; through the chunk again where it has to be looked at. */
    const struct redact_rules *rules; /* NULL: nothing is hidden */
    struct redactor *redactor;        /* from the first byte on */
    unsigned char *wide;              /* read into instead of the chunk, when much comes; or NULL */
    void *wide_memory;                /* that it is in */
    struct buf queue;
    size_t queue_at;
    bool redacted; /* all of it: nothing more comes */
};

struct pump {
    struct pump_stream streams[3]; /* by enum brig_stream; [0] is not used */
    uint64_t left;                 /* of the budget; of its first half when truncating */
    bool truncate, watched, over;
    struct tail tail;
};

int pump_init(struct pump *pump, const struct spec_sink sinks[3], const int fds[3], uint64_t budget,
              bool truncate, struct brig_error *err);

/* Hide secrets in a stream, before its first byte is read. */
void pump_redact(struct pump *pump, int stream, const struct redact_rules *rules);
void pump_done(struct pump *pump);

enum pump_state {
    PUMP_MOVED,   /* something was read and delivered */
    PUMP_EMPTY,   /* nothing to read now */
    PUMP_BLOCKED, /* the sink takes nothing now */
    PUMP_ENDED,   /* end of the stream */
};

/* Read one chunk and deliver it; or more, where nobody has to look at it. */
enum pump_state pump_read(struct pump *pump, int stream);

/* Is there more to deliver without reading from the guest? Its descriptor does not tell. */
bool pump_has_more(const struct pump *pump, int stream);

/* Has all of the stream been delivered, when nothing more can be read? */
bool pump_is_done(const struct pump *pump, int stream);

/* Does the stream wait for its sink? */
bool pump_waits(const struct pump *pump, int stream);

/* Try again to get rid of what is pending: true if nothing is pending any more. */
bool pump_flush(struct pump *pump, int stream);

/* Give up what is pending. */
void pump_drop_pending(struct pump *pump, int stream);

/* Give up what is left of a stream: what is held back, and this much that was never read. */
void pump_drop_unread(struct pump *pump, int stream, int left);

/* After the end of both streams: deliver one chunk of the kept end. PUMP_ENDED when all is out. */
enum pump_state pump_finish(struct pump *pump, int *stream);

/* At the end: an incomplete character that was held back becomes the stream's event. */
bool pump_release_carry(struct pump *pump, int stream);

#endif
