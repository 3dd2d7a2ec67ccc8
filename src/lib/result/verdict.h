/* SPDX-License-Identifier: MIT */
/* Decides why a run ended, from the recorded facts alone. Called by finish.c; touches no file
 * descriptor. */
#ifndef LIB_VERDICT_H
#define LIB_VERDICT_H

#include "base/buf.h"
#include "brig.h"

/* The reason for which brig itself ended the run. */
enum end_reason {
    END_NONE,
    END_TIMEOUT,
    END_CANCELLED,
    END_OUTPUT,
    END_PIDS,
    END_CPU,
    END_MEMORY,      /* found by sampling; a kill by the kernel shows in oom_kills */
    END_READER_GONE, /* the reader of the output is gone */
};

struct facts {
    bool main_ended; /* init reported its end */
    int code;        /* CLD_EXITED, CLD_KILLED, CLD_DUMPED */
    int status;      /* exit code or signal */
    int pid;
    char comm[16]; /* name of the main process, if it was killed */
    enum end_reason reason;
    const char *why;       /* of END_CANCELLED and END_READER_GONE, or NULL */
    uint64_t oom_kills;    /* in this run's own cgroup; or BRIG_UNKNOWN */
    uint64_t pids_refused; /* refused forks; or BRIG_UNKNOWN */
    bool pids_fail;        /* a refused fork does not end the run */
    uint64_t pids_seen;    /* without a cgroup: the most processes seen at once */
    /* Without a cgroup: the number of processes started in all; 0 if it is not known. */
    uint64_t pids_made;
    uint64_t sample_gap_ns; /* without a cgroup: the longest time in which no sample was taken */
    bool output_over;       /* bytes were dropped */
    uint64_t output_omitted;
    int sink_errors[2]; /* errno of a sink that failed: stdout, stderr */
    bool truncate_output;
    bool sampled;    /* without a cgroup: memory and processes were sampled */
    bool left_files; /* its scratch directory could not be removed */
    bool stuck;      /* some processes did not end in time after SIGKILL */
    struct brig_usage usage;
    struct brig_limits limits;
};

struct verdict {
    enum brig_status status;
    int exit_code; /* -1: none */
    int signal;    /* 0: none */
};

struct verdict verdict_of(const struct facts *facts);

/* Write one or two sentences for a person; nothing after a clean exit. */
void verdict_notes(const struct facts *facts, const struct verdict *verdict, struct buf *out);

#endif
