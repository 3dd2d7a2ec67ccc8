/* Why a run ended: a pure function of what was seen. */
#ifndef LIB_VERDICT_H
#define LIB_VERDICT_H

#include "base/buf.h"
#include "brig.h"

/* Why brig itself ended the run. */
enum end_reason {
    END_NONE,
    END_TIMEOUT,
    END_CANCELLED,
    END_OUTPUT,
    END_PIDS,
    END_CPU,
    END_MEMORY,      /* by sampling; by the kernel it shows in oom_kills */
    END_READER_GONE, /* nobody reads the output any more */
};

struct facts {
    bool main_ended; /* its end was reported by init */
    int code;        /* CLD_EXITED, CLD_KILLED, CLD_DUMPED */
    int status;      /* exit code or signal */
    int pid;
    char comm[16]; /* of a main process that was killed */
    enum end_reason reason;
    const char *why;       /* of END_CANCELLED, or NULL */
    uint64_t oom_kills;    /* of this run's own group; BRIG_UNKNOWN */
    uint64_t pids_refused; /* forks; BRIG_UNKNOWN */
    bool pids_fail;        /* a refused fork is the guest's own business */
    uint64_t pids_seen;    /* END_PIDS by sampling: how many there were */
    bool output_over;      /* bytes were dropped */
    uint64_t output_omitted;
    int sink_errors[2]; /* errno of a sink that failed: stdout, stderr */
    bool truncate_output;
    bool sampled;    /* without a cgroup: memory and processes were looked at now and then */
    bool left_files; /* its folder on disk could not be removed */
    bool stuck;      /* SIGKILL was sent and not all of it ended within the time for that */
    struct brig_usage usage;
    struct brig_limits limits;
};

struct verdict {
    enum brig_status status;
    int exit_code; /* -1: none */
    int signal;    /* 0: none */
};

struct verdict verdict_of(const struct facts *facts);

/* One or two sentences for a person; nothing after a clean exit. */
void verdict_notes(const struct facts *facts, const struct verdict *verdict, struct buf *out);

#endif
