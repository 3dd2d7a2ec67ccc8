/* A run, from its start to its result. run.c owns it and is the only one that steps it; the other
 * parts are one concern each:
 *   feed.c    the caller's bytes to the guest's stdin
 *   watch.c   clocks, counters and limits: when something has to happen
 *   ending.c  ending the tree: terminate, kill, give up
 *   finish.c  what was seen to a result */
#ifndef LIB_RUN_H
#define LIB_RUN_H

#include "brig.h"
#include "lib/result/channel.h"
#include "lib/plan/plan.h"
#include "pump.h"
#include "lib/spawn/spawn.h"
#include "lib/result/verdict.h"

enum phase {
    PHASE_RUNNING,
    PHASE_TERMINATING, /* SIGTERM was sent */
    PHASE_KILLING,     /* SIGKILL was sent */
    PHASE_DRAINING,    /* the tree is gone, output is still on its way */
    PHASE_OVER,
};

enum run_source {
    SOURCE_STDIN = BRIG_STDIN, /* the guest's stdin takes more */
    SOURCE_STDOUT = BRIG_STDOUT,
    SOURCE_STDERR = BRIG_STDERR,
    SOURCE_STDOUT_SINK,
    SOURCE_STDERR_SINK,
    SOURCE_FEED, /* the caller's stdin has more */
    SOURCE_CHANNEL,
    SOURCE_CONTROL,
    SOURCE_INIT, /* init is gone */
    SOURCE_TIMER,
    SOURCE_PIDS,
    SOURCE_MEMORY,
    SOURCE_HOLDER,
    SOURCE_COUNT,
};

#define NEVER UINT64_MAX

struct feed {
    int source;        /* what is read; -1: nothing to feed */
    int own;           /* it, if it is ours to close; -1 */
    bool always_ready; /* a regular file cannot be polled */
    unsigned char *bytes;
    void *memory; /* that they are in */
    size_t at, len;
};

#define RUN_EVENTS_MAX 16

struct brig_run {
    struct brig *brig;
    struct brig_run *next; /* while it is parked */
    uint64_t built_at;     /* if it was parked */
    int pid;               /* that started it: a fork of it has only copies to close */
    struct plan plan;
    struct spawned spawned;
    struct owner owner; /* of what the set-up needed; on its way out */
    struct pump pump;
    struct feed feed;
    struct channel channel;
    int epoll, timer;
    bool polled[SOURCE_COUNT]; /* which sources are in the epoll set */
    enum phase phase;
    bool watched, stepped;
    bool cancelled;      /* by the caller, whatever else ends the run */
    bool told_memory;    /* the event that memory ran out was pushed */
    unsigned moved;      /* bits by stream: a chunk was read in this step, its event points at it */
    int left_in_pipe[3]; /* by stream, when the tree was gone */
    uint64_t pids_refused;   /* while the main process lived */
    unsigned memory_looks;   /* since the kernel spoke of memory */
    uint64_t started, armed; /* monotonic; armed: what the timer is set to */
    int64_t started_at;
    uint64_t deadline, kill_at, give_up_at, drain_until, reader_gone_at;
    uint64_t sample_at, pids_check_at, cpu_check_at, usage_at;
    bool init_gone, tree_gone;       /* init has ended; it said that all was reaped */
    struct init_report gone;         /* its last words */
    uint64_t peak_memory, peak_pids; /* by sampling */
    uint64_t sampled_user, sampled_system;
    bool warm;     /* from a cell that was built ahead */
    bool waited;   /* its guest has waited for its job: a call of a template has, if not warm */
    bool deferred; /* its end is left to the keeper */
    bool counted;  /* the counters are the last ones */
    bool settled;  /* the group was read and removed */
    bool answered; /* the caller has what the guest sent, and may not wait for more */
    struct group_counters counters;
    struct facts facts;
    char why[256];
    /* events of the last step */
    struct brig_event events[RUN_EVENTS_MAX];
    size_t event_count, event_next;
    uint64_t sequence;
    /* the result */
    struct brig_result result;
    char id[24];
    char *notes;
    char output_fault[192]; /* why there is no output */
    struct brig_error error;
};

/* start.c, with brig_start() */
/* A run without its command, which waits for it; NULL with errno. */
struct brig_run *run_park(struct brig *brig, const struct brig_spec *spec, struct brig_error *err);

/* run.c */
/* Free it with all that it has; if that was deferred, what still lives is killed first. */
void run_end(struct brig_run *run);
void run_push_event(struct brig_run *run, struct brig_event event);
void run_read_control(struct brig_run *run);
void run_reap_holder(struct brig_run *run); /* waits for its end, if that is still to come */
int run_poll(struct brig_run *run, enum run_source source, int fd, uint32_t events);
void run_unpoll(struct brig_run *run, enum run_source source, int fd);

/* feed.c */
int feed_start(struct brig_run *run, struct brig_error *err);
void feed_step(struct brig_run *run);
void feed_done(struct brig_run *run);

/* watch.c */
void watch_start(struct brig_run *run);
void watch_clocks(struct brig_run *run, uint64_t now); /* act on what is due */
void watch_memory(struct brig_run *run);               /* the kernel says that memory ran out */
void watch_pids(struct brig_run *run);                 /* the kernel says that a fork was refused */
void watch_arm(struct brig_run *run);                  /* set the timer to what comes next */

/* ending.c */
/* Ask nicely, then kill. The first reason stays. */
void ending_terminate(struct brig_run *run, enum end_reason reason);
void ending_wake(const struct brig_run *run); /* init, if somebody stopped it */
void ending_main_gone(struct brig_run *run);  /* init ends the rest; see that it does */
void ending_kill(struct brig_run *run, enum end_reason reason);
void ending_give_up(struct brig_run *run);

/* finish.c */
void finish_group(struct brig_run *run); /* the tree is gone: read its group and remove it */
void finish_run(struct brig_run *run);
void finish_answer(struct brig_run *run); /* look at what the guest sent: result.output */

#endif
