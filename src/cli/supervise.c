/* SPDX-License-Identifier: MIT */
/* Supervision of a run by the command line. */
#include "supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/signals.h"
#include "target.h"
#include "term.h"

#define ORPHAN_ROUNDS 1000
#define HURRY_MS      1000 /* for messages and results, after a signal to end */

static int catch_signals(struct supervisor *s, struct brig_error *err)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction now;
        /* A signal that our parent ignores (nohup) stays ignored. */
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, ends[i]);
    }
    /* Without a reader, a write fails with an error instead of killing us before the cleanup. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, &s->before);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signals < 0)
        return error_system(err, "start", errno, "signalfd: %s", error_text(errno));
    return 0;
}

int supervise_prepare(struct supervisor *s, struct brig_error *err)
{
    s->alone = fd_read_file(AT_FDCWD, "/proc/thread-self/children", s->first, sizeof s->first) == 0;
    if (s->alone)
        prctl(PR_SET_CHILD_SUBREAPER, 1); /* see end_orphans() */
    return catch_signals(s, err);
}

/* This uses a pidfd and not a parent-death signal: that one is sent when the thread that started us
 * ends, even if its process continues. */
int supervise_parent(struct supervisor *s, struct brig_error *err)
{
    pid_t parent = getppid();
    if (parent == 0)
        return error_refused(err, "start",
                             "--die-with-parent: brig's parent is outside of this PID namespace, "
                             "so its end cannot be detected; leave the option out");
    s->parent = (int)syscall(SYS_pidfd_open, parent, 0);
    if (s->parent < 0 && errno != ESRCH)
        return error_system(err, "start", errno, "--die-with-parent: pidfd_open: %s",
                            error_text(errno));
    if (s->parent < 0 || getppid() != parent)
        return error_refused(err, "start", "--die-with-parent: brig's parent is gone already");
    return 0;
}

uint64_t supervise_patience(const struct supervisor *s, uint64_t timeout_ns)
{
    if (s->caught || s->orphaned)
        return HURRY_MS * NS_PER_MS;
    return timeout_ns > TARGET_PATIENCE ? timeout_ns : TARGET_PATIENCE;
}

void supervise_stop(int number)
{
    struct sigaction plain = {.sa_handler = SIG_DFL}, before;
    sigset_t one, mask;
    sigemptyset(&one);
    sigaddset(&one, number);
    sigaction(number, &plain, &before);
    raise(number); /* pending: the signal is blocked here, in its handler or for a signalfd */
    pthread_sigmask(SIG_UNBLOCK, &one, &mask);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    sigaction(number, &before, NULL);
}

/* The run that is stopped together with brig. */
static struct brig_run *volatile stoppable;

static void on_stop(int number)
{
    int saved = errno;
    struct brig_run *run = stoppable;
    if (run)
        brig_run_pause(run);
    supervise_stop(number);
    if (run)
        brig_run_resume(run);
    errno = saved;
}

/* This uses handlers and not a signalfd: with SIGTTIN and SIGTTOU blocked, a background job would
 * not be stopped by the terminal. Its reads would fail and its writes would go through. */
static void stop_together(struct brig_run *run)
{
    static const int stops[] = {SIGTSTP, SIGTTIN, SIGTTOU};
    const struct sigaction ours = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    struct sigaction before;
    stoppable = run;
    for (size_t i = 0; run && i < sizeof stops / sizeof *stops; i++) {
        if (sigaction(stops[i], &ours, &before) == 0 && before.sa_handler == SIG_IGN)
            sigaction(stops[i], &before, NULL);
    }
}

/* Kill the processes that became our children because the guest killed brig's init: there may be no
 * cgroup through which to end them. We have no other children at this point. */
static void end_orphans(const struct supervisor *s)
{
    if (!s->alone)
        return; /* we had children before exec(): they belong to our caller */
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (int round = 0; round < ORPHAN_ROUNDS; round++) {
        siginfo_t info;
        if (fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
            return;
        for (char *at = text; *at;) {
            long pid = strtol(at, &at, 10);
            at += *at == ' ';
            if (pid > 1)
                kill((pid_t)pid, SIGKILL);
        }
        poll(NULL, 0, 1);
        while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid) {
        }
    }
}

static void read_signals(struct supervisor *s, struct brig_run *run)
{
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == sizeof info) {
        char why[64];
        if (!s->caught)
            s->caught = (int)info.ssi_signo;
        term_hurry(HURRY_MS);
        snprintf(why, sizeof why, "brig got SIG%s", signal_name((int)info.ssi_signo));
        brig_run_cancel(run, why);
    }
}

static void parent_gone(struct supervisor *s, struct brig_run *run)
{
    fd_close_at(&s->parent);
    s->orphaned = true;
    term_hurry(HURRY_MS);
    brig_run_cancel(run, "the process that started brig is gone (--die-with-parent)");
}

static void log_events(struct brig_run *run, struct brig_event_log *events)
{
    struct brig_event event;
    while (events && brig_run_next_event(run, &event))
        brig_event_log_add(events, run, &event);
}

static void step_to_end(struct supervisor *s, struct brig_run *run, struct brig_event_log *events)
{
    for (;;) {
        int over = brig_run_step(run);
        log_events(run, events);
        if (over)
            return;
        struct pollfd polls[] = {
            {.fd = brig_run_fd(run), .events = POLLIN},
            {.fd = s->signals, .events = POLLIN},
            {.fd = events ? brig_event_log_fd(events) : -1, .events = POLLIN},
            {.fd = s->parent, .events = POLLIN},
        };
        if (poll(polls, 4, -1) < 0) {
            /* poll() failed, for example for want of memory: check everything after a pause. */
            for (size_t i = 0; i < 3; i++)
                polls[i].revents = polls[i].fd >= 0 ? POLLIN : 0;
            if (errno != EINTR)
                clock_sleep(10 * NS_PER_MS);
        }
        if (polls[1].revents)
            read_signals(s, run);
        if (polls[2].revents)
            brig_event_log_flush(events);
        if (polls[3].revents)
            parent_gone(s, run);
    }
}

void supervise_run(struct supervisor *s, struct brig_run *run, struct brig_event_log *events)
{
    stop_together(run);
    step_to_end(s, run, events);
    stop_together(NULL);
    end_orphans(s);
    /* All processes of the run are gone. From here on a signal may kill us while we wait for a
     * reader of our output, but signals that arrived earlier may not. */
    read_signals(s, run);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
}

void supervise_failed(struct supervisor *s)
{
    end_orphans(s);
}

void supervise_done(struct supervisor *s)
{
    fd_close_at(&s->signals);
    fd_close_at(&s->parent);
}
