/* SPDX-License-Identifier: MIT */
/* The nonblocking writer of writer.h. */
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

#include "clock.h"

int writer_open(struct writer *writer, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    enum writer_kind kind = WRITER_POLLED;
    int own = -1;
    int number;
    bool terminal = isatty(fd);
    /* The master of a pseudoterminal is a terminal too, but opening it creates a new one. */
    bool master = terminal && ioctl(fd, TIOCGPTN, &number) == 0;
    if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && !terminal)) {
        kind = WRITER_FILE;
    } else if (S_ISSOCK(st.st_mode)) {
        kind = WRITER_SOCKET;
    } else if (!master) {
        char path[32];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        if (own >= 0)
            kind = WRITER_REOPEN;
    }
    if (own < 0)
        own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (own < 0)
        return -errno;
    *writer = (struct writer){kind, own};
    return 0;
}

void writer_close(struct writer *writer)
{
    if (writer->fd >= 0)
        close(writer->fd);
    writer->fd = -1;
}

bool writer_can_wait(const struct writer *writer)
{
    return writer->kind != WRITER_FILE;
}

#define USUAL_PIPE 65536

void writer_enlarge(struct writer *writer, int size)
{
    if (fcntl(writer->fd, F_GETPIPE_SZ) == USUAL_PIPE)
        fcntl(writer->fd, F_SETPIPE_SZ, size);
}

/* One splice() moves at most the capacity of the pipe. After a full one, more may be waiting. */
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

/* Write the bytes, or splice from the pipe `from` if `bytes` is NULL. */
static ssize_t quiet_write(int fd, const void *bytes, int from, size_t len)
{
    /* A library may not change how its process handles signals: block SIGPIPE in this thread only,
     * and consume the one that this write raised. */
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

ssize_t writer_quiet_write(int fd, const void *bytes, size_t len)
{
    return quiet_write(fd, bytes, -1, len);
}

ssize_t writer_splice(struct writer *writer, int pipe, size_t len)
{
    if (writer->kind != WRITER_FILE && writer->kind != WRITER_REOPEN)
        return -EINVAL;
    return quiet_write(writer->fd, NULL, pipe, len);
}

ssize_t writer_write(struct writer *writer, const void *bytes, size_t len)
{
    if (writer->kind == WRITER_SOCKET) {
        ssize_t n = send(writer->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        return n < 0 ? -errno : n;
    }
    if (writer->kind == WRITER_POLLED) {
        struct pollfd poll_fd = {.fd = writer->fd, .events = POLLOUT};
        if (poll(&poll_fd, 1, 0) <= 0)
            return -EAGAIN;
        if (len > PIPE_BUF)
            len = PIPE_BUF; /* a pipe that polls writable has room for PIPE_BUF bytes */
    }
    return writer_quiet_write(writer->fd, bytes, len);
}

static uint64_t end_of(uint64_t patience_ns)
{
    uint64_t now = clock_now();
    return patience_ns < UINT64_MAX - now ? now + patience_ns : UINT64_MAX;
}

/* Wait until the file descriptor may accept more bytes. */
static int wait_for_reader(const struct writer *writer, uint64_t until)
{
    uint64_t now = clock_now();
    struct pollfd ready = {.fd = writer->fd, .events = POLLOUT};
    if (now >= until)
        return -ETIMEDOUT;
    uint64_t left = (until - now) / NS_PER_MS + 1;
    poll(&ready, 1, left < INT_MAX ? (int)left : INT_MAX);
    return 0;
}

int writer_deliver(int fd, const void *bytes, size_t len, uint64_t patience_ns)
{
    struct writer writer = {.fd = -1};
    const char *at = bytes;
    int ret = writer_open(&writer, fd);
    bool borrowed = ret < 0 && ret != -EBADF; /* write even when out of file descriptors */
    if (borrowed) {
        writer = (struct writer){WRITER_POLLED, fd};
        ret = 0;
    }
    uint64_t until = end_of(patience_ns);
    while (ret == 0 && len) {
        ssize_t n = writer_write(&writer, at, len);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
            until = end_of(patience_ns);
        } else if (n == -EAGAIN) {
            ret = wait_for_reader(&writer, until);
        } else if (n != -EINTR) {
            ret = n < 0 ? (int)n : -EIO;
        }
    }
    if (!borrowed)
        writer_close(&writer);
    return ret;
}
