/* SPDX-License-Identifier: MIT */
/* Keeps the last bytes of two streams in one ring, in the order in which they came. Called by the
 * pump only. It has no file descriptors. */
#ifndef LIB_TAIL_H
#define LIB_TAIL_H

#include <stddef.h>
#include <stdint.h>

#define TAIL_SEGMENTS 4096 /* the most changes between the streams that are recorded */

struct tail_segment {
    size_t len;
    int stream;
};

struct tail {
    unsigned char *ring;
    size_t size, start, len;
    struct tail_segment *segments; /* a ring as well */
    size_t first, count;
    uint64_t dropped[3]; /* by stream */
};

int tail_init(struct tail *tail, size_t size); /* 0 or -ENOMEM */
void tail_done(struct tail *tail);

/* tail_space() returns the place for the next bytes in the ring, and the number of bytes that fit
 * before the ring wraps around; in a full ring they overwrite the oldest bytes. After writing
 * there, call tail_added(). */
unsigned char *tail_space(const struct tail *tail, size_t *len);
void tail_added(struct tail *tail, int stream, size_t len);

void tail_add(struct tail *tail, int stream, const unsigned char *bytes, size_t len);

/* Take up to `max` of the oldest bytes, all of one stream. Returns their number, 0 if there are
 * none. */
size_t tail_take(struct tail *tail, int *stream, unsigned char *out, size_t max);

#endif
