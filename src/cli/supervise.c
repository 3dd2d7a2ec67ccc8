/* Supervising. */
#include "supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/signals.h"

#define ORPHAN_ROUNDS 1000

static int catch_signals(struct supervisor *s, struct brig_error *err)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction now;
        /* What our caller ignores (nohup) stays ignored. */
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, ends[i]);
    }
    /* A reader that goes away is an error of a write, not a reason to die without cleaning up. */
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

/* A guest that kills brig's init leaves its tree to us: no cgroup may be there to end it. We have
 * no other children by then. */
static void end_orphans(const struct supervisor *s)
{
    if (!s->alone)
        return; /* born with children of our caller's, by an exec: those are not ours to end */
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
        snprintf(why, sizeof why, "brig got SIG%s", signal_name((int)info.ssi_signo));
        brig_run_cancel(run, why);
    }
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
        };
        if (poll(polls, 3, -1) < 0) {
            /* No memory for it, say: look again a little later. */
            for (size_t i = 0; i < 3; i++)
                polls[i].revents = polls[i].fd >= 0 ? POLLIN : 0;
            if (errno != EINTR)
                clock_sleep(10 * NS_PER_MS);
        }
        if (polls[1].revents)
            read_signals(s, run);
        if (polls[2].revents)
            brig_event_log_flush(events);
    }
}

void supervise_run(struct supervisor *s, struct brig_run *run, struct brig_event_log *events)
{
    step_to_end(s, run, events);
    end_orphans(s);
    /* The tree is gone: from here on a signal may end us, whoever does not read what we write; but
     * not one that was sent before. */
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
}
