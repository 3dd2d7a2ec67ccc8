/* SPDX-License-Identifier: MIT */
/* Writes to a file descriptor that belongs to another program, without ever waiting for its reader,
 * without changing its flags (which other processes share) and without raising SIGPIPE. */
#ifndef BASE_WRITER_H
#define BASE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum writer_kind {
    WRITER_FILE,   /* a regular file or a device: writing never waits for a reader */
    WRITER_SOCKET, /* nonblocking by a flag of each send() */
    WRITER_REOPEN, /* a second, nonblocking open file description of the same pipe or terminal */
    WRITER_POLLED, /* the last resort: poll(), then write no more than is certain to fit */
};

struct writer {
    enum writer_kind kind;
    int fd; /* owned by the writer */
};

/* Returns 0 or -errno. The caller keeps `fd`. */
int writer_open(struct writer *writer, int fd);
void writer_close(struct writer *writer);

/* True if poll() reports when the file descriptor accepts more bytes. */
bool writer_can_wait(const struct writer *writer);

/* Enlarge a pipe of the default size to `size` bytes, so that its reader is woken less often. A
 * pipe of any other size was sized on purpose and is left alone. Best effort: the kernel may
 * refuse. */
void writer_enlarge(struct writer *writer, int size);

/* Move up to `len` bytes out of a pipe without copying them to this process. Returns the number of
 * bytes, 0 at the end of the pipe, or -errno: -EAGAIN if either side would block, -EINVAL if this
 * kind of writer cannot splice. */
ssize_t writer_splice(struct writer *writer, int pipe, size_t len);

/* Returns the number of bytes written, -EAGAIN if the write would block, or another -errno. */
ssize_t writer_write(struct writer *writer, const void *bytes, size_t len);

/* Write all bytes to a file descriptor of another program. Gives up once its reader has taken
 * nothing for `patience_ns`. Returns 0, -ETIMEDOUT or another -errno; a part may have been written.
 */
int writer_deliver(int fd, const void *bytes, size_t len, uint64_t patience_ns);

/* write() to a file descriptor of brig's own, without SIGPIPE. */
ssize_t writer_quiet_write(int fd, const void *bytes, size_t len);

#endif
