/* SPDX-License-Identifier: MIT */
/* The output of a run, kept until the client polls for it, up to a maximum. Beyond that the oldest
 * output is dropped, so a slow client never delays a run. Offsets count the bytes of both streams
 * together, from the start of the run. */
#ifndef MCP_OUTLOG_H
#define MCP_OUTLOG_H

#include <stdint.h>

#include "base/buf.h"
#include "brig.h"

struct outlog_part;

struct outlog {
    struct outlog_part *first, *last;
    uint64_t start, end; /* offsets of the kept output */
    uint64_t lines;      /* of all output */
    size_t used, max;    /* bytes of memory */
};

void outlog_init(struct outlog *log, size_t max);
void outlog_done(struct outlog *log);
void outlog_add(struct outlog *log, enum brig_stream stream, const unsigned char *data, size_t len);
/* Add the kept output of one stream, from an offset on, to `out`. */
void outlog_read(const struct outlog *log, enum brig_stream stream, uint64_t since,
                 struct buf *out);

#endif
