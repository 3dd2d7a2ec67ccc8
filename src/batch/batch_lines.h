/* Lines of a stream of any length, one at a time, in memory that does not grow with it. */
#ifndef CLI_BATCH_LINES_H
#define CLI_BATCH_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "brig.h"

#define LINES_LINE_MAX BRIG_SPEC_MAX

enum lines_found {
    LINES_LINE,
    LINES_TOO_LONG, /* a line that was passed over */
    LINES_WAIT,     /* lines_fill() first */
    LINES_END,
};

struct lines {
    int fd;
    char *data;
    size_t from, to; /* what was read and not given */
    bool ended, skipping;
    uint64_t number; /* of the line that was given last, from 1 */
    uint64_t hash;   /* of its bytes, without the newline */
};

/* 0 or -ENOMEM. The descriptor stays the caller's. */
int lines_init(struct lines *lines, int fd);
void lines_done(struct lines *lines);

/* Read once; waits if the descriptor does. 0 or -errno. */
int lines_fill(struct lines *lines);

/* The next line with something on it, valid until the next call of either function. */
enum lines_found lines_next(struct lines *lines, const char **line, size_t *len);

/* FNV-1a; begin with LINES_HASH. */
#define LINES_HASH UINT64_C(0xcbf29ce484222325)
uint64_t lines_hash(uint64_t hash, const char *bytes, size_t len);

#endif
