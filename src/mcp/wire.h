/* The two streams of a client: lines of bounded length in, a bounded queue of messages out. It
 * never waits for the client. */
#ifndef MCP_WIRE_H
#define MCP_WIRE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/writer.h"

#define WIRE_LINE_MAX (8u << 20)
#define WIRE_FULL     (1u << 20) /* bytes queued, from which on no request is read */

struct wire {
    int in;
    struct outlet out;
    char *chunk; /* what was read; `at` to `len` is still to be looked at */
    size_t at, len;
    struct buf line;
    bool skipping; /* the rest of a line that is too long */
    bool taken;    /* the line was given to the caller */
    bool ended;    /* nothing more comes, or goes */
    struct buf queue;
    size_t sent; /* of the queue */
};

enum wire_line { WIRE_NONE, WIRE_LINE, WIRE_TOO_LONG };

int wire_open(struct wire *wire, int in, int out); /* 0 or -errno */
void wire_close(struct wire *wire);

/* Read what there is, once. Only when wire_next() had nothing. */
void wire_fill(struct wire *wire);
/* The next whole line of what was read; it is valid until the next call. */
enum wire_line wire_next(struct wire *wire, const char **text, size_t *len);

/* A message of one line, to be sent when the client takes it. */
void wire_send(struct wire *wire, const char *text, size_t len);
void wire_flush(struct wire *wire);
/* The client does not read: neither do we. */
bool wire_is_full(const struct wire *wire);

#endif
