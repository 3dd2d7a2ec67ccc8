/* Many runs, so many at once, from one event loop: `brig batch` without its command line.
 *
 *     lines ──► job ──► run ──► result line ──► journal ──► output
 *
 * A line is read only when there is room for a run, and a result is kept only until it is written:
 * what a batch holds does not depend on the number of its jobs. */
#ifndef CLI_BATCH_H
#define CLI_BATCH_H

#include "batch_job.h"
#include "batch_journal.h"
#include "batch_lines.h"
#include "batch_output.h"
#include "brig.h"
#include "progress.h"
#include "cli/supervise.h"

struct batch_slot {
    struct brig_run *run; /* NULL: free */
    struct job job;
};

enum batch_stop {
    BATCH_GOES_ON,
    BATCH_SIGNAL, /* told to end */
    BATCH_FAILED, /* a job did, and that was to be the end */
    BATCH_BROKEN, /* brig cannot go on */
};

struct batch {
    /* Set by the caller. */
    unsigned jobs;
    bool fail_fast, quiet, verbose;
    struct job_source source;
    struct lines lines;
    struct journal journal;
    struct output output;
    struct progress progress;

    struct supervisor supervisor;
    struct brig *brig;
    struct batch_slot *slots; /* `jobs` of them */
    struct pollfd *polls;
    struct buf results; /* in the journal, not yet synced */
    enum batch_stop stop;
    bool wants_input; /* there is room for a job, and no line */
    bool more;        /* there may be one more line to be had at once */
    bool held_up;     /* no line was taken, since the output was full */
    bool input_ended;
    uint64_t give_up_ns;
    int other_signals;
    /* Cells built ahead for the shape of this spec. */
    struct brig_spec *warm;
    bool warm_fails; /* or there is no room for them */
    unsigned misses;
    uint64_t warm_runs, runs;
};

#define BATCH_NONE                                                                                 \
    (struct batch)                                                                                 \
    {                                                                                              \
        .journal = JOURNAL_NONE, .output = OUTPUT_NONE, .supervisor = SUPERVISOR_NONE,             \
        .other_signals = -1                                                                        \
    }

/* Until all is done, or told to end. Returns the exit code. */
int batch_run(struct batch *batch);
void batch_done(struct batch *batch);

#endif
