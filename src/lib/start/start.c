/* Starting a run: from a cell that was built ahead, in a new one, or without one where none can be
 * built; until init says that the guest is past its exec. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "lib/plan/host.h"
#include "pool.h"
#include "lib/run/run.h"

#define STAGE        "start"
#define START_WITHIN 30000 /* ms: from clone to exec of the guest */

/* The first word of init: the guest is past its exec, or why it is not. */
static int wait_for_start(struct brig_run *run, struct brig_error *err)
{
    struct init_report report;
    struct pollfd ready = {.fd = run->spawned.control, .events = POLLIN};
    uint64_t until = clock_now() + START_WITHIN * NS_PER_MS;
    int n;
    do {
        n = poll(&ready, 1, 50);
        if (n == 0) /* the guest may have stopped init before that could tell of the start */
            ending_wake(run);
    } while ((n == 0 || (n < 0 && errno == EINTR)) && clock_now() < until);
    if (n <= 0)
        return error_system(err, STAGE, ETIMEDOUT, "the command did not start within %d s",
                            START_WITHIN / 1000);
    ssize_t len = recv(run->spawned.control, &report, sizeof report, MSG_DONTWAIT);
    if (len != sizeof report)
        return error_system(err, STAGE, ECHILD, "brig's init ended before the command started");
    if (report.kind == REPORT_STARTED) {
        run->facts.pid = report.pid;
        return 0;
    }
    return spawn_error(&run->plan, &report, err);
}

static int poll_sources(struct brig_run *run, struct brig_error *err)
{
    const struct spawned *s = &run->spawned;
    run->epoll = epoll_create1(EPOLL_CLOEXEC);
    run->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (run->epoll < 0 || run->timer < 0)
        return error_system(err, STAGE, errno, "cannot watch the run: %s", error_text(errno));
    int ret = run_poll(run, SOURCE_CONTROL, s->control, EPOLLIN);
    if (ret == 0)
        ret = run_poll(run, SOURCE_INIT, s->pidfd, EPOLLIN);
    if (ret == 0)
        ret = run_poll(run, SOURCE_TIMER, run->timer, EPOLLIN);
    if (ret == 0)
        ret = run_poll(run, SOURCE_STDOUT, s->streams[BRIG_STDOUT], EPOLLIN);
    if (ret == 0)
        ret = run_poll(run, SOURCE_STDERR, s->streams[BRIG_STDERR], EPOLLIN);
    if (ret == 0 && s->channel >= 0)
        ret = run_poll(run, SOURCE_CHANNEL, s->channel, EPOLLIN);
    if (ret == 0 && s->group.pids_events >= 0)
        ret = run_poll(run, SOURCE_PIDS, s->group.pids_events, EPOLLPRI);
    if (ret == 0 && s->group.memory_events >= 0)
        ret = run_poll(run, SOURCE_MEMORY, s->group.memory_events, EPOLLIN);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "cannot watch the run: %s", error_text(-ret));
    return 0;
}

static void make_id(char id[24])
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = clock_now();
    snprintf(id, 24, "r%016" PRIx64, random);
}

/* Does the error say that the host does not allow cells, whatever the run? */
static bool forbids_cells(int ret, const struct brig_error *err)
{
    static const int refusals[] = {EPERM, EACCES, ENOSYS, ENOSPC, EUSERS, EINVAL};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (ret == -refusals[i])
            return strcmp(err->stage, "cell") == 0;
    }
    return false;
}

/* A call of a template, which always waits for its job first. */
static int spawn_call(struct brig_run *run, struct brig *brig, struct brig_error *err)
{
    struct owner none = OWNER_NONE;
    int ret = spawn_park(&run->spawned, brig, &run->plan, &none, err);
    if (ret < 0)
        return ret;
    ret = spawn_job(&run->spawned, &run->plan, err);
    if (ret == -E2BIG)
        error_usage(err, STAGE, "the command and its environment are too long for a call");
    if (ret < 0)
        spawn_end(&run->spawned);
    run->waited = ret == 0;
    return ret;
}

static int try_spawn(struct brig_run *run, struct brig *brig, const struct brig_spec *spec,
                     const char *no_cell, struct brig_error *err)
{
    struct owner *owner = &run->owner;
    int ret = 0;
    /* As early as possible: a network namespace takes as long as all the rest. */
    if (geteuid() == 0 && !no_cell && !spec->template)
        ret = owner_start(owner, spec->values[KEY_NETWORK].number != NETWORK_HOST, err);
    if (ret == 0)
        ret = plan_make(&run->plan, brig, spec, no_cell, err);
    if (ret == 0) {
        ret = run->plan.template ? spawn_call(run, brig, err)
                                 : spawn_start(&run->spawned, brig, &run->plan, owner, err);
        if (ret < 0)
            plan_done(&run->plan);
    }
    if (ret == 0)
        owner_release(owner); /* it may take its time, while the guest begins */
    else
        owner_done(owner);
    return ret;
}

/* Whether this host allows cells is found out by trying; twice, because a single failure may have
 * passed, and what could be had must not be given up for it. */
static int spawn(struct brig_run *run, struct brig *brig, const struct brig_spec *spec,
                 struct brig_error *err)
{
    struct brig_error local = {0};
    err = err ? err : &local;
    brig->no_cell[0] = 0;
    int ret = try_spawn(run, brig, spec, NULL, err);
    if (ret < 0 && forbids_cells(ret, err))
        ret = try_spawn(run, brig, spec, NULL, err);
    if (ret == 0 || !forbids_cells(ret, err))
        return ret;
    snprintf(brig->no_cell, sizeof brig->no_cell, "%.200s", err->text);
    const char *needs = plan_needs_cell(spec);
    if (needs)
        return error_refused(err, STAGE, "%s: needs a cell, and none can be built here: %s", needs,
                             brig->no_cell);
    return try_spawn(run, brig, spec, brig->no_cell, err);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static struct brig_run *new_run(struct brig *brig, struct brig_error *err)
{
    struct brig_run *run = calloc(1, sizeof *run);
    if (!run) {
        error_memory(err, STAGE);
        errno = ENOMEM;
        return NULL;
    }
    run->brig = brig; /* what is zero already is not written again: it is large */
    run->pid = getpid();
    run->plan.workdir = run->plan.stdin_fd = run->plan.feed_fd = run->plan.own_feed = -1;
    run->spawned = SPAWNED_NONE;
    run->owner = OWNER_NONE;
    run->pump.streams[BRIG_STDOUT].outlet.fd = run->pump.streams[BRIG_STDERR].outlet.fd = -1;
    run->feed.source = run->feed.own = -1;
    run->epoll = run->timer = -1;
    make_id(run->id);
    return run;
}

struct brig_run *run_park(struct brig *brig, const struct brig_spec *spec, struct brig_error *err)
{
    struct brig_run *run = new_run(brig, err);
    int ret = 0;
    if (!run)
        return NULL;
    if (geteuid() == 0 && !spec->template)
        ret = owner_start(&run->owner, spec->values[KEY_NETWORK].number != NETWORK_HOST, err);
    if (ret == 0)
        ret = plan_make_cell(&run->plan, brig, spec, NULL, err);
    if (ret == 0)
        ret = plan_park(&run->plan, err);
    if (ret == 0)
        ret = spawn_park(&run->spawned, brig, &run->plan, &run->owner, err);
    run->deferred = ret == 0; /* from here on its end is to kill it */
    if (ret == 0)
        ret = poll_sources(run, err);
    owner_done(&run->owner);
    if (ret == 0)
        return run;
    run_end(run);
    errno = -ret;
    return NULL;
}

/* All that needs no guest. */
static int prepare(struct brig_run *run, struct brig_error *err)
{
    run->started_at = clock_calendar() - (int64_t)(clock_now() - run->started);
    if (run->plan.channel)
        channel_init(&run->channel, run->plan.limits.result_bytes);
    int ret = pump_init(&run->pump, run->plan.sinks, run->spawned.streams,
                        run->plan.limits.output_bytes, run->plan.truncate_output, err);
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR && ret == 0; i++) {
        if (run->plan.redact[i])
            pump_redact(&run->pump, i, run->plan.rules);
    }
    if (ret == 0) {
        watch_start(run);
        watch_arm(run);
    }
    return ret;
}

/* From a cell that was built ahead: *out stays NULL if there is none that fits. The job is sent
 * last: the guest often runs on this processor, as soon as we wait for it. */
static int start_warm(struct brig_run **out, struct brig *brig, const struct brig_spec *spec,
                      uint64_t started, struct brig_error *err)
{
    struct brig_run *run = brig->pool ? pool_take(brig->pool, spec) : NULL;
    if (!run)
        return 0;
    run->started = started;
    run->warm = run->waited = true;
    run->deferred = false;
    int ret = plan_make_run(&run->plan, brig, spec, err);
    if (ret == 0)
        ret = prepare(run, err);
    bool wrong = ret < 0;
    if (ret == 0)
        ret = spawn_job(&run->spawned, &run->plan, NULL);
    if (ret < 0) {
        pool_bury(brig->pool, run);
        return wrong ? ret : 0;
    }
    *out = run;
    return 0;
}

static int start_cold(struct brig_run **out, struct brig *brig, const struct brig_spec *spec,
                      uint64_t started, struct brig_error *err)
{
    struct brig_run *run = new_run(brig, err);
    if (!run)
        return -ENOMEM;
    *out = run;
    run->started = started;
    int ret = spawn(run, brig, spec, err);
    if (ret == 0)
        ret = poll_sources(run, err);
    return ret == 0 ? prepare(run, err) : ret;
}

/* The guest is on its way. */
static int follow(struct brig_run *run, struct brig_error *err)
{
    int ret = feed_start(run, err);
    if (ret == 0 && run->plan.template)
        run->facts.pid = FORKED_PID; /* it told of its start when it was forked */
    else if (ret == 0)
        ret = wait_for_start(run, err);
    if (ret == 0 && !owner_is_gone(&run->owner)) /* the end of the run waits for it in any case */
        (void)run_poll(run, SOURCE_HOLDER, run->owner.pidfd, EPOLLIN);
    if (run->warm)
        pool_refill(run->brig->pool);
    return ret;
}

int brig_start(struct brig *brig, const struct brig_spec *spec, struct brig_run **out,
               struct brig_error *err)
{
    const uint64_t started = clock_now();
    struct brig_run *run = NULL;
    if (spec->input && !spec->template)
        return error_usage(err, STAGE, "input: only a call of a template takes one");
    int ret = host_adopt(brig, err);
    if (ret == 0)
        ret = start_warm(&run, brig, spec, started, err);
    if (ret == 0 && !run)
        ret = start_cold(&run, brig, spec, started, err);
    if (ret == 0)
        ret = follow(run, err);
    if (ret < 0) {
        brig_run_free(run);
        redact_error(spec, err);
        return ret;
    }
    *out = run;
    return 0;
}
