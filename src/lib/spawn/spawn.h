/* SPDX-License-Identifier: MIT */
/* Starts init with a plan: the pipes, the cgroup, the clone. Called by start.c and run_new.c;
 * everything in struct spawned belongs to the run, and is released with spawn_done() or
 * spawn_end(). */
#ifndef LIB_SPAWN_H
#define LIB_SPAWN_H

#include "brig.h"
#include "lib/cgroup/group.h"
#include "lib/plan/plan.h"

struct spawned {
    int pid; /* of init */
    int pidfd;
    int control;    /* socket to init */
    int job;        /* socket to a guest that a template forked, for its job; -1 */
    int relay;      /* the write end of the guest's stdin, or -1 */
    int streams[3]; /* read ends of stdout and stderr by enum brig_stream; [0] is -1 */
    /* Their write ends, held open: an EOF says nothing about the run, and must not wake us. */
    int ends[3];
    int channel;  /* the read end of the result channel, or -1 */
    int memory;   /* the memory file of a call of a template, or -1 */
    int deadline; /* a timer that init watches: it ends the run if the supervisor is stopped */
    struct group group;
    char scratch[128]; /* the run's directory on disk, or empty */
};

#define SPAWNED_NONE                                                                               \
    (struct spawned)                                                                               \
    {                                                                                              \
        .pidfd = -1, .control = -1, .job = -1, .relay = -1, .streams = {-1, -1, -1},               \
        .ends = {-1, -1, -1}, .channel = -1, .memory = -1, .deadline = -1, .group = GROUP_NONE     \
    }

/* On failure nothing is left. On success the caller owns everything in *spawned, and `helper` is no
 * longer needed. */
int spawn_start(struct spawned *spawned, struct brig *brig, const struct plan *plan,
                struct ns_helper *helper, struct brig_error *err);

/* The same without a command: the cell is built and waits for its job. A call of a template is
 * always started this way. */
int spawn_park(struct spawned *spawned, struct brig *brig, const struct plan *plan,
               struct ns_helper *helper, struct brig_error *err);
bool spawn_is_parked(const struct spawned *spawned); /* is it still waiting for its job? */
/* Set the error for a guest that was not started, from the report of init. */
int spawn_error(const struct plan *plan, const struct init_report *report, struct brig_error *err);
/* Arm the timer that makes init end the run if the supervisor does not. It expires one second after
 * the timeout and kill-after, counted from now. */
void spawn_arm(const struct spawned *spawned, const struct brig_limits *limits);
/* Send a parked cell the job of the plan. Returns -E2BIG, without setting *err, if the job is too
 * large. */
int spawn_job(struct spawned *spawned, const struct plan *plan, struct brig_error *err);

/* Kill the processes, wait for their end, and release everything. */
void spawn_end(struct spawned *spawned);

/* Remove the scratch directory of the run. Returns 0 or -errno. */
int spawn_clear(struct spawned *spawned);

/* Close everything that is open, and remove the cgroup. The process must have ended. */
void spawn_done(struct spawned *spawned);
/* In a fork of the supervisor: forget the cgroup and the scratch directory without removing them,
 * because they belong to the parent. */
void spawn_forget(struct spawned *spawned);

#endif
