/* SPDX-License-Identifier: MIT */
/* Creates runs: the memory of a run, its epoll set, and parked runs, which have no command yet.
 * Called by start.c and the pool. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "run.h"

#define STAGE "start"

int run_poll_all(struct brig_run *run, struct brig_error *err)
{
    const struct spawned *s = &run->spawned;
    run->sources.epoll = epoll_create1(EPOLL_CLOEXEC);
    run->sources.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (run->sources.epoll < 0 || run->sources.timer < 0)
        return error_system(err, STAGE, errno, "cannot watch the run: %s", error_text(errno));
    int ret = run_poll(run, SOURCE_CONTROL, s->control, EPOLLIN);
    if (ret == 0)
        ret = run_poll(run, SOURCE_INIT, s->pidfd, EPOLLIN);
    if (ret == 0)
        ret = run_poll(run, SOURCE_TIMER, run->sources.timer, EPOLLIN);
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

bool run_forbids_cells(int ret, const struct brig_error *err)
{
    static const int refusals[] = {EPERM, EACCES, ENOSYS, ENOSPC, EUSERS, EINVAL};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        if (ret == -refusals[i])
            return strcmp(err->stage, "cell") == 0;
    }
    return false;
}

struct brig_run *run_create(struct brig *brig, struct brig_error *err)
{
    struct brig_run *run = calloc(1, sizeof *run);
    if (!run) {
        error_memory(err, STAGE);
        errno = ENOMEM;
        return NULL;
    }
    /* calloc() has zeroed the rest; the struct is too large to be written twice. */
    run->brig = brig;
    run->pid = getpid();
    run->plan.workdir = run->plan.stdin_fd = run->plan.relay_fd = run->plan.own_relay = -1;
    run->spawned = SPAWNED_NONE;
    run->helper = NS_HELPER_NONE;
    run->pump.streams[BRIG_STDOUT].writer.fd = run->pump.streams[BRIG_STDERR].writer.fd = -1;
    run->relay.source = run->relay.own = -1;
    run->sources.epoll = run->sources.timer = -1;
    make_id(run->report.id);
    return run;
}

struct brig_run *run_park(struct brig *brig, const struct brig_spec *spec, struct brig_error *err)
{
    struct brig_run *run = run_create(brig, err);
    int ret = 0;
    if (!run)
        return NULL;
    if (!spec->template && cell_is_privileged())
        ret = ns_helper_start(&run->helper, spec->values[KEY_NETWORK].number != NETWORK_HOST, err);
    if (ret == 0)
        ret = plan_make_cell(&run->plan, brig, spec, NULL, err);
    if (ret == 0)
        ret = plan_park(&run->plan, err);
    if (ret == 0)
        ret = spawn_park(&run->spawned, brig, &run->plan, &run->helper, err);
    run->deferred = ret == 0; /* from here on run_end() has to kill it */
    if (ret == 0)
        ret = run_poll_all(run, err);
    ns_helper_done(&run->helper);
    if (ret == 0)
        return run;
    if (err && run_forbids_cells(ret, err))
        ret = plan_refuse_cell(spec, err->text, err);
    run_end(run);
    errno = -ret;
    return NULL;
}
