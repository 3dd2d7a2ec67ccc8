/* SPDX-License-Identifier: MIT */
/* The queue of results for stdout, which is another process's file: complete lines, and writes that
 * never block. */
#ifndef CLI_BATCH_OUTPUT_H
#define CLI_BATCH_OUTPUT_H

#include <stdbool.h>

#include <stdint.h>

#include "base/buf.h"
#include "base/writer.h"

struct output {
    struct writer writer;
    struct buf queue;
    uint64_t total; /* bytes written so far */
    size_t sent;    /* bytes of the queue that are written */
    size_t torn;    /* bytes written of an incomplete line */
};

#define OUTPUT_NONE                                                                                \
    (struct output)                                                                                \
    {                                                                                              \
        .writer.fd = -1                                                                            \
    }

/* These return 0 or -errno. */
int output_open(struct output *output, int fd);
void output_close(struct output *output);

int output_add(struct output *output, const char *lines, size_t len);

/* Write as much as possible without blocking. After an error, an incomplete line at the end of a
 * file is removed. */
int output_flush(struct output *output);

bool output_pending(const struct output *output);

/* True if the reader is so far behind that no job should be started. */
bool output_is_full(const struct output *output);

/* The file descriptor for poll(), -1 for a file, which never blocks. POLLERR: the reader is
 * gone. */
int output_fd(const struct output *output);

#endif
