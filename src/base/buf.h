/* SPDX-License-Identifier: MIT */
/* A growing byte buffer with a mandatory maximum size.
 *
 * Appending past the maximum, or running out of memory, marks the buffer as failed and drops the
 * bytes. The caller checks once, at the end, with buf_failed(). */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data;
    size_t len, size, max;
    size_t mapped; /* size of the mapping; 0 if the bytes are in the heap */
    size_t ready;  /* bytes at the start of the mapping that already have memory behind them */
    int failed;    /* 0, or the errno of the first failure */
};

void buf_init(struct buf *buf, size_t max);
void buf_done(struct buf *buf);

void buf_add(struct buf *buf, const void *bytes, size_t len);
void buf_text(struct buf *buf, const char *text);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Make room for `more` bytes. Returns the address to write them to, or NULL. */
char *buf_reserve(struct buf *buf, size_t more);

/* Like buf_reserve(), for a buffer that a system call fills. The pages of a large buffer are
 * populated first: otherwise read() from a pipe allocates them while it keeps the writer waiting.
 */
char *buf_reserve_now(struct buf *buf, size_t more);

/* 0 or -errno. */
int buf_failed(const struct buf *buf);

/* Hand the bytes, NUL-terminated, over to the caller. Returns NULL if the buffer failed. */
char *buf_take(struct buf *buf, size_t *len);

#endif
