/* SPDX-License-Identifier: MIT */
/* The two streams of a client: lines of bounded length in, a bounded queue of messages out. Nothing
 * here blocks. */
#ifndef MCP_WIRE_H
#define MCP_WIRE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/writer.h"

#define WIRE_LINE_MAX (8u << 20)
#define WIRE_FULL     (1u << 20) /* bytes queued, from which on no request is read */

struct wire {
    int in;
    struct writer out;
    char *chunk; /* bytes read; those from `at` to `len` are not parsed yet */
    size_t at, len;
    struct buf line;
    bool skipping; /* the rest of a line that is too long */
    bool taken;    /* the line was returned to the caller */
    bool ended;    /* the connection is closed in one direction or both */
    struct buf queue;
    size_t sent; /* bytes of the queue that are written */
};

enum wire_line { WIRE_NONE, WIRE_LINE, WIRE_TOO_LONG };

int wire_open(struct wire *wire, int in, int out); /* returns 0 or -errno */
void wire_close(struct wire *wire);

/* Read once. Call it only after wire_next() returned no line. */
void wire_fill(struct wire *wire);
/* The next complete line, valid until the next call. */
enum wire_line wire_next(struct wire *wire, const char **text, size_t *len);

/* Queue a message of one line for the client. */
void wire_send(struct wire *wire, const char *text, size_t len);
void wire_flush(struct wire *wire);
/* True if the client does not read its answers; then no request is read either. */
bool wire_is_full(const struct wire *wire);

#endif
