/* SPDX-License-Identifier: MIT */
/* Copies the caller's bytes to the guest's stdin through a pipe. The guest never holds the caller's
 * file descriptor, so it cannot change its flags, seek it or type into the terminal behind it.
 * Called by start.c and run.c; never waits. */
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

#define RELAY_SIZE 65536

/* Open a nonblocking file description of our own. The flags of the caller's description are shared
 * with other processes, and another reader of the same pipe may take the bytes that poll() saw.
 * Returns -1 if the file is no pipe or terminal, or cannot be opened again. */
static int open_without_waiting(int fd)
{
    struct stat st;
    char path[32];
    if (fstat(fd, &st) < 0 || !(S_ISFIFO(st.st_mode) || isatty(fd)))
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

int stdin_relay_start(struct brig_run *run, struct brig_error *err)
{
    struct stdin_relay *relay = &run->relay;
    if (run->plan.relay_fd < 0)
        return 0;
    relay->own = open_without_waiting(run->plan.relay_fd);
    relay->source = relay->own >= 0 ? relay->own : run->plan.relay_fd;
    relay->bytes = chunk_new(RELAY_SIZE, &relay->memory);
    if (!relay->bytes)
        return error_memory(err, "stdin");
    int ret = run_poll(run, SOURCE_RELAY, relay->source, EPOLLIN);
    if (ret == -EPERM) {
        relay->always_ready = true;
        ret = run_poll(run, SOURCE_STDIN, run->spawned.relay, EPOLLOUT);
    }
    if (ret < 0)
        return error_system(err, "stdin", -ret, "cannot read descriptor %d: %s", relay->source,
                            error_text(-ret));
    return 0;
}

void stdin_relay_done(struct brig_run *run)
{
    struct stdin_relay *relay = &run->relay;
    if (relay->source >= 0) {
        run_unpoll(run, SOURCE_RELAY, relay->source);
        run_unpoll(run, SOURCE_STDIN, run->spawned.relay);
    }
    fd_close_at(&run->spawned.relay);
    fd_close_at(&relay->own);
    free(relay->memory);
    *relay = (struct stdin_relay){.source = -1, .own = -1};
}

/* Returns false at the end of the source, and if reading fails. */
static bool fill(struct stdin_relay *relay)
{
    struct pollfd ready = {.fd = relay->source, .events = POLLIN};
    if (!relay->always_ready && poll(&ready, 1, 0) <= 0)
        return true; /* another reader took the bytes */
    ssize_t n = recv(relay->source, relay->bytes, RELAY_SIZE, MSG_DONTWAIT);
    if (n < 0 && errno == ENOTSOCK)
        n = read(relay->source, relay->bytes, RELAY_SIZE);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    relay->at = 0;
    relay->len = (size_t)n;
    return n > 0;
}

void stdin_relay_step(struct brig_run *run)
{
    struct stdin_relay *relay = &run->relay;
    if (relay->source < 0)
        return;
    if (relay->len == 0 && !fill(relay)) {
        stdin_relay_done(run);
        return;
    }
    if (relay->len) {
        ssize_t n = writer_quiet_write(run->spawned.relay, relay->bytes + relay->at, relay->len);
        if (n < 0 && n != -EAGAIN) { /* the guest closed its stdin */
            stdin_relay_done(run);
            return;
        }
        relay->at += n > 0 ? (size_t)n : 0;
        relay->len -= n > 0 ? (size_t)n : 0;
    }
    if (relay->always_ready)
        return;
    /* Poll one side at a time: the source while the buffer is empty, the pipe while it is not. */
    if (relay->len) {
        run_unpoll(run, SOURCE_RELAY, relay->source);
        run_poll(run, SOURCE_STDIN, run->spawned.relay, EPOLLOUT);
    } else {
        run_unpoll(run, SOURCE_STDIN, run->spawned.relay);
        run_poll(run, SOURCE_RELAY, relay->source, EPOLLIN);
    }
}
