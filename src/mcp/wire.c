/* SPDX-License-Identifier: MIT */
/* Lines in, messages out. */
#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK     65536
#define QUEUE_MAX (64u << 20) /* not reached because of wire_is_full() */
#define SPARE     (1u << 20)  /* a larger buffer is freed before the next line */

int wire_open(struct wire *wire, int in, int out)
{
    *wire = (struct wire){.in = in, .out = {.fd = -1}};
    wire->chunk = malloc(CHUNK);
    if (!wire->chunk)
        return -ENOMEM;
    buf_init(&wire->line, WIRE_LINE_MAX);
    buf_init(&wire->queue, QUEUE_MAX);
    return writer_open(&wire->out, out);
}

void wire_close(struct wire *wire)
{
    writer_close(&wire->out);
    buf_done(&wire->line);
    buf_done(&wire->queue);
    free(wire->chunk);
    wire->chunk = NULL;
}

/* ---- in ------------------------------------------------------------------------------------ */

void wire_fill(struct wire *wire)
{
    ssize_t n = read(wire->in, wire->chunk, CHUNK);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    wire->ended = n <= 0;
    wire->at = 0;
    wire->len = n > 0 ? (size_t)n : 0;
}

static void empty(struct buf *buf)
{
    if (buf->size > SPARE || buf->failed)
        buf_done(buf);
    buf->len = 0;
}

enum wire_line wire_next(struct wire *wire, const char **text, size_t *len)
{
    if (wire->taken)
        empty(&wire->line);
    wire->taken = false;
    if (wire->at == wire->len)
        return WIRE_NONE;
    const char *start = wire->chunk + wire->at;
    const char *end = memchr(start, '\n', wire->len - wire->at);
    size_t part = end ? (size_t)(end - start) : wire->len - wire->at;
    wire->at += part + (end ? 1 : 0);
    if (!wire->skipping)
        buf_add(&wire->line, start, part);
    if (wire->line.failed) {
        wire->skipping = true;
        buf_done(&wire->line);
    }
    if (!end)
        return WIRE_NONE;
    wire->taken = true;
    if (wire->skipping) {
        wire->skipping = false;
        return WIRE_TOO_LONG;
    }
    *text = wire->line.data ? wire->line.data : "";
    *len = wire->line.len;
    return WIRE_LINE;
}

/* ---- out ----------------------------------------------------------------------------------- */

void wire_send(struct wire *wire, const char *text, size_t len)
{
    buf_add(&wire->queue, text, len);
    buf_add(&wire->queue, "\n", 1);
    if (wire->queue.failed)
        wire->ended = true; /* an incomplete message would be worse */
}

void wire_flush(struct wire *wire)
{
    while (wire->sent < wire->queue.len) {
        ssize_t n =
            writer_write(&wire->out, wire->queue.data + wire->sent, wire->queue.len - wire->sent);
        if (n == -EAGAIN || n == -EINTR)
            break;
        if (n < 0) {
            wire->ended = true;
            return;
        }
        wire->sent += (size_t)n;
    }
    if (wire->sent == wire->queue.len) {
        empty(&wire->queue);
        wire->sent = 0;
    } else if (wire->sent > wire->queue.len / 2) {
        memmove(wire->queue.data, wire->queue.data + wire->sent, wire->queue.len - wire->sent);
        wire->queue.len -= wire->sent;
        wire->sent = 0;
    }
}

bool wire_is_full(const struct wire *wire)
{
    return wire->queue.len - wire->sent >= WIRE_FULL;
}
