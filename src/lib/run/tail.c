/* SPDX-License-Identifier: MIT */
/* Implements the ring of last bytes. tail.h has the interface. */
#include "tail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int tail_init(struct tail *tail, size_t size)
{
    *tail = (struct tail){.size = size};
    tail->ring = malloc(size ? size : 1);
    tail->segments = malloc(TAIL_SEGMENTS * sizeof *tail->segments);
    if (tail->ring && tail->segments)
        return 0;
    tail_done(tail);
    return -ENOMEM;
}

void tail_done(struct tail *tail)
{
    free(tail->ring);
    free(tail->segments);
    *tail = (struct tail){0};
}

static void drop_oldest(struct tail *tail, size_t len)
{
    struct tail_segment *segment = &tail->segments[tail->first];
    if (len > segment->len)
        len = segment->len;
    segment->len -= len;
    tail->dropped[segment->stream] += len;
    tail->start = (tail->start + len) % tail->size;
    tail->len -= len;
    if (segment->len == 0) {
        tail->first = (tail->first + 1) % TAIL_SEGMENTS;
        tail->count--;
    }
}

static struct tail_segment *segment_for(struct tail *tail, int stream)
{
    if (tail->count) {
        struct tail_segment *last =
            &tail->segments[(tail->first + tail->count - 1) % TAIL_SEGMENTS];
        if (last->stream == stream)
            return last;
    }
    if (tail->count == TAIL_SEGMENTS)
        drop_oldest(tail, tail->segments[tail->first].len);
    struct tail_segment *segment = &tail->segments[(tail->first + tail->count) % TAIL_SEGMENTS];
    tail->count++;
    *segment = (struct tail_segment){0, stream};
    return segment;
}

unsigned char *tail_space(const struct tail *tail, size_t *len)
{
    size_t end = tail->size ? (tail->start + tail->len) % tail->size : 0;
    *len = tail->size - end;
    return tail->ring + end;
}

void tail_added(struct tail *tail, int stream, size_t len)
{
    while (tail->len + len > tail->size)
        drop_oldest(tail, tail->len + len - tail->size);
    segment_for(tail, stream)->len += len;
    tail->len += len;
}

void tail_add(struct tail *tail, int stream, const unsigned char *bytes, size_t len)
{
    if (len > tail->size) {
        tail->dropped[stream] += len - tail->size;
        bytes += len - tail->size;
        len = tail->size;
    }
    if (len == 0)
        return;
    while (tail->len + len > tail->size)
        drop_oldest(tail, tail->len + len - tail->size);
    struct tail_segment *segment = segment_for(tail, stream);
    size_t end = (tail->start + tail->len) % tail->size;
    size_t first = tail->size - end < len ? tail->size - end : len;
    memcpy(tail->ring + end, bytes, first);
    memcpy(tail->ring, bytes + first, len - first);
    tail->len += len;
    segment->len += len;
}

size_t tail_take(struct tail *tail, int *stream, unsigned char *out, size_t max)
{
    if (!tail->count)
        return 0;
    const struct tail_segment *segment = &tail->segments[tail->first];
    size_t len = segment->len < max ? segment->len : max;
    size_t first = tail->size - tail->start < len ? tail->size - tail->start : len;
    *stream = segment->stream;
    memcpy(out, tail->ring + tail->start, first);
    memcpy(out + first, tail->ring, len - first);
    uint64_t dropped = tail->dropped[*stream];
    drop_oldest(tail, len);
    tail->dropped[*stream] = dropped; /* the bytes were taken, not dropped */
    return len;
}
