/* What a run printed, kept until somebody asks, up to a maximum: then the oldest is dropped, so
 * that nobody who is slow to ask holds a run up. Places in it are counted in bytes of both streams
 * together, from the start of the run. */
#ifndef MCP_OUTLOG_H
#define MCP_OUTLOG_H

#include <stdint.h>

#include "base/buf.h"
#include "brig.h"

struct outlog_part;

struct outlog {
    struct outlog_part *first, *last;
    uint64_t start, end; /* of what is kept */
    uint64_t lines;      /* all there were */
    size_t used, max;    /* memory */
};

void outlog_init(struct outlog *log, size_t max);
void outlog_done(struct outlog *log);
void outlog_add(struct outlog *log, enum brig_stream stream, const unsigned char *data, size_t len);
/* What is kept of one stream from a place on. */
void outlog_read(const struct outlog *log, enum brig_stream stream, uint64_t since,
                 struct buf *out);

#endif
