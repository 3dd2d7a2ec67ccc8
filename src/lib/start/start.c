/* SPDX-License-Identifier: MIT */
/* Starts a run: in a cell that was built ahead, in a new cell, or without a cell if none can be
 * built and the spec allows that. brig_start() returns when init has reported the guest's exec. */
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
#include "lib/plan/hints.h"
#include "lib/plan/host.h"
#include "pool.h"
#include "lib/run/run.h"

#define STAGE        "start"
#define START_WITHIN 30000 /* ms: from clone to exec of the guest */

/* Wait for the first report of init: the guest's exec has succeeded, or the reason why it has
 * not. */
static int wait_for_start(struct brig_run *run, struct brig_error *err)
{
    struct init_report report;
    struct pollfd ready = {.fd = run->spawned.control, .events = POLLIN};
    uint64_t until = clock_now() + START_WITHIN * NS_PER_MS;
    int n;
    do {
        n = poll(&ready, 1, 50);
        /* The guest may have stopped init before init could report the start. */
        if (n == 0)
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

/* Start a call of a template. Its guest is always parked first and then gets its job. */
static int spawn_call(struct brig_run *run, struct brig *brig, struct brig_error *err)
{
    struct ns_helper none = NS_HELPER_NONE;
    int ret = spawn_park(&run->spawned, brig, &run->plan, &none, err);
    if (ret < 0)
        return ret;
    spawn_arm(&run->spawned, &run->plan.limits);
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
    struct ns_helper *helper = &run->helper;
    int ret = 0;
    /* As early as possible: making a network namespace takes as long as all other steps
     * together. */
    if (!no_cell && !spec->template && cell_is_privileged())
        ret = ns_helper_start(helper, spec->values[KEY_NETWORK].number != NETWORK_HOST, err);
    if (ret == 0)
        ret = plan_make(&run->plan, brig, spec, no_cell, err);
    if (ret == 0) {
        ret = run->plan.template ? spawn_call(run, brig, err)
                                 : spawn_start(&run->spawned, brig, &run->plan, helper, err);
        if (ret < 0)
            plan_done(&run->plan);
    }
    if (ret == 0)
        ns_helper_release(helper); /* it may take long to end, while the guest begins */
    else
        ns_helper_done(helper);
    return ret;
}

/* Start in a cell, or refuse; without a cell only if the spec allows it. Whether this host allows
 * cells is found out by trying. It is tried twice, because a single failure may be temporary, and
 * must not cost the run its cell. */
static int spawn(struct brig_run *run, struct brig *brig, const struct brig_spec *spec,
                 struct brig_error *err)
{
    struct brig_error local = {0};
    err = err ? err : &local;
    brig->no_cell[0] = 0;
    int ret = try_spawn(run, brig, spec, NULL, err);
    if (ret < 0 && run_forbids_cells(ret, err))
        ret = try_spawn(run, brig, spec, NULL, err);
    if (ret == 0 || !run_forbids_cells(ret, err))
        return ret;
    snprintf(brig->no_cell, sizeof brig->no_cell, "%.160s", err->text);
    ret = plan_may_degrade(brig, spec, brig->no_cell, err);
    return ret < 0 ? ret : try_spawn(run, brig, spec, brig->no_cell, err);
}

/* ---- start and end ------------------------------------------------------------------------- */

/* Set up everything that does not need the guest. */
static int prepare(struct brig_run *run, struct brig_error *err)
{
    run->clocks.started_at = clock_calendar() - (int64_t)(clock_now() - run->clocks.started);
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
    for (size_t i = 0; i < run->plan.hints.count; i++)
        hints_add(&run->report.hints, run->plan.rules, run->plan.hints.items[i]);
    return ret;
}

/* Start in a cell that was built ahead; *out stays NULL if no cell fits. The job is sent last,
 * because the guest often runs on this CPU as soon as the supervisor waits for it. */
static int start_warm(struct brig_run **out, struct brig *brig, const struct brig_spec *spec,
                      uint64_t started, struct brig_error *err)
{
    struct brig_run *run = brig->pool ? pool_take(brig->pool, spec) : NULL;
    if (!run)
        return 0;
    run->clocks.started = started;
    run->warm = run->waited = true;
    run->deferred = false;
    int ret = plan_make_run(&run->plan, brig, spec, err);
    if (ret == 0)
        ret = prepare(run, err);
    bool wrong = ret < 0;
    if (ret == 0)
        spawn_arm(&run->spawned, &run->plan.limits);
    if (ret == 0)
        ret = spawn_job(&run->spawned, &run->plan, NULL);
    if (ret < 0) {
        pool_reap(brig->pool, run);
        return wrong ? ret : 0;
    }
    *out = run;
    return 0;
}

static int start_cold(struct brig_run **out, struct brig *brig, const struct brig_spec *spec,
                      uint64_t started, struct brig_error *err)
{
    struct brig_run *run = run_create(brig, err);
    if (!run)
        return -ENOMEM;
    *out = run;
    run->clocks.started = started;
    int ret = spawn(run, brig, spec, err);
    if (ret == 0)
        ret = run_poll_all(run, err);
    return ret == 0 ? prepare(run, err) : ret;
}

/* The guest runs: relay its stdin, and wait for the report of its start. */
static int follow(struct brig_run *run, struct brig_error *err)
{
    int ret = stdin_relay_start(run, err);
    if (ret == 0 && run->plan.template)
        run->facts.pid = FORKED_PID; /* init reported its start when it was forked */
    else if (ret == 0)
        ret = wait_for_start(run, err);
    /* If polling fails, the end of the run still waits for the helper. */
    if (ret == 0 && !ns_helper_is_gone(&run->helper))
        (void)run_poll(run, SOURCE_HELPER, run->helper.pidfd, EPOLLIN);
    if (run->warm)
        pool_refill(run->brig->pool);
    return ret;
}

const char *brig_run_degraded(const struct brig_run *run)
{
    return run->plan.no_cell[0] ? run->plan.no_cell : NULL;
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
        spec_hide_error(spec, err);
        return ret;
    }
    *out = run;
    return 0;
}

void brig_run_free(struct brig_run *run)
{
    if (!run)
        return;
    struct pool *pool = run->brig->pool;
    if (run->pid != getpid())
        run_let_go(run);
    else if (run->answered && run->phase != PHASE_OVER && host_keeps_cells(run->brig))
        run->deferred = true;
    else if (run->spawned.pid > 0 && run->phase != PHASE_OVER)
        run_end_at_once(run);
    if (run->deferred && pool)
        pool_reap(pool, run);
    else
        run_end(run);
}
