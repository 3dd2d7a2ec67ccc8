/* The caller's bytes to the guest's stdin, through a pipe: the guest never holds the caller's
 * descriptor, so it cannot change its flags, seek it or type into the terminal behind it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/chunk.h"
#include "base/error.h"
#include "base/fd.h"
#include "run.h"

#define FEED_SIZE 65536

/* A description of our own that does not wait: the caller's flags are shared with others, and
 * another reader of the same pipe may take what poll() saw. -1 where there is none to be had. */
static int open_without_waiting(int fd)
{
    struct stat st;
    char path[32];
    if (fstat(fd, &st) < 0 || !(S_ISFIFO(st.st_mode) || isatty(fd)))
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

int feed_start(struct brig_run *run, struct brig_error *err)
{
    struct feed *feed = &run->feed;
    if (run->plan.feed_fd < 0)
        return 0;
    feed->own = open_without_waiting(run->plan.feed_fd);
    feed->source = feed->own >= 0 ? feed->own : run->plan.feed_fd;
    feed->bytes = chunk_new(FEED_SIZE, &feed->memory);
    if (!feed->bytes)
        return error_memory(err, "stdin");
    int ret = run_poll(run, SOURCE_FEED, feed->source, EPOLLIN);
    if (ret == -EPERM) {
        feed->always_ready = true;
        ret = run_poll(run, SOURCE_STDIN, run->spawned.feed, EPOLLOUT);
    }
    if (ret < 0)
        return error_system(err, "stdin", -ret, "cannot read descriptor %d: %s", feed->source,
                            error_text(-ret));
    return 0;
}

void feed_done(struct brig_run *run)
{
    struct feed *feed = &run->feed;
    if (feed->source >= 0) {
        run_unpoll(run, SOURCE_FEED, feed->source);
        run_unpoll(run, SOURCE_STDIN, run->spawned.feed);
    }
    fd_close_at(&run->spawned.feed);
    fd_close_at(&feed->own);
    free(feed->memory);
    *feed = (struct feed){.source = -1, .own = -1};
}

/* Returns false at the end of the source, and when it fails. */
static bool fill(struct feed *feed)
{
    struct pollfd ready = {.fd = feed->source, .events = POLLIN};
    if (!feed->always_ready && poll(&ready, 1, 0) <= 0)
        return true; /* somebody else took what was there */
    ssize_t n = recv(feed->source, feed->bytes, FEED_SIZE, MSG_DONTWAIT);
    if (n < 0 && errno == ENOTSOCK)
        n = read(feed->source, feed->bytes, FEED_SIZE);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    feed->at = 0;
    feed->len = (size_t)n;
    return n > 0;
}

void feed_step(struct brig_run *run)
{
    struct feed *feed = &run->feed;
    if (feed->source < 0)
        return;
    if (feed->len == 0 && !fill(feed)) {
        feed_done(run);
        return;
    }
    if (feed->len) {
        ssize_t n = outlet_quiet_write(run->spawned.feed, feed->bytes + feed->at, feed->len);
        if (n < 0 && n != -EAGAIN) { /* the guest closed its stdin: nothing more to do */
            feed_done(run);
            return;
        }
        feed->at += n > 0 ? (size_t)n : 0;
        feed->len -= n > 0 ? (size_t)n : 0;
    }
    if (feed->always_ready)
        return;
    /* One side at a time: the source while the buffer is empty, the pipe while it is not. */
    if (feed->len) {
        run_unpoll(run, SOURCE_FEED, feed->source);
        run_poll(run, SOURCE_STDIN, run->spawned.feed, EPOLLOUT);
    } else {
        run_unpoll(run, SOURCE_STDIN, run->spawned.feed);
        run_poll(run, SOURCE_FEED, feed->source, EPOLLIN);
    }
}
