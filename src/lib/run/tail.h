/* The last bytes of two streams under one common size, in the order they came. Pure memory. */
#ifndef LIB_TAIL_H
#define LIB_TAIL_H

#include <stddef.h>
#include <stdint.h>

#define TAIL_SEGMENTS 4096 /* alternations between the streams that are remembered */

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

/* Where the next bytes of the ring go, and how many fit without a turn: over the oldest ones, if it
 * is full. Who has put some there says so. */
unsigned char *tail_space(const struct tail *tail, size_t *len);
void tail_added(struct tail *tail, int stream, size_t len);

void tail_add(struct tail *tail, int stream, const unsigned char *bytes, size_t len);

/* Take up to `max` of the oldest bytes of one stream. Returns how many, 0 if there are none. */
size_t tail_take(struct tail *tail, int *stream, unsigned char *out, size_t max);

#endif
