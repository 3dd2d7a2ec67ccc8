/* SPDX-License-Identifier: MIT */
/* Reads a stream of any length line by line in fixed memory. */
#ifndef CLI_BATCH_LINES_H
#define CLI_BATCH_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "brig.h"

#define LINES_LINE_MAX BRIG_SPEC_MAX

enum lines_found {
    LINES_LINE,
    LINES_TOO_LONG, /* a line that was skipped */
    LINES_WAIT,     /* call lines_fill() first */
    LINES_END,
};

struct lines {
    int fd;
    char *data;
    size_t from, to; /* the bytes that were read and not yet returned */
    bool ended, skipping;
    uint64_t number; /* of the last line, from 1 */
    uint64_t hash;   /* of the bytes of the last line, without the newline */
};

/* Returns 0 or -ENOMEM. `fd` stays the caller's. */
int lines_init(struct lines *lines, int fd);
void lines_done(struct lines *lines);

/* Read once; blocks if `fd` is blocking. Returns 0 or -errno. */
int lines_fill(struct lines *lines);

/* The next line that is not blank, valid until the next call of either function. */
enum lines_found lines_next(struct lines *lines, const char **line, size_t *len);

/* FNV-1a; start with LINES_HASH. */
#define LINES_HASH UINT64_C(0xcbf29ce484222325)
uint64_t lines_hash(uint64_t hash, const char *bytes, size_t len);

#endif
