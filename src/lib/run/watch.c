/* SPDX-License-Identifier: MIT */
/* Checks the clocks, counters and limits of a run, and sets the timer to the next clock. Called by
 * run.c; ends runs through ending.c only. */
#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "lib/plan/host.h"
#include "run.h"
#include "lib/cgroup/sample.h"

#define MEMORY_LOOKS       100
#define SAMPLE_EVERY       (50 * NS_PER_MS)
#define USAGE_EVERY        NS_PER_S
#define CPU_CHECK_AT_LEAST (10 * NS_PER_MS)

void watch_start(struct brig_run *run)
{
    const struct brig_limits *limits = &run->plan.limits;
    run->clocks.deadline =
        limits->timeout_ns == BRIG_UNLIMITED ? NEVER : run->clocks.started + limits->timeout_ns;
    run->clocks.kill_at = run->clocks.give_up_at = run->clocks.drain_until =
        run->clocks.reader_gone_at = NEVER;
    run->clocks.usage_at = NEVER;
    run->clocks.sample_at = run->plan.use_group ? NEVER : run->clocks.started + SAMPLE_EVERY;
    run->clocks.pids_check_at = NEVER;
    if (limits->pids != BRIG_UNLIMITED && run->plan.use_group && !run->plan.pids_fail &&
        run->brig->place.backend == &group_backend_v1)
        run->clocks.pids_check_at = run->clocks.started + SAMPLE_EVERY;
    run->clocks.cpu_check_at = NEVER;
    if (limits->cpu_time_ns != BRIG_UNLIMITED && run->plan.use_group)
        run->clocks.cpu_check_at = run->clocks.started + CPU_CHECK_AT_LEAST;
}

void watch_memory(struct brig_run *run)
{
    struct group_counters counters;
    if (run->phase >= PHASE_KILLING)
        return;
    group_read(&run->spawned.group, &counters);
    /* On cgroup v1 the notification comes before the kill is counted: check again soon. */
    if (counters.oom_kills == BRIG_UNKNOWN || counters.oom_kills == 0) {
        if (run->seen.memory_looks++ < MEMORY_LOOKS) /* another group's memory may be the cause */
            run->clocks.sample_at = clock_now() + NS_PER_MS;
        return;
    }
    ending_kill(run, END_NONE);
    run_push_event(run, (struct brig_event){.type = BRIG_EVENT_LIMIT, .limit = "memory"});
    run->told_memory = true;
}

void watch_pids(struct brig_run *run)
{
    uint64_t refused = group_pids_refused(&run->spawned.group);
    /* After the end of the main process, init forbids new processes in the cgroup, so a fork that
     * is refused then says nothing about the limit. Init reports the end before it does so. */
    run_read_control(run);
    if (run->facts.main_ended || run->phase >= PHASE_KILLING || refused == BRIG_UNKNOWN)
        return;
    run->seen.pids_refused = refused;
    if (refused > 0 && !run->plan.pids_fail)
        ending_kill(run, END_PIDS);
}

/* Sample the tree without a cgroup; with one, check memory again after a notification. */
static void take_sample(struct brig_run *run, uint64_t now)
{
    const struct brig_limits *limits = &run->plan.limits;
    struct sample sample;
    run->clocks.sample_at = NEVER;
    if (run->plan.use_group) {
        watch_memory(run);
        return;
    }
    run->clocks.sample_at = now + SAMPLE_EVERY;
    run_note_gap(run, now);
    if (sample_tree(run->spawned.pid, limits->memory_bytes, &sample) < 0)
        return;
    if (sample.memory_bytes > run->seen.peak_memory)
        run->seen.peak_memory = sample.memory_bytes;
    if (sample.pids > run->seen.peak_pids)
        run->seen.peak_pids = sample.pids;
    run->seen.sampled_user = sample.cpu_user_ns;
    run->seen.sampled_system = sample.cpu_system_ns;
    if (sample.memory_bytes >= limits->memory_bytes) {
        ending_kill(run, END_MEMORY);
    } else if (sample.pids > limits->pids && !run->plan.pids_fail) {
        ending_kill(run, END_PIDS);
    } else if (sample.cpu_user_ns + sample.cpu_system_ns >= limits->cpu_time_ns) {
        ending_terminate(run, END_CPU);
    }
}

/* The tree cannot use the rest of its CPU time faster than on all CPUs at once; check again at that
 * time. */
static void check_cpu_time(struct brig_run *run, uint64_t now)
{
    const struct brig_limits *limits = &run->plan.limits;
    struct group_counters counters;
    run->clocks.cpu_check_at = NEVER;
    group_read(&run->spawned.group, &counters);
    if (counters.cpu_user_ns == BRIG_UNKNOWN || counters.cpu_system_ns == BRIG_UNKNOWN)
        return;
    uint64_t used = counters.cpu_user_ns + counters.cpu_system_ns;
    if (used >= limits->cpu_time_ns) {
        ending_terminate(run, END_CPU);
        return;
    }
    uint64_t processors = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t wait = (limits->cpu_time_ns - used) / (processors ? processors : 1);
    run->clocks.cpu_check_at = now + (wait > CPU_CHECK_AT_LEAST ? wait : CPU_CHECK_AT_LEAST);
}

static void push_usage(struct brig_run *run, uint64_t now)
{
    struct brig_event event = {.type = BRIG_EVENT_USAGE};
    struct group_counters counters;
    struct sample sample = {0};
    group_read(&run->spawned.group, &counters);
    bool known = counters.cpu_user_ns != BRIG_UNKNOWN;
    if (!run->plan.use_group || !known)
        sample_tree(run->spawned.pid, BRIG_UNLIMITED, &sample);
    event.memory_bytes = run->plan.use_group ? counters.memory_now : sample.memory_bytes;
    event.pids = run->plan.use_group ? counters.pids_now : sample.pids;
    event.cpu_ns = known ? counters.cpu_user_ns + counters.cpu_system_ns
                         : sample.cpu_user_ns + sample.cpu_system_ns;
    run_push_event(run, event);
    run->clocks.usage_at = now + USAGE_EVERY;
}

void watch_clocks(struct brig_run *run, uint64_t now)
{
    if (run->phase >= PHASE_DRAINING)
        return; /* only output is left; run.c checks its deadline */
    if (now >= run->clocks.deadline) {
        run->clocks.deadline = NEVER;
        ending_terminate(run, END_TIMEOUT);
    }
    if (now >= run->clocks.reader_gone_at) {
        run->clocks.reader_gone_at = NEVER;
        ending_terminate(run, END_READER_GONE);
    }
    if (now >= run->clocks.kill_at)
        ending_kill(run, END_NONE);
    if (now >= run->clocks.give_up_at)
        ending_give_up(run);
    if (now >= run->clocks.sample_at)
        take_sample(run, now);
    /* cgroup v1 sends no notification of refused forks since Linux 6.11. */
    if (now >= run->clocks.pids_check_at) {
        run->clocks.pids_check_at = now + SAMPLE_EVERY;
        watch_pids(run);
    }
    if (now >= run->clocks.cpu_check_at)
        check_cpu_time(run, now);
    if (now >= run->clocks.usage_at)
        push_usage(run, now);
}

void watch_arm(struct brig_run *run)
{
    uint64_t next = run->clocks.drain_until;
    if (run->phase < PHASE_DRAINING) {
        const uint64_t all[] = {run->clocks.deadline,     run->clocks.reader_gone_at,
                                run->clocks.kill_at,      run->clocks.give_up_at,
                                run->clocks.sample_at,    run->clocks.pids_check_at,
                                run->clocks.cpu_check_at, run->clocks.usage_at};
        next = NEVER;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            next = all[i] < next ? all[i] : next;
    }
    if (next == run->clocks.armed)
        return;
    struct itimerspec spec = {0}; /* all zero: off */
    if (next != NEVER) {
        spec.it_value.tv_sec = (time_t)(next / NS_PER_S);
        spec.it_value.tv_nsec = (long)(next % NS_PER_S);
    }
    if (timerfd_settime(run->sources.timer, TFD_TIMER_ABSTIME, &spec, NULL) == 0)
        run->clocks.armed = next;
}
