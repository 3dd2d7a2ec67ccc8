/* SPDX-License-Identifier: MIT */
/* Steps a run: polls its sources, moves its output, drains its pipes and finishes it. Implements
 * the brig_run_*() functions of brig.h that step, wait and cancel. Blocks only in
 * brig_run_wait(). */
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "lib/plan/host.h"

#define DRAIN_ROUNDS 64

/* ---- events -------------------------------------------------------------------------------- */

void brig_run_watch(struct brig_run *run)
{
    if (run->events.watched)
        return;
    run->events.watched = run->pump.watched = true;
    /* A stream that goes to a terminal is not redacted by default, but its events go elsewhere:
     * redact it as well. This is possible because nothing has been read yet. */
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR && run->plan.redacts && !run->stepped; i++)
        pump_redact(&run->pump, i, run->plan.rules);
    run->clocks.usage_at = run->clocks.started + NS_PER_S;
    run_push_event(run, (struct brig_event){.type = BRIG_EVENT_STARTED, .pid = run->facts.pid});
    watch_arm(run);
}

static void push_output(struct brig_run *run, int stream)
{
    const struct pump_stream *s = &run->pump.streams[stream];
    if (s->event && s->event_len)
        run_push_event(run, (struct brig_event){.type = BRIG_EVENT_OUTPUT,
                                                .stream = (enum brig_stream)stream,
                                                .data = s->event,
                                                .len = s->event_len});
}

/* ---- step ---------------------------------------------------------------------------------- */

/* The reader of a passed-on stream is gone, or its disk is full. Close the pipe towards the guest
 * too, so that the guest gets SIGPIPE or EPIPE. If that does not end it, the supervisor does after
 * kill-after. */
static void stream_broken(struct brig_run *run, int stream)
{
    struct pump_stream *s = &run->pump.streams[stream];
    run_unpoll(run, (enum run_source)stream, s->fd);
    fd_close_at(&run->spawned.streams[stream]);
    s->fd = -1;
    if (run->clocks.reader_gone_at != NEVER || run->facts.reason != END_NONE)
        return;
    snprintf(run->report.why, sizeof run->report.why, "%s: %s",
             stream == BRIG_STDOUT ? "stdout" : "stderr", error_text(s->broken));
    run->facts.why = run->report.why;
    run->clocks.reader_gone_at = clock_now() + run->plan.limits.kill_after_ns;
}

static void close_stream(struct brig_run *run, int stream)
{
    run_unpoll(run, (enum run_source)stream, run->pump.streams[stream].fd);
    fd_close_at(&run->spawned.streams[stream]);
    run->pump.streams[stream].fd = -1;
}

static enum run_source sink_of(int stream)
{
    return stream == BRIG_STDOUT ? SOURCE_STDOUT_SINK : SOURCE_STDERR_SINK;
}

/* Poll the sink while it has not taken its bytes, and the guest otherwise. */
static void choose_side(struct brig_run *run, int stream)
{
    struct pump_stream *s = &run->pump.streams[stream];
    if (s->broken && s->fd >= 0)
        stream_broken(run, stream);
    if (pump_waits(&run->pump, stream)) {
        if (s->fd >= 0)
            run_unpoll(run, (enum run_source)stream, s->fd);
        run_poll(run, sink_of(stream), s->writer.fd, EPOLLOUT);
    } else {
        run_unpoll(run, sink_of(stream), s->writer.fd);
        if (s->fd >= 0 && run->phase < PHASE_DRAINING)
            run_poll(run, (enum run_source)stream, s->fd, EPOLLIN);
    }
}

static void move_stream(struct brig_run *run, int stream)
{
    enum pump_state state = pump_read(&run->pump, stream);
    if (state == PUMP_MOVED)
        run->moved |= 1u << stream;
    if (state == PUMP_MOVED)
        push_output(run, stream);
    if (state == PUMP_ENDED && run->pump.streams[stream].fd >= 0)
        close_stream(run, stream);
    choose_side(run, stream);
    if (run->pump.over && !run->plan.truncate_output)
        ending_terminate(run, END_OUTPUT);
}

static void close_channel(struct brig_run *run)
{
    run_unpoll(run, SOURCE_CHANNEL, run->spawned.channel);
    fd_close_at(&run->spawned.channel);
    channel_end(&run->channel);
}

/* Read the bytes of the guest's result that are there, and close the channel once further bytes
 * cannot matter. Returns the number of bytes read. */
static size_t read_channel(struct brig_run *run)
{
    char bytes[4096];
    size_t len = sizeof bytes;
    if (run->answered) {
        close_channel(run);
        return 0;
    }
    char *space = channel_space(&run->channel, &len);
    ssize_t n = read(run->spawned.channel, space ? space : bytes, len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    bool goes_on = n > 0;
    if (goes_on && space)
        channel_filled(&run->channel, (size_t)n);
    else if (goes_on)
        goes_on = channel_feed(&run->channel, bytes, (size_t)n);
    if (!goes_on)
        close_channel(run);
    return n > 0 ? (size_t)n : 0;
}

static void handle(struct brig_run *run, enum run_source source)
{
    uint64_t count;
    switch (source) {
    case SOURCE_STDIN:
    case SOURCE_RELAY:
        stdin_relay_step(run);
        break;
    case SOURCE_STDOUT:
    case SOURCE_STDERR:
        move_stream(run, (int)source);
        break;
    case SOURCE_STDOUT_SINK:
    case SOURCE_STDERR_SINK: {
        int stream = source == SOURCE_STDOUT_SINK ? BRIG_STDOUT : BRIG_STDERR;
        if (pump_flush(&run->pump, stream) && run->phase < PHASE_DRAINING)
            move_stream(run, stream);
        else
            choose_side(run, stream);
        break;
    }
    case SOURCE_CHANNEL:
        read_channel(run);
        break;
    case SOURCE_CONTROL:
        run_read_control(run);
        break;
    case SOURCE_INIT:
        run->seen.init_gone = true;
        run_unpoll(run, SOURCE_INIT, run->spawned.pidfd);
        break;
    case SOURCE_TIMER:
        if (read(run->sources.timer, &count, sizeof count) == sizeof count)
            run->clocks.armed = 0; /* it has fired: watch_arm() has to set it again */
        break;
    case SOURCE_PIDS:
        watch_pids(run);
        break;
    case SOURCE_MEMORY:
        run->seen.memory_looks = 0;
        if (read(run->spawned.group.memory_events, &count, sizeof count) > 0)
            watch_memory(run);
        break;
    case SOURCE_HELPER:
        run_reap_helper(run);
        break;
    case SOURCE_COUNT:
        break;
    }
}

/* When the process tree is gone, the result is complete: nothing is added to the channel later. */
static void drain_channel(struct brig_run *run)
{
    int left = 0;
    if (run->spawned.channel < 0)
        return;
    if (ioctl(run->spawned.channel, FIONREAD, &left) < 0)
        left = 0;
    while (left > 0 && run->spawned.channel >= 0) {
        size_t n = read_channel(run);
        if (n == 0)
            break;
        left -= (int)n;
    }
    if (run->spawned.channel >= 0)
        close_channel(run);
}

static void begin_draining(struct brig_run *run)
{
    uint64_t now = clock_now();
    run_read_control(run);
    run_unpoll(run, SOURCE_CONTROL, run->spawned.control);
    stdin_relay_done(run);
    drain_channel(run);
    /* If init was killed, the supervisor has to end the tree. */
    if (!run->seen.tree_gone && group_populated(&run->spawned.group))
        group_kill(&run->spawned.group);
    run->phase = PHASE_DRAINING;
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        /* Bytes that come later were not written by this run. */
        int fd = run->pump.streams[i].fd;
        if (fd < 0)
            continue;
        if (ioctl(fd, FIONREAD, &run->left_in_pipe[i]) < 0)
            run->left_in_pipe[i] = 0;
        run_unpoll(run, (enum run_source)i, fd); /* from here on only drain() reads it */
    }
    /* A reader has until the run's own timeout, and at least kill-after, to take the output. */
    uint64_t least = now + run->plan.limits.kill_after_ns;
    run->clocks.drain_until = run->plan.limits.timeout_ns == BRIG_UNLIMITED
                                  ? NEVER
                                  : run->clocks.started + run->plan.limits.timeout_ns;
    if (run->clocks.drain_until < least || run->cancelled)
        run->clocks.drain_until = least;
}

/* The process tree is gone: read the rest of the pipes, but do not wait for their end, since a
 * process outside may hold the write end. Read one chunk per stream and step, because the events of
 * a step point at it. Returns true when nothing is left to do. */
static bool drain(struct brig_run *run)
{
    bool done = true;
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        if (pump_is_done(&run->pump, i))
            continue;
        enum pump_state state = pump_read(&run->pump, i);
        if (state == PUMP_MOVED) {
            push_output(run, i);
            run->left_in_pipe[i] -= (int)run->pump.streams[i].read_len;
        }
        if (state == PUMP_EMPTY || state == PUMP_ENDED ||
            (state == PUMP_MOVED && run->left_in_pipe[i] <= 0))
            close_stream(run, i);
        choose_side(run, i);
        done = done && state != PUMP_MOVED && pump_is_done(&run->pump, i);
    }
    if (!done)
        return false;
    int stream = 0;
    enum pump_state state = pump_finish(&run->pump, &stream);
    if (state == PUMP_MOVED)
        push_output(run, stream);
    choose_side(run, BRIG_STDOUT);
    choose_side(run, BRIG_STDERR);
    return state == PUMP_ENDED;
}

/* Make the next step due at once, though no file descriptor is ready. */
static void step_again(struct brig_run *run)
{
    struct itimerspec now = {.it_value = {.tv_nsec = 1}};
    if (timerfd_settime(run->sources.timer, 0, &now, NULL) == 0)
        run->clocks.armed = 0;
}

/* Returns true when the run is over. */
static bool step_draining(struct brig_run *run, uint64_t now)
{
    bool empty = drain(run);
    if (!empty && now >= run->clocks.drain_until) {
        for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
            struct pump_stream *s = &run->pump.streams[i];
            if (pump_waits(&run->pump, i) && !s->broken)
                s->broken = ETIMEDOUT;
            pump_drop_pending(&run->pump, i);
            pump_drop_unread(&run->pump, i, run->left_in_pipe[i]);
        }
        empty = true;
    }
    if (!empty)
        return false;
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        if (pump_release_carry(&run->pump, i))
            push_output(run, i);
    }
    finish_run(run);
    return true;
}

/* Is there work that no file descriptor announces? A stream with a blocked sink waits for the sink,
 * and does not hold up the other stream. */
static bool has_work(const struct brig_run *run)
{
    bool pending = false, work = false;
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        bool waits = pump_waits(&run->pump, i);
        bool more = run->phase == PHASE_DRAINING ? !pump_is_done(&run->pump, i)
                                                 : pump_has_more(&run->pump, i);
        pending = pending || waits;
        work = work || (more && !waits);
    }
    return work || (run->phase == PHASE_DRAINING && !pending);
}

/* Drain in several rounds. If the run is watched, take one round only, because its events point at
 * the bytes read last. Returns true when the run is over. */
static bool drain_on(struct brig_run *run, uint64_t now)
{
    if (run->moved && run->events.watched)
        return false;
    for (int round = 0; round < DRAIN_ROUNDS; round++) {
        if (step_draining(run, now))
            return true;
        if (run->events.watched || !has_work(run))
            return false;
    }
    return false;
}

int brig_run_step(struct brig_run *run)
{
    struct epoll_event events[SOURCE_COUNT];
    run->events.next = 0;
    if (run->stepped) /* keep the event that brig_run_watch() pushed before the first step */
        run->events.count = 0;
    run->stepped = true;
    run->moved = 0;
    if (run->phase == PHASE_OVER)
        return 1;
    int count = epoll_wait(run->sources.epoll, events, SOURCE_COUNT, 0);
    for (int i = 0; i < count; i++)
        handle(run, (enum run_source)events[i].data.u32);
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR && run->phase < PHASE_DRAINING; i++) {
        if (pump_has_more(&run->pump, i) && !(run->moved & 1u << i))
            move_stream(run, i);
    }
    uint64_t now = clock_now();
    watch_clocks(run, now);
    /* Do not wait for the end of the streams: a process outside that was given the guest's stdout
     * may write to it for ever. */
    if ((run->seen.init_gone || run->deferred) && run->phase < PHASE_DRAINING)
        begin_draining(run);
    if (run->phase == PHASE_DRAINING && drain_on(run, now))
        return 1;
    if (has_work(run))
        step_again(run);
    else
        watch_arm(run);
    return 0;
}

int brig_run_wait(struct brig_run *run, int timeout_ms)
{
    uint64_t until = timeout_ms < 0 ? NEVER : clock_now() + (uint64_t)timeout_ms * NS_PER_MS;
    while (!brig_run_step(run)) {
        uint64_t now = clock_now();
        if (now >= until)
            return 0;
        struct pollfd ready = {.fd = run->sources.epoll, .events = POLLIN};
        uint64_t left = until == NEVER ? 0 : (until - now) / NS_PER_MS + 1;
        poll(&ready, 1, until == NEVER ? -1 : (int)(left < 60000 ? left : 60000));
    }
    return 1;
}

/* ---- accessors, cancelling ----------------------------------------------------------------- */

int brig_run_fd(const struct brig_run *run)
{
    return run->sources.epoll;
}

bool brig_run_was_warm(const struct brig_run *run)
{
    return run->warm;
}

int brig_run_pid(const struct brig_run *run)
{
    return run->spawned.pid;
}

/* Unread output has to be counted before an answer is accepted: it may exceed the budget. */
static bool has_unread_output(const struct brig_run *run)
{
    int unread = 0;
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        int fd = run->pump.streams[i].fd;
        if (fd >= 0 && ioctl(fd, FIONREAD, &unread) == 0 && unread > 0)
            return true;
    }
    return false;
}

const char *brig_run_answer(struct brig_run *run, size_t *len)
{
    bool whole =
        run->plan.channel && run->channel.state == BRIG_CHANNEL_SENT && run->channel.body.len;
    if (run->phase == PHASE_RUNNING && whole && !run->answered && !has_unread_output(run)) {
        finish_answer(run);
        run->answered = true;
    }
    *len = run->report.result.output_len;
    return run->report.result.output;
}

const char *const *brig_run_hints(const struct brig_run *run)
{
    return run_hints(run);
}

const struct brig_result *brig_run_result(const struct brig_run *run)
{
    return run->phase == PHASE_OVER ? &run->report.result : NULL;
}

void brig_run_cancel(struct brig_run *run, const char *why)
{
    run->cancelled = true;
    if (run->phase == PHASE_RUNNING) {
        if (why && run->facts.reason == END_NONE) {
            snprintf(run->report.why, sizeof run->report.why, "%s", why);
            run->facts.why = run->report.why;
        }
        ending_terminate(run, END_CANCELLED);
    } else if (run->phase == PHASE_DRAINING) {
        run->clocks.drain_until = 0; /* only the wait for a reader is left to end */
    } else {
        ending_kill(run, END_CANCELLED);
    }
    if (run->phase == PHASE_DRAINING)
        step_again(run);
    else
        watch_arm(run);
}
