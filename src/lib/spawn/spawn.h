/* Starting init with a plan: the pipes, the group, the clone. */
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
    int feed;       /* the write end of the guest's stdin, or -1 */
    int streams[3]; /* read ends of stdout and stderr by enum brig_stream; [0] is -1 */
    int ends[3];    /* write ends of both, so that their end, which says nothing, wakes nobody */
    int channel;    /* the read end of the result channel, or -1 */
    struct group group;
    char scratch[128]; /* the run's folder on disk, or empty */
};

#define SPAWNED_NONE                                                                               \
    (struct spawned)                                                                               \
    {                                                                                              \
        .pidfd = -1, .control = -1, .job = -1, .feed = -1, .streams = {-1, -1, -1},                \
        .ends = {-1, -1, -1}, .channel = -1, .group = GROUP_NONE                                   \
    }

/* On failure nothing is left. On success everything in *spawned is the caller's. `owner` is needed
 * no more then. */
int spawn_start(struct spawned *spawned, struct brig *brig, const struct plan *plan,
                struct owner *owner, struct brig_error *err);

/* The same without a command: a cell that is built and waits for its job. A call of a template is
 * always made this way. */
int spawn_park(struct spawned *spawned, struct brig *brig, const struct plan *plan,
               struct owner *owner, struct brig_error *err);
bool spawn_is_parked(const struct spawned *spawned); /* is it still there? */
/* Why a guest was not started, as init tells it. */
int spawn_error(const struct plan *plan, const struct init_report *report, struct brig_error *err);
/* Give a parked cell the job of the plan. -E2BIG, without *err: the job is too large for it. */
int spawn_job(struct spawned *spawned, const struct plan *plan, struct brig_error *err);

/* End it at once, whatever it does, and remove all of it. */
void spawn_end(struct spawned *spawned);

/* Remove what the run had on disk. Returns 0 or -errno. */
int spawn_clear(struct spawned *spawned);

/* Closes what is open. The process must be gone. */
void spawn_done(struct spawned *spawned);
/* In a fork of the supervisor: all of it is the other's from here on, and stays as it is. */
void spawn_forget(struct spawned *spawned);

#endif
