/* Outlets. */
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int outlet_open(struct outlet *outlet, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    enum outlet_kind kind = OUTLET_POLLED;
    int own = -1;
    int number;
    bool terminal = isatty(fd);
    /* The master of a pseudo terminal is a terminal too, but opening it makes a new one. */
    bool master = terminal && ioctl(fd, TIOCGPTN, &number) == 0;
    if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && !terminal)) {
        kind = OUTLET_FILE;
    } else if (S_ISSOCK(st.st_mode)) {
        kind = OUTLET_SOCKET;
    } else if (!master) {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        if (own >= 0)
            kind = OUTLET_REOPEN;
    }
    if (own < 0)
        own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (own < 0)
        return -errno;
    *outlet = (struct outlet){kind, own};
    return 0;
}

void outlet_close(struct outlet *outlet)
{
    if (outlet->fd >= 0)
        close(outlet->fd);
    outlet->fd = -1;
}

bool outlet_can_wait(const struct outlet *outlet)
{
    return outlet->kind != OUTLET_FILE;
}

#define USUAL_PIPE 65536

void outlet_enlarge(struct outlet *outlet, int size)
{
    if (fcntl(outlet->fd, F_GETPIPE_SZ) == USUAL_PIPE)
        fcntl(outlet->fd, F_SETPIPE_SZ, size);
}

/* What one call moves at most is what fits the pipe: as long as that is much, there may be more. */
static ssize_t splice_all(int from, int fd, size_t len)
{
    size_t moved = 0;
    ssize_t n;
    do {
        n = splice(from, NULL, fd, NULL, len - moved, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        moved += n > 0 ? (size_t)n : 0;
    } while (n >= USUAL_PIPE && moved < len);
    return moved ? (ssize_t)moved : n;
}

/* Bytes, or what is in the pipe `from` if there are none. */
static ssize_t quiet_write(int fd, const void *bytes, int from, size_t len)
{
    /* The library may not change how its host handles signals: block SIGPIPE in this thread only,
     * and take back the one we raised. */
    sigset_t pipe_set, before, pending;
    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_set, &before);
    ssize_t n;
    do
        n = bytes ? write(fd, bytes, len) : splice_all(from, fd, len);
    while (n < 0 && errno == EINTR);
    ssize_t ret = n < 0 ? -errno : n;
    if (ret == -EPIPE && !sigismember(&pending, SIGPIPE)) {
        struct timespec none = {0, 0};
        while (sigtimedwait(&pipe_set, NULL, &none) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ret;
}

ssize_t outlet_quiet_write(int fd, const void *bytes, size_t len)
{
    return quiet_write(fd, bytes, -1, len);
}

ssize_t outlet_splice(struct outlet *outlet, int pipe, size_t len)
{
    if (outlet->kind != OUTLET_FILE && outlet->kind != OUTLET_REOPEN)
        return -EINVAL;
    return quiet_write(outlet->fd, NULL, pipe, len);
}

ssize_t outlet_write(struct outlet *outlet, const void *bytes, size_t len)
{
    if (outlet->kind == OUTLET_SOCKET) {
        ssize_t n = send(outlet->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        return n < 0 ? -errno : n;
    }
    if (outlet->kind == OUTLET_POLLED) {
        struct pollfd poll_fd = {.fd = outlet->fd, .events = POLLOUT};
        if (poll(&poll_fd, 1, 0) <= 0)
            return -EAGAIN;
        if (len > PIPE_BUF)
            len = PIPE_BUF; /* a pipe that polls writable has room for this much */
    }
    return outlet_quiet_write(outlet->fd, bytes, len);
}
