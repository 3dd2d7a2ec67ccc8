/* SPDX-License-Identifier: MIT */
/* Ends and frees a run that nobody waits for any more. Called by brig_run_free(), run_park() and
 * the pool. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "run.h"

void run_end_at_once(struct brig_run *run)
{
    struct pollfd gone = {.fd = run->spawned.pidfd, .events = POLLIN};
    siginfo_t info;
    run->events.watched = run->pump.watched = false;
    ending_kill(run, END_CANCELLED);
    if (run->waited) /* init may have ended all other processes, and wait for SIGKILL */
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

void run_let_go(struct brig_run *run)
{
    memset(run->sources.polled, 0, sizeof run->sources.polled);
    run->deferred = false;
    spawn_forget(&run->spawned);
}

void run_end(struct brig_run *run)
{
    run_reap_helper(run);
    stdin_relay_done(run);
    pump_done(&run->pump);
    channel_done(&run->channel);
    fd_close_at(&run->sources.epoll);
    fd_close_at(&run->sources.timer);
    if (run->deferred)
        spawn_end(&run->spawned);
    else
        spawn_done(&run->spawned);
    plan_done(&run->plan);
    free(run->report.notes);
    strings_done(&run->report.hints);
    free(run);
}
