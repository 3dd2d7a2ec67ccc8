/* SPDX-License-Identifier: MIT */
/* Ends the process tree of a run; called by run.c and watch.c. SIGTERM goes through init, which can
 * signal every process of the tree without hitting an unrelated one. SIGKILL goes through init and
 * the cgroup. Nothing here waits for a process to end. */
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "run.h"

/* The time that the kernel has to end the processes after SIGKILL, before init itself is killed. */
#define GIVE_UP_AFTER (5 * NS_PER_S)

static void tell_init(struct brig_run *run, char command)
{
    send(run->spawned.control, &command, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A guest of the same user may have stopped init with SIGSTOP. */
void ending_wake(const struct brig_run *run)
{
    syscall(SYS_pidfd_send_signal, run->spawned.pidfd, SIGCONT, NULL, 0);
}

static void note_reason(struct brig_run *run, enum end_reason reason)
{
    static const char *const limits[] = {
        [END_TIMEOUT] = "timeout", [END_OUTPUT] = "output", [END_PIDS] = "pids",
        [END_CPU] = "cpu_time",    [END_MEMORY] = "memory",
    };
    /* A limit that is exceeded after the main process ended by itself is not the reason for its
     * end. */
    if (run->facts.reason != END_NONE || run->facts.main_ended || reason == END_NONE)
        return;
    run->facts.reason = reason;
    if ((size_t)reason < sizeof limits / sizeof *limits && limits[reason])
        run_push_event(run, (struct brig_event){.type = BRIG_EVENT_LIMIT, .limit = limits[reason]});
}

void ending_terminate(struct brig_run *run, enum end_reason reason)
{
    if (run->phase != PHASE_RUNNING)
        return;
    note_reason(run, reason);
    run->phase = PHASE_TERMINATING;
    run->clocks.kill_at = clock_now() + run->plan.limits.kill_after_ns;
    ending_wake(run);
    tell_init(run, INIT_TERMINATE);
}

void ending_expired(struct brig_run *run)
{
    note_reason(run, END_TIMEOUT);
}

/* These two functions make one system call and nothing else, because programs call them in signal
 * handlers. */
void brig_run_pause(struct brig_run *run)
{
    tell_init(run, INIT_STOP);
}

void brig_run_resume(struct brig_run *run)
{
    tell_init(run, INIT_CONTINUE);
}

void ending_main_gone(struct brig_run *run)
{
    if (run->phase >= PHASE_KILLING)
        return;
    run->phase = PHASE_KILLING;
    run->clocks.kill_at = NEVER;
    run->clocks.give_up_at = clock_now() + GIVE_UP_AFTER;
}

void ending_kill(struct brig_run *run, enum end_reason reason)
{
    if (run->phase >= PHASE_KILLING)
        return;
    note_reason(run, reason);
    run->phase = PHASE_KILLING;
    run->clocks.kill_at = NEVER;
    run->clocks.give_up_at = clock_now() + GIVE_UP_AFTER;
    ending_wake(run);
    tell_init(run, INIT_KILL);
    group_kill(&run->spawned.group);
    ending_wake(run); /* the process that stopped init may be dead now */
}

void ending_give_up(struct brig_run *run)
{
    run->clocks.give_up_at = NEVER;
    run->facts.stuck = true;
    group_kill(&run->spawned.group);
    syscall(SYS_pidfd_send_signal, run->spawned.pidfd, SIGKILL, NULL, 0);
}
