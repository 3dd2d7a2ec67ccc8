/* SPDX-License-Identifier: MIT */
/* The log of a run's output. */
#include "outlog.h"

#include <stdlib.h>
#include <string.h>

#define PART       4096 /* small chunks of output share a part */
#define PART_FIRST 64

/* A part holds complete chunks and so complete characters: after parts are dropped, the rest is
 * still valid text. */
struct outlog_part {
    struct outlog_part *next;
    enum brig_stream stream;
    size_t len, size;
    unsigned char *data;
};

void outlog_init(struct outlog *log, size_t max)
{
    *log = (struct outlog){.max = max};
}

static void drop_first(struct outlog *log)
{
    struct outlog_part *part = log->first;
    log->first = part->next;
    if (!log->first)
        log->last = NULL;
    log->start += part->len;
    log->used -= sizeof *part + part->size;
    free(part->data);
    free(part);
}

void outlog_done(struct outlog *log)
{
    while (log->first)
        drop_first(log);
}

/* Make room for `len` bytes in the last part or in a new one; NULL if memory is short. */
static struct outlog_part *make_room(struct outlog *log, enum brig_stream stream, size_t len)
{
    struct outlog_part *part = log->last;
    if (!part || part->stream != stream || (part->len && part->len + len > PART)) {
        part = calloc(1, sizeof *part);
        if (!part)
            return NULL;
        part->stream = stream;
        *(log->last ? &log->last->next : &log->first) = part;
        log->last = part;
        log->used += sizeof *part;
    }
    if (part->size - part->len < len) {
        size_t size = part->size ? part->size * 2 : PART_FIRST;
        size = size < part->len + len ? part->len + len : size;
        unsigned char *data = realloc(part->data, size);
        if (!data)
            return NULL;
        log->used += size - part->size;
        part->data = data;
        part->size = size;
    }
    return part;
}

void outlog_add(struct outlog *log, enum brig_stream stream, const unsigned char *data, size_t len)
{
    if (len == 0)
        return;
    struct outlog_part *part = make_room(log, stream, len);
    for (size_t i = 0; i < len; i++)
        log->lines += data[i] == '\n';
    log->end += len;
    if (!part) { /* out of memory: drop everything, so that there is no gap in the middle */
        outlog_done(log);
        log->start = log->end;
        return;
    }
    memcpy(part->data + part->len, data, len);
    part->len += len;
    while (log->used > log->max && log->first != log->last)
        drop_first(log);
}

void outlog_read(const struct outlog *log, enum brig_stream stream, uint64_t since, struct buf *out)
{
    uint64_t at = log->start;
    for (const struct outlog_part *part = log->first; part; part = part->next) {
        size_t skip = since <= at ? 0 : since - at < part->len ? (size_t)(since - at) : part->len;
        if (part->stream == stream)
            buf_add(out, part->data + skip, part->len - skip);
        at += part->len;
    }
}
