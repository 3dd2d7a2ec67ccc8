/* Writing to a descriptor that belongs to somebody else without ever waiting for its reader,
 * without changing its flags (they are shared with other processes) and without raising SIGPIPE. */
#ifndef BASE_OUTLET_H
#define BASE_OUTLET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum outlet_kind {
    OUTLET_FILE,   /* a regular file or a device: writing does not wait for anybody */
    OUTLET_SOCKET, /* takes a flag per write */
    OUTLET_REOPEN, /* a second, non-blocking description of the same pipe or terminal */
    OUTLET_POLLED, /* the last resort: ask poll(), then write no more than surely fits */
};

struct outlet {
    enum outlet_kind kind;
    int fd; /* ours */
};

/* Returns 0 or -errno. The caller keeps `fd`. */
int outlet_open(struct outlet *outlet, int fd);
void outlet_close(struct outlet *outlet);

/* Can poll() tell when it takes more? */
bool outlet_can_wait(const struct outlet *outlet);

/* A pipe of the usual size becomes one of `size` bytes, so that its reader is woken less often; one
 * that somebody chose the size of stays as it is. A wish: the kernel may refuse it. */
void outlet_enlarge(struct outlet *outlet, int size);

/* Move up to `len` bytes out of a pipe without looking at them. Returns how many, 0 at the end of
 * the pipe, or -errno: -EAGAIN if either side has to wait, -EINVAL if this outlet cannot do it. */
ssize_t outlet_splice(struct outlet *outlet, int pipe, size_t len);

/* Bytes written, -EAGAIN if it would wait, or another -errno. */
ssize_t outlet_write(struct outlet *outlet, const void *bytes, size_t len);

/* write() on a descriptor of our own, without SIGPIPE. */
ssize_t outlet_quiet_write(int fd, const void *bytes, size_t len);

#endif
