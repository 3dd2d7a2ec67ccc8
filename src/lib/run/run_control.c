/* SPDX-License-Identifier: MIT */
/* Reads the reports of init from the control socket. Called by run.c and watch.c; never waits. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/plan/host.h"
#include "run.h"

static void take_report(struct brig_run *run, const struct init_report *report)
{
    struct facts *facts = &run->facts;
    switch ((enum report_kind)report->kind) {
    case REPORT_EXITED:
        if (report->expired)
            ending_expired(run);
        ending_main_gone(run);
        facts->main_ended = true;
        facts->code = report->code;
        facts->status = report->status;
        facts->pid = report->pid;
        if (report->forks_refused != UINT64_MAX)
            run->seen.pids_refused = report->forks_refused;
        run->seen.no_routes = report->no_routes;
        run->seen.no_ports = report->no_ports;
        facts->pids_made = report->pids_made;
        if (report->pids_seen > run->seen.peak_pids)
            run->seen.peak_pids = report->pids_seen;
        memcpy(facts->comm, report->comm, sizeof facts->comm);
        facts->comm[sizeof facts->comm - 1] = 0;
        group_read_final(&run->spawned.group, &run->seen.counters); /* while init looks for more */
        run->seen.counted = true;
        break;
    case REPORT_GONE:
        run->seen.gone = *report;
        run->seen.tree_gone = true;
        run->seen.counted = run->seen.counted && !report->status;
        run->deferred = run->waited && host_keeps_cells(run->brig);
        if (run->waited && !run->deferred) /* init waits for SIGKILL */
            syscall(SYS_pidfd_send_signal, run->spawned.pidfd, SIGKILL, NULL, 0);
        finish_group(run); /* in parallel with the end of init */
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
