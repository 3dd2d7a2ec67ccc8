/* A run that is on its way: step, wait, cancel, free. */
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
#include "lib/start/pool.h"

#define DRAIN_ROUNDS 64

/* ---- sources ------------------------------------------------------------------------------- */

int run_poll(struct brig_run *run, enum run_source source, int fd, uint32_t events)
{
    if (run->polled[source])
        return 0;
    struct epoll_event event = {.events = events, .data.u32 = source};
    if (epoll_ctl(run->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        return -errno;
    run->polled[source] = true;
    return 0;
}

void run_unpoll(struct brig_run *run, enum run_source source, int fd)
{
    if (run->polled[source])
        epoll_ctl(run->epoll, EPOLL_CTL_DEL, fd, NULL);
    run->polled[source] = false;
}

/* ---- events -------------------------------------------------------------------------------- */

void run_push_event(struct brig_run *run, struct brig_event event)
{
    if (!run->watched || run->event_count == RUN_EVENTS_MAX)
        return;
    event.sequence = ++run->sequence;
    event.elapsed_ns = clock_now() - run->started;
    run->events[run->event_count++] = event;
}

void brig_run_watch(struct brig_run *run)
{
    if (run->watched)
        return;
    run->watched = run->pump.watched = true;
    /* Events are sent somewhere, whoever looks at the terminal; nothing has been read yet. */
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR && run->plan.rules && !run->stepped; i++)
        pump_redact(&run->pump, i, run->plan.rules);
    run->usage_at = run->started + NS_PER_S;
    run_push_event(run, (struct brig_event){.type = BRIG_EVENT_STARTED, .pid = run->facts.pid});
    watch_arm(run);
}

int brig_run_next_event(struct brig_run *run, struct brig_event *event)
{
    if (run->event_next == run->event_count)
        return 0;
    *event = run->events[run->event_next++];
    return 1;
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

static void take_report(struct brig_run *run, const struct init_report *report)
{
    struct facts *facts = &run->facts;
    switch ((enum report_kind)report->kind) {
    case REPORT_EXITED:
        ending_main_gone(run);
        facts->main_ended = true;
        facts->code = report->code;
        facts->status = report->status;
        facts->pid = report->pid;
        if (report->forks_refused != UINT64_MAX)
            run->pids_refused = report->forks_refused;
        memcpy(facts->comm, report->comm, sizeof facts->comm);
        facts->comm[sizeof facts->comm - 1] = 0;
        group_read_final(&run->spawned.group, &run->counters); /* while init looks for more */
        run->counted = true;
        break;
    case REPORT_GONE:
        run->gone = *report;
        run->tree_gone = true;
        run->counted = run->counted && !report->status;
        run->deferred = run->waited && run->brig->pool && pool_goes_on(run->brig->pool);
        if (run->waited && !run->deferred) /* it waits for this */
            syscall(SYS_pidfd_send_signal, run->spawned.pidfd, SIGKILL, NULL, 0);
        finish_group(run); /* while init ends as well */
        break;
    case REPORT_STARTED:
    case REPORT_PARKED:
    case REPORT_FAILED:
        break;
    }
}

void run_read_control(struct brig_run *run)
{
    struct init_report report;
    for (;;) {
        ssize_t n = recv(run->spawned.control, &report, sizeof report, MSG_DONTWAIT);
        if (n == sizeof report) {
            take_report(run, &report);
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        run_unpoll(run, SOURCE_CONTROL, run->spawned.control);
        return;
    }
}

/* The reader of a passed-on stream is gone, or its disk is full. A pipe nobody reads any more is
 * closed towards the guest as well, which is how a guest learns of it; if that does not end it, we
 * do. */
static void stream_broken(struct brig_run *run, int stream)
{
    struct pump_stream *s = &run->pump.streams[stream];
    run_unpoll(run, (enum run_source)stream, s->fd);
    fd_close_at(&run->spawned.streams[stream]);
    s->fd = -1;
    if (run->reader_gone_at != NEVER || run->facts.reason != END_NONE)
        return;
    snprintf(run->why, sizeof run->why, "%s: %s", stream == BRIG_STDOUT ? "stdout" : "stderr",
             error_text(s->broken));
    run->facts.why = run->why;
    run->reader_gone_at = clock_now() + run->plan.limits.kill_after_ns;
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

/* Wait for the sink instead of the guest while the sink has not taken its bytes, and back. */
static void choose_side(struct brig_run *run, int stream)
{
    struct pump_stream *s = &run->pump.streams[stream];
    if (s->broken && s->fd >= 0)
        stream_broken(run, stream);
    if (pump_waits(&run->pump, stream)) {
        if (s->fd >= 0)
            run_unpoll(run, (enum run_source)stream, s->fd);
        run_poll(run, sink_of(stream), s->outlet.fd, EPOLLOUT);
    } else {
        run_unpoll(run, sink_of(stream), s->outlet.fd);
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

/* Take what is there of the guest's result; closed once nothing that follows can matter. Returns
 * how much that was, 0 if nothing. */
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

void run_reap_holder(struct brig_run *run)
{
    run_unpoll(run, SOURCE_HOLDER, run->owner.pidfd);
    owner_done(&run->owner);
}

static void handle(struct brig_run *run, enum run_source source)
{
    uint64_t count;
    switch (source) {
    case SOURCE_STDIN:
    case SOURCE_FEED:
        feed_step(run);
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
        run->init_gone = true;
        run_unpoll(run, SOURCE_INIT, run->spawned.pidfd);
        break;
    case SOURCE_TIMER:
        if (read(run->timer, &count, sizeof count) == sizeof count)
            run->armed = 0; /* it has fired: whatever comes next has to be set anew */
        break;
    case SOURCE_PIDS:
        watch_pids(run);
        break;
    case SOURCE_MEMORY:
        run->memory_looks = 0;
        if (read(run->spawned.group.memory_events, &count, sizeof count) > 0)
            watch_memory(run);
        break;
    case SOURCE_HOLDER:
        run_reap_holder(run);
        break;
    case SOURCE_COUNT:
        break;
    }
}

/* What the channel holds when the tree is gone is all that there is of the result. */
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
    feed_done(run);
    drain_channel(run);
    if (!run->tree_gone &&
        group_populated(&run->spawned.group)) /* init was killed: its work is ours */
        group_kill(&run->spawned.group);
    run->phase = PHASE_DRAINING;
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        /* What is in the pipes now is this run's; what comes later is not. */
        int fd = run->pump.streams[i].fd;
        if (fd < 0)
            continue;
        if (ioctl(fd, FIONREAD, &run->left_in_pipe[i]) < 0)
            run->left_in_pipe[i] = 0;
        run_unpoll(run, (enum run_source)i, fd); /* from here on only drain() reads it */
    }
    /* A reader may take its time until the run's own timeout, and always as long as kill-after. */
    uint64_t least = now + run->plan.limits.kill_after_ns;
    run->drain_until = run->plan.limits.timeout_ns == BRIG_UNLIMITED
                           ? NEVER
                           : run->started + run->plan.limits.timeout_ns;
    if (run->drain_until < least || run->cancelled)
        run->drain_until = least;
}

/* The tree is gone: take what is left in the pipes, but do not wait for their end; a process
 * outside may have been given the other end. One chunk per stream and step: the events of a step
 * point at it. Returns true when there is nothing left to do. */
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

/* The next step is due at once, though no descriptor announces it. */
static void step_again(struct brig_run *run)
{
    struct itimerspec now = {.it_value = {.tv_nsec = 1}};
    if (timerfd_settime(run->timer, 0, &now, NULL) == 0)
        run->armed = 0;
}

/* Returns true when the run is over. */
static bool step_draining(struct brig_run *run, uint64_t now)
{
    bool empty = drain(run);
    if (!empty && now >= run->drain_until) {
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

/* Is there something to do that no descriptor announces? A stream whose sink takes nothing waits
 * for that, and does not hold up the other one. */
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

/* As many steps of it at once as there are to take, unless somebody looks at their events, which
 * point at what was read last. Returns true when the run is over. */
static bool drain_on(struct brig_run *run, uint64_t now)
{
    if (run->moved && run->watched)
        return false;
    for (int round = 0; round < DRAIN_ROUNDS; round++) {
        if (step_draining(run, now))
            return true;
        if (run->watched || !has_work(run))
            return false;
    }
    return false;
}

int brig_run_step(struct brig_run *run)
{
    struct epoll_event events[SOURCE_COUNT];
    run->event_next = 0;
    if (run->stepped) /* what brig_run_watch() pushed before the first step is part of it */
        run->event_count = 0;
    run->stepped = true;
    run->moved = 0;
    if (run->phase == PHASE_OVER)
        return 1;
    int count = epoll_wait(run->epoll, events, SOURCE_COUNT, 0);
    for (int i = 0; i < count; i++)
        handle(run, (enum run_source)events[i].data.u32);
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR && run->phase < PHASE_DRAINING; i++) {
        if (pump_has_more(&run->pump, i) && !(run->moved & 1u << i))
            move_stream(run, i);
    }
    uint64_t now = clock_now();
    watch_clocks(run, now);
    /* At once: a process outside that was given the guest's stdout may write to it for ever. */
    if ((run->init_gone || run->deferred) && run->phase < PHASE_DRAINING)
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
        struct pollfd ready = {.fd = run->epoll, .events = POLLIN};
        uint64_t left = until == NEVER ? 0 : (until - now) / NS_PER_MS + 1;
        poll(&ready, 1, until == NEVER ? -1 : (int)(left < 60000 ? left : 60000));
    }
    return 1;
}

/* ---- the rest ------------------------------------------------------------------------------ */

int brig_run_fd(const struct brig_run *run)
{
    return run->epoll;
}

bool brig_run_was_warm(const struct brig_run *run)
{
    return run->warm;
}

int brig_run_pid(const struct brig_run *run)
{
    return run->spawned.pid;
}

/* What it printed before has to be looked at first: it may have been too much. */
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
    *len = run->result.output_len;
    return run->result.output;
}

const struct brig_result *brig_run_result(const struct brig_run *run)
{
    return run->phase == PHASE_OVER ? &run->result : NULL;
}

void brig_run_cancel(struct brig_run *run, const char *why)
{
    run->cancelled = true;
    if (run->phase == PHASE_RUNNING) {
        if (why && run->facts.reason == END_NONE) {
            snprintf(run->why, sizeof run->why, "%s", why);
            run->facts.why = run->why;
        }
        ending_terminate(run, END_CANCELLED);
    } else if (run->phase == PHASE_DRAINING) {
        run->drain_until = 0; /* all that is left to end is the wait for a reader */
    } else {
        ending_kill(run, END_CANCELLED);
    }
    if (run->phase == PHASE_DRAINING)
        step_again(run);
    else
        watch_arm(run);
}

static void end_at_once(struct brig_run *run)
{
    struct pollfd gone = {.fd = run->spawned.pidfd, .events = POLLIN};
    siginfo_t info;
    run->watched = run->pump.watched = false;
    ending_kill(run, END_CANCELLED);
    if (run->waited) /* its init may wait for this, with all the rest ended */
        syscall(SYS_pidfd_send_signal, run->spawned.pidfd, SIGKILL, NULL, 0);
    for (int round = 0; round < 2; round++) {
        int n;
        do
            n = poll(&gone, 1, 5000);
        while (n < 0 && errno == EINTR);
        if (n > 0)
            break;
        ending_give_up(run);
    }
    waitid(P_PIDFD, (id_t)run->spawned.pidfd, &info, WEXITED | WNOHANG | __WALL);
}

/* In a fork: the run goes on without us, and what the epoll descriptor watches is the other's. */
static void let_go(struct brig_run *run)
{
    memset(run->polled, 0, sizeof run->polled);
    run->deferred = false;
    spawn_forget(&run->spawned);
}

void run_end(struct brig_run *run)
{
    run_reap_holder(run);
    feed_done(run);
    pump_done(&run->pump);
    channel_done(&run->channel);
    fd_close_at(&run->epoll);
    fd_close_at(&run->timer);
    if (run->deferred)
        spawn_end(&run->spawned);
    else
        spawn_done(&run->spawned);
    plan_done(&run->plan);
    free(run->notes);
    free(run);
}

void brig_run_free(struct brig_run *run)
{
    if (!run)
        return;
    struct pool *pool = run->brig->pool;
    if (run->pid != getpid())
        let_go(run);
    else if (run->answered && run->phase != PHASE_OVER && pool && pool_goes_on(pool))
        run->deferred = true;
    else if (run->spawned.pid > 0 && run->phase != PHASE_OVER)
        end_at_once(run);
    if (run->deferred && pool)
        pool_bury(pool, run);
    else
        run_end(run);
}
