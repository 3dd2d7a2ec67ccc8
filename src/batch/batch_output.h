/* Where the results go: a descriptor of somebody else's, never waited for, whole lines. */
#ifndef CLI_BATCH_OUTPUT_H
#define CLI_BATCH_OUTPUT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/writer.h"

struct output {
    struct outlet outlet;
    struct buf queue;
    size_t sent; /* of the queue */
    size_t torn; /* bytes of a line whose end is not written yet */
};

#define OUTPUT_NONE                                                                                \
    (struct output)                                                                                \
    {                                                                                              \
        .outlet.fd = -1                                                                            \
    }

/* 0 or -errno, as all of these. */
int output_open(struct output *output, int fd);
void output_close(struct output *output);

int output_add(struct output *output, const char *lines, size_t len);

/* Write what can be written now. After a failure, half a line at the end of a file is removed. */
int output_flush(struct output *output);

bool output_pending(const struct output *output);

/* Does its reader lag so far behind that no more should be made? */
bool output_is_full(const struct output *output);

/* For poll(): -1 if it never waits. It says POLLERR when the reader is gone. */
int output_fd(const struct output *output);

#endif
