/* Writing results. */
#include "batch_output.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENOUGH (1u << 20) /* for a reader to catch up with, before more is made */

/* What runs adds what it has captured, which its own limits bound. */
#define QUEUE_MAX (SIZE_MAX / 4)

int output_open(struct output *output, int fd)
{
    int ret = outlet_open(&output->outlet, fd);
    buf_init(&output->queue, QUEUE_MAX);
    return ret;
}

void output_close(struct output *output)
{
    outlet_close(&output->outlet);
    buf_done(&output->queue);
}

int output_add(struct output *output, const char *lines, size_t len)
{
    struct buf *queue = &output->queue;
    if (output->sent > queue->len / 2) { /* a reader that never quite catches up */
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
    return output->outlet.kind == OUTLET_FILE ? -1 : output->outlet.fd;
}

/* Only if it is the end of the file that we wrote: others may append to it as well. */
static void remove_torn(struct output *output)
{
    struct stat st;
    off_t at = lseek(output->outlet.fd, 0, SEEK_CUR);
    if (!output->torn || at < (off_t)output->torn || fstat(output->outlet.fd, &st) < 0 ||
        !S_ISREG(st.st_mode) || st.st_size != at)
        return;
    at -= (off_t)output->torn;
    if (ftruncate(output->outlet.fd, at) == 0)
        lseek(output->outlet.fd, at, SEEK_SET);
    output->torn = 0;
}

static void count(struct output *output, size_t n)
{
    const char *bytes = output->queue.data + output->sent;
    const char *end = memrchr(bytes, '\n', n);
    output->torn = end ? n - (size_t)(end + 1 - bytes) : output->torn + n;
    output->sent += n;
}

int output_flush(struct output *output)
{
    while (output_pending(output)) {
        ssize_t n = outlet_write(&output->outlet, output->queue.data + output->sent,
                                 output->queue.len - output->sent);
        if (n == -EAGAIN)
            return 0;
        if (n < 0) {
            remove_torn(output);
            return (int)n;
        }
        count(output, (size_t)n);
    }
    buf_done(&output->queue); /* a large result is not kept for ever */
    buf_init(&output->queue, QUEUE_MAX);
    output->sent = 0;
    return 0;
}
