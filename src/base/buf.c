/* SPDX-License-Identifier: MIT */
/* The growing byte buffer of buf.h. Small buffers live in the heap, large ones in an own mapping.
 */
#include "buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "chunk.h"

#ifndef MADV_POPULATE_WRITE /* since Linux 5.14; musl does not define it */
#define MADV_POPULATE_WRITE 23
#endif

void buf_init(struct buf *buf, size_t max)
{
    /* buf_take() always needs one byte for its NUL. */
    *buf = (struct buf){.max = max < SIZE_MAX ? max : SIZE_MAX - 1};
}

/* A buffer that reaches this size is moved once into a mapping with address space for its maximum.
 * It never moves again when it grows, and the kernel can back it with pages of 2 MiB. */
#define MAP_FROM (UINT64_C(8) << 20)
#define HUGE     (UINT64_C(2) << 20)

static void release(struct buf *buf)
{
    if (buf->mapped)
        munmap(buf->data - CHUNK_APART, buf->mapped);
    else
        free(buf->data);
    buf->mapped = buf->ready = 0;
}

void buf_done(struct buf *buf)
{
    release(buf);
    *buf = (struct buf){.max = buf->max};
}

static bool map_whole(struct buf *buf)
{
    size_t size = (CHUNK_APART + buf->max + 1 + HUGE - 1) & ~(HUGE - 1);
    if (buf->mapped || buf->max > SIZE_MAX / 2)
        return false;
    char *data = mmap(NULL, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return false;
    madvise(data, size, MADV_HUGEPAGE); /* best effort */
    memcpy(data + CHUNK_APART, buf->data, buf->len);
    free(buf->data);
    buf->data = data + CHUNK_APART;
    buf->mapped = size;
    buf->size = buf->max + 1;
    return true;
}

char *buf_reserve(struct buf *buf, size_t more)
{
    if (buf->failed)
        return NULL;
    if (more > buf->max - buf->len) {
        buf->failed = EFBIG;
        return NULL;
    }
    size_t need = buf->len + more + 1; /* one byte for the NUL of buf_take() */
    if (need > buf->size && !(need >= MAP_FROM && map_whole(buf))) {
        size_t size = buf->size ? buf->size : 256;
        while (size < need)
            size = size > need / 2 ? size * 2 : need;
        if (size > buf->max + 1)
            size = buf->max + 1;
        char *data = realloc(buf->data, size);
        if (!data) {
            buf->failed = ENOMEM;
            return NULL;
        }
        buf->data = data;
        buf->size = size;
    }
    return buf->data + buf->len;
}

char *buf_reserve_now(struct buf *buf, size_t more)
{
    char *at = buf_reserve(buf, more);
    size_t end = CHUNK_APART + buf->len + more;
    if (!at || !buf->mapped || end <= buf->ready)
        return at;
    size_t from =
        buf->ready > CHUNK_APART + buf->len ? buf->ready : (CHUNK_APART + buf->len) & ~(HUGE - 1);
    buf->ready = (end + HUGE - 1) & ~(HUGE - 1);
    madvise(buf->data - CHUNK_APART + from, buf->ready - from, MADV_POPULATE_WRITE);
    return at;
}

void buf_add(struct buf *buf, const void *bytes, size_t len)
{
    char *at = len ? buf_reserve(buf, len) : NULL;
    if (!at)
        return;
    memcpy(at, bytes, len);
    buf->len += len;
}

void buf_text(struct buf *buf, const char *text)
{
    buf_add(buf, text, strlen(text));
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *at = n >= 0 ? buf_reserve(buf, (size_t)n) : NULL;
    if (!at)
        return;
    va_start(args, format);
    vsnprintf(at, (size_t)n + 1, format, args);
    va_end(args);
    buf->len += (size_t)n;
}

int buf_failed(const struct buf *buf)
{
    return -buf->failed;
}

char *buf_take(struct buf *buf, size_t *len)
{
    if (!buf_reserve(buf, 0)) {
        buf_done(buf);
        return NULL;
    }
    /* The caller releases the bytes with free(), so those in a mapping are copied. */
    char *data = buf->mapped ? malloc(buf->len + 1) : buf->data;
    if (!data) {
        buf_done(buf);
        return NULL;
    }
    if (buf->mapped) {
        memcpy(data, buf->data, buf->len);
        release(buf);
    }
    data[buf->len] = 0;
    if (len)
        *len = buf->len;
    *buf = (struct buf){.max = buf->max};
    return data;
}
