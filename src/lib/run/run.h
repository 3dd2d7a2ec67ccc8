/* SPDX-License-Identifier: MIT */
/* A run, from its start to its result. run.c owns it and is the only file that steps it; each of
 * the other files has one concern:
 *   stdin_relay.c  copies the caller's bytes to the guest's stdin
 *   watch.c        checks clocks, counters and limits
 *   ending.c       ends the process tree: terminate, kill, give up
 *   finish.c       builds the result from the recorded facts */
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
    PHASE_DRAINING,    /* the process tree is gone, output is still on its way */
    PHASE_OVER,
};

enum run_source {
    SOURCE_STDIN = BRIG_STDIN, /* the guest's stdin is writable */
    SOURCE_STDOUT = BRIG_STDOUT,
    SOURCE_STDERR = BRIG_STDERR,
    SOURCE_STDOUT_SINK,
    SOURCE_STDERR_SINK,
    SOURCE_RELAY, /* the caller's stdin is readable */
    SOURCE_CHANNEL,
    SOURCE_CONTROL,
    SOURCE_INIT, /* init has ended */
    SOURCE_TIMER,
    SOURCE_PIDS,
    SOURCE_MEMORY,
    SOURCE_HELPER,
    SOURCE_COUNT,
};

#define NEVER UINT64_MAX

struct stdin_relay {
    int source;        /* the file descriptor that is read; -1: no stdin to relay */
    int own;           /* the same, if the relay has to close it; otherwise -1 */
    bool always_ready; /* a regular file cannot be polled */
    unsigned char *bytes;
    void *memory; /* the allocation that holds the bytes */
    size_t at, len;
};

#define RUN_EVENTS_MAX 16

/* Points in time on the monotonic clock; NEVER if not set. */
struct run_clocks {
    int64_t started_at;      /* calendar time */
    uint64_t started, armed; /* armed: the value that the timer is set to */
    uint64_t deadline, kill_at, give_up_at;
    uint64_t drain_until, reader_gone_at;
    uint64_t sample_at, pids_check_at, cpu_check_at, usage_at;
};

/* Observations: the reports of init, the counters of the group, samples. */
struct run_seen {
    bool init_gone, tree_gone;    /* init has ended; init reported that all processes were reaped */
    struct init_report gone;      /* the last report of init */
    uint64_t pids_refused;        /* until the main process ended */
    uint64_t no_routes, no_ports; /* packets that could not leave the guest's network */
    unsigned memory_looks;        /* checks since the last memory notification of the kernel */
    uint64_t peak_memory, peak_pids; /* by sampling */
    uint64_t sampled_user, sampled_system;
    uint64_t sampled_at, longest_gap; /* the last sample; the longest time without one */
    bool counted;                     /* the counters are final */
    struct group_counters counters;
};

/* The file descriptors that the run waits for. */
struct run_sources {
    int epoll, timer;
    bool polled[SOURCE_COUNT]; /* by enum run_source: it is in the epoll set */
};

/* The events of the last step. */
struct run_events {
    bool watched; /* the caller has asked for events */
    struct brig_event items[RUN_EVENTS_MAX];
    size_t count, next;
    uint64_t sequence;
};

/* The result, and the memory that it points to. */
struct run_report {
    struct brig_result result;
    char id[24];
    char *notes;
    struct strings hints;   /* the hints of the plan come first; secrets are hidden */
    char output_fault[192]; /* the reason why there is no output */
    char why[256];          /* the reason for a cancellation, or the error of a sink that failed */
    struct brig_error error;
};

struct brig_run {
    struct brig *brig;
    struct brig_run *next; /* in the list of parked runs */
    uint64_t built_at;     /* if the run was parked */
    int pid; /* the process that started it; a fork of that process only has copies to close */
    struct plan plan;
    struct spawned spawned;
    struct ns_helper helper; /* until it has ended, soon after the start */
    struct pump pump;
    struct stdin_relay relay;
    struct channel channel;
    struct facts facts; /* the input of the verdict */
    enum phase phase;
    struct run_sources sources;
    struct run_clocks clocks;
    struct run_seen seen;
    struct run_events events;
    struct run_report report;
    /* Bits by stream: a chunk was read in this step, and an event points at it. */
    unsigned moved;
    int left_in_pipe[3]; /* by stream, when the process tree was gone */
    bool stepped;
    bool cancelled;   /* by the caller, even if the run ends for another reason */
    bool told_memory; /* the event about the memory limit was pushed */
    bool warm;        /* started in a cell that was built ahead */
    /* The guest was parked until its job came: in every warm run, and in every call of a
     * template. */
    bool waited;
    bool deferred; /* the pool thread does the rest of its end */
    bool settled;  /* the cgroup was read and removed */
    bool answered; /* the caller has the guest's answer, and may free the run before its end */
};

/* run_new.c */
struct brig_run *run_create(struct brig *brig, struct brig_error *err);
/* Create the epoll set and add all sources. The streams, init and the cgroup must exist. */
int run_poll_all(struct brig_run *run, struct brig_error *err);
/* Does the error say that the host does not allow cells at all? */
bool run_forbids_cells(int ret, const struct brig_error *err);
/* Create a run without its command, which waits for its job. Returns NULL and sets errno on
 * failure. */
struct brig_run *run_park(struct brig *brig, const struct brig_spec *spec, struct brig_error *err);

/* run_end.c */
/* Free a run with everything that it owns. If its end was deferred, kill its processes first. */
void run_end(struct brig_run *run);
void run_end_at_once(struct brig_run *run); /* kill its processes, and wait for their end */
/* In a fork of the process that started the run: give up the run without ending it, and without a
 * change to the epoll set, which is shared with the other process. */
void run_let_go(struct brig_run *run);

/* run_events.c */
void run_push_event(struct brig_run *run, struct brig_event event);

/* run_control.c */
void run_read_control(struct brig_run *run);

/* run_sources.c */
void run_reap_helper(struct brig_run *run); /* waits until the helper has ended */
int run_poll(struct brig_run *run, enum run_source source, int fd, uint32_t events);
void run_unpoll(struct brig_run *run, enum run_source source, int fd);

/* stdin_relay.c */
int stdin_relay_start(struct brig_run *run, struct brig_error *err);
void stdin_relay_step(struct brig_run *run);
void stdin_relay_done(struct brig_run *run);

/* watch.c */
void watch_start(struct brig_run *run);
void watch_clocks(struct brig_run *run, uint64_t now); /* act on every clock that is due */
void watch_memory(struct brig_run *run); /* after a memory notification of the kernel */
void watch_pids(struct brig_run *run);   /* after the kernel has refused a fork */
void watch_arm(struct brig_run *run);    /* set the timer to the next clock */

/* Record the time since the last sample, before a sample and at the end of the run. On a busy
 * machine a sample may be late: whatever happened in between was not seen. */
static inline void run_note_gap(struct brig_run *run, uint64_t now)
{
    uint64_t last = run->seen.sampled_at ? run->seen.sampled_at : run->clocks.started;
    if (now > last && now - last > run->seen.longest_gap)
        run->seen.longest_gap = now - last;
    run->seen.sampled_at = now;
}

/* ending.c */
/* Send SIGTERM, and SIGKILL after kill-after. The first reason is kept. */
void ending_terminate(struct brig_run *run, enum end_reason reason);
void ending_wake(const struct brig_run *run); /* send SIGCONT to init, in case it was stopped */
void ending_expired(struct brig_run *run);    /* init has ended the run at its deadline */
void ending_main_gone(struct brig_run *run);  /* give init a deadline to end the others */
void ending_kill(struct brig_run *run, enum end_reason reason);
void ending_give_up(struct brig_run *run);

/* Returns a list that ends with NULL; never returns NULL. */
static inline const char *const *run_hints(const struct brig_run *run)
{
    static const char *const none[] = {NULL};
    return run->report.hints.items ? (const char *const *)run->report.hints.items : none;
}

/* finish.c */
void finish_group(struct brig_run *run); /* the process tree is gone: read and remove the cgroup */
void finish_run(struct brig_run *run);
void finish_answer(struct brig_run *run); /* check the guest's answer, and set result.output */

#endif
