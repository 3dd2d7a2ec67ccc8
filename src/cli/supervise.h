/* Seeing a run through to its end, as a program that may be told to end itself: signals become a
 * cancel, and what a killed init leaves is ended. */
#ifndef CLI_SUPERVISE_H
#define CLI_SUPERVISE_H

#include <signal.h>
#include <stdbool.h>

#include "brig.h"

struct supervisor {
    int signals;
    bool alone;      /* we had no children when we started */
    char first[64];  /* those we had */
    int caught;      /* the first signal that told us to end */
    sigset_t before; /* the signals that our caller blocked */
};

#define SUPERVISOR_NONE                                                                            \
    (struct supervisor)                                                                            \
    {                                                                                              \
        .signals = -1                                                                              \
    }

/* Before anything is started. */
int supervise_prepare(struct supervisor *s, struct brig_error *err);

/* Until the run is over; its events go to the log, if there is one. */
void supervise_run(struct supervisor *s, struct brig_run *run, struct brig_event_log *events);

/* Instead of it, if nothing could be started: what may have been left of the attempt. */
void supervise_failed(struct supervisor *s);

void supervise_done(struct supervisor *s);

#endif
