/* SPDX-License-Identifier: MIT */
/* Supervision of one run by a program that gets signals: a signal cancels the run, and processes
 * that a killed init left behind are ended. */
#ifndef CLI_SUPERVISE_H
#define CLI_SUPERVISE_H

#include <signal.h>
#include <stdbool.h>

#include "brig.h"

struct supervisor {
    int signals;
    int parent;      /* a pidfd of our parent with --die-with-parent; else -1 */
    bool alone;      /* we had no children at the start */
    char first[64];  /* the children at the start */
    int caught;      /* the first signal that told us to end */
    bool orphaned;   /* our parent is gone, and we end because of that */
    sigset_t before; /* the signal mask of our caller */
};

#define SUPERVISOR_NONE                                                                            \
    (struct supervisor)                                                                            \
    {                                                                                              \
        .signals = -1, .parent = -1                                                                \
    }

/* Call this before anything is started. */
int supervise_prepare(struct supervisor *s, struct brig_error *err);

/* --die-with-parent: cancel the run when our parent is gone. */
int supervise_parent(struct supervisor *s, struct brig_error *err);

/* How long brig waits at its end for a reader that takes no bytes, after a run with this
 * timeout. */
uint64_t supervise_patience(const struct supervisor *s, uint64_t timeout_ns);

/* Stop this process by the signal, as its default action would. Returns when it is continued. */
void supervise_stop(int number);

/* Step the run until it is over; its events go to the log, if there is one. */
void supervise_run(struct supervisor *s, struct brig_run *run, struct brig_event_log *events);

/* Call this instead if nothing was started: ends processes that the attempt may have left. */
void supervise_failed(struct supervisor *s);

void supervise_done(struct supervisor *s);

#endif
