/* SPDX-License-Identifier: MIT */
/* Results of a batch on their way to stdout. */
#include "batch_output.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENOUGH (1u << 20) /* bytes queued, from which on no job is started */

/* Running jobs may still add their captured output, which their own limits bound. */
#define QUEUE_MAX (SIZE_MAX / 4)

int output_open(struct output *output, int fd)
{
    int ret = writer_open(&output->writer, fd);
    buf_init(&output->queue, QUEUE_MAX);
    return ret;
}

void output_close(struct output *output)
{
    writer_close(&output->writer);
    buf_done(&output->queue);
}

int output_add(struct output *output, const char *lines, size_t len)
{
    struct buf *queue = &output->queue;
    if (output->sent >
        queue->len / 2) { /* keeps the queue short for a reader that never quite catches up */
        queue->len -= output->sent;
        memmove(queue->data, queue->data + output->sent, queue->len);
        output->sent = 0;
    }
    buf_add(&output->queue, lines, len);
    return buf_failed(&output->queue);
}

bool output_pending(const struct output *output)
{
    return output->sent < output->queue.len;
}

bool output_is_full(const struct output *output)
{
    return output->queue.len - output->sent > ENOUGH;
}

int output_fd(const struct output *output)
{
    return output->writer.kind == WRITER_FILE ? -1 : output->writer.fd;
}

/* Remove an incomplete line at the end of the file, unless another process has appended to it. */
static void remove_torn(struct output *output)
{
    struct stat st;
    off_t at = lseek(output->writer.fd, 0, SEEK_CUR);
    if (!output->torn || at < (off_t)output->torn || fstat(output->writer.fd, &st) < 0 ||
        !S_ISREG(st.st_mode) || st.st_size != at)
        return;
    at -= (off_t)output->torn;
    if (ftruncate(output->writer.fd, at) == 0)
        lseek(output->writer.fd, at, SEEK_SET);
    output->torn = 0;
}

static void count(struct output *output, size_t n)
{
    const char *bytes = output->queue.data + output->sent;
    const char *end = memrchr(bytes, '\n', n);
    output->torn = end ? n - (size_t)(end + 1 - bytes) : output->torn + n;
    output->sent += n;
    output->total += n;
}

int output_flush(struct output *output)
{
    while (output_pending(output)) {
        ssize_t n = writer_write(&output->writer, output->queue.data + output->sent,
                                 output->queue.len - output->sent);
        if (n == -EAGAIN)
            return 0;
        if (n < 0) {
            remove_torn(output);
            return (int)n;
        }
        count(output, (size_t)n);
    }
    buf_done(&output->queue); /* frees the memory of a large result */
    buf_init(&output->queue, QUEUE_MAX);
    output->sent = 0;
    return 0;
}
