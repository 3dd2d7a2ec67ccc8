/* A growing byte buffer that cannot be made without its maximum.
 *
 * Appending past the maximum, or without memory, marks the buffer failed and drops the bytes; the
 * check is made once, at the end, by buf_failed(). */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data;
    size_t len, size, max;
    size_t mapped; /* bytes that are mapped, and not allocated; 0 */
    size_t ready;  /* of these, the first ones that have memory behind them */
    int failed;    /* 0, or the errno of the first failure */
};

void buf_init(struct buf *buf, size_t max);
void buf_done(struct buf *buf);

void buf_add(struct buf *buf, const void *bytes, size_t len);
void buf_text(struct buf *buf, const char *text);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Make room for `more` bytes and return where they go, or NULL. */
char *buf_reserve(struct buf *buf, size_t more);

/* The same for a system call that fills it. A large buffer has memory behind it then: reading from
 * a pipe, the kernel would look for some while it keeps the writer waiting. */
char *buf_reserve_now(struct buf *buf, size_t more);

/* 0 or -errno. */
int buf_failed(const struct buf *buf);

/* The bytes, NUL-terminated, now the caller's; NULL if the buffer failed. */
char *buf_take(struct buf *buf, size_t *len);

#endif
