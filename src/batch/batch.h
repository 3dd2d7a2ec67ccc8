/* SPDX-License-Identifier: MIT */
/* Many runs, a fixed number of them in parallel, in one event loop: `brig batch` without its
 * command line.
 *
 *      lines ──► job ──► run ──► result line ──► journal ──► output
 *
 * A line is read only if there is a free slot for its run, and a result is kept only until it is
 * written: the memory of a batch does not depend on the number of its jobs. */
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
    BATCH_SIGNAL, /* a signal told brig to end */
    BATCH_FAILED, /* a job failed, with --fail-fast */
    BATCH_BROKEN, /* brig cannot go on */
};

struct batch {
    /* Set by the caller. */
    unsigned jobs;
    bool fail_fast, quiet, verbose, die_with_parent;
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
    bool wants_input;   /* a slot is free, and a line is missing */
    bool more;          /* another line may be available at once */
    bool told_degraded; /* the warning that jobs run without a cell */
    bool held_up;       /* no line was taken because the output queue is full */
    bool input_ended;
    uint64_t give_up_ns; /* when to give up on the reader of the results; 0: not set */
    uint64_t taken;      /* bytes that it had taken when give_up_ns was set */
    int other_signals;
    /* Cells are built ahead for this spec. */
    struct brig_spec *warm;
    bool warm_fails; /* no cells can be built ahead */
    unsigned misses;
    uint64_t warm_runs, runs;
};

#define BATCH_NONE                                                                                 \
    (struct batch)                                                                                 \
    {                                                                                              \
        .journal = JOURNAL_NONE, .output = OUTPUT_NONE, .supervisor = SUPERVISOR_NONE,             \
        .other_signals = -1                                                                        \
    }

/* Run until all jobs are done or brig is told to end. Returns the exit code. */
int batch_run(struct batch *batch);
void batch_done(struct batch *batch);

#endif
