/* What the supervisor and init say to each other over their socket (SOCK_SEQPACKET, one struct a
 * message), and the descriptors init is started with.
 *
 * Both sides are built from the same source and the same file, so the layout needs no versioning;
 * the supervisor still checks size and kind of each message. */
#ifndef CHILD_PROTOCOL_H
#define CHILD_PROTOCOL_H

#include <stdint.h>

#include "guest_ops.h"

/* Descriptor numbers in init. */
enum slot {
    SLOT_STDIN,
    SLOT_STDOUT,
    SLOT_STDERR,
    SLOT_CONTROL,    /* the socket */
    SLOT_SUPERVISOR, /* a pidfd of the supervisor: readable when it is dead */
    SLOT_CHANNEL,    /* the guest's end of its result channel, if it gets one */
    SLOT_TEMPLATE,   /* a template's socket for requests, or that of its child for its job */
    SLOT_WORKDIR,    /* without a cell: the work folder */
    SLOT_OWNER,      /* a user namespace for mounts: their files are the guest's */
    SLOT_HOLDER,     /* a pidfd of the holder, which has the run's network namespace */
    SLOT_RULES,      /* a landlock ruleset */
    SLOT_EXTRA,      /* from here on: what groups refer to */
    SLOT_MAX = 28,
};

#define GUEST_CHANNEL  3
#define GUEST_TEMPLATE 4

/* The guest that a template forked: 1 is init, and 2 would be the template's own number in its
 * namespace, by which libraries would take a fork for the process that it was made from. */
#define FORKED_PID 3

#define INIT_OPS_MAX    32
#define INIT_GROUPS_MAX 5
#define GROUP_NAME_SIZE 80

/* The first message, supervisor to init. */
struct init_setup {
    int32_t clone_into; /* slot of a cgroup v2 folder for CLONE_INTO_CGROUP, or -1 */
    /* What stops the group from growing, or kills it: written when everything has to end. */
    int32_t kill_fd;
    int32_t events_fd; /* pids.events, read before the group is held at its size; -1 */
    char kill_byte;
    /* The groups of this run, for init to remove if the supervisor dies first. */
    int32_t group_parents[INIT_GROUPS_MAX]; /* slots of the folders that hold them */
    uint32_t group_count;
    char group_name[GROUP_NAME_SIZE];
    /* v2: the supervisor, and init with it, was moved to a leaf of this folder; -1: it was not. */
    int32_t leaf_parent;
    char leaf[GROUP_NAME_SIZE];
    /* The cell is built ahead: the guest waits, all its operations done, for a job. */
    int32_t park;
    int32_t channel; /* the guest gets its result channel as descriptor GUEST_CHANNEL */
    /* The guest is a template: it gets its socket as descriptor GUEST_TEMPLATE, and when the
     * supervisor is gone, the groups of its children are removed with its own. */
    int32_t template;
    int32_t forked; /* a template has forked the guest already: it is process FORKED_PID */
    uint32_t op_count;
    struct op ops[INIT_OPS_MAX];
};

/* The job of a parked guest, supervisor to guest: this, then the path, the arguments and the
 * environment as texts that end with NUL, then the input. With it may come a descriptor for 0. */
struct init_job {
    uint32_t argc, envc;
    uint32_t input_len; /* only a call of a template has one */
};

#define JOB_SIZE_MAX  65536 /* without the input */
#define JOB_WORDS_MAX 1024  /* arguments and variables together, and the NULL behind each list */
#define JOB_INPUT_MAX 16384

/* Later messages, supervisor to init: one byte. */
enum init_command {
    INIT_TERMINATE = 'T', /* SIGTERM, then SIGCONT, to the tree */
    INIT_KILL = 'K',      /* end everything now */
};

enum report_kind {
    REPORT_STARTED = 1, /* pid: the guest's main process, which is past its exec */
    REPORT_PARKED,      /* by the guest itself: it waits for its job */
    REPORT_FAILED,      /* op, errnum: nothing was executed; status: it is one of the cell's */
    REPORT_EXITED,      /* pid, code (CLD_*), status, comm: the main process is gone */
    REPORT_GONE,        /* the whole tree is gone and reaped; usage of all of it; status: whether
                         * anything was left when the main process was gone */
};

#define REPORT_OP_JOB   UINT32_C(0xfffffffd) /* it was parked, and got no job */
#define REPORT_OP_CLONE UINT32_C(0xfffffffe) /* the clone of the guest failed */
#define REPORT_OP_EXEC  UINT32_C(0xffffffff) /* its exec failed */

/* init to supervisor. */
struct init_report {
    uint32_t kind;
    int32_t pid;
    uint32_t op;
    int32_t errnum;
    int32_t code, status;
    char comm[16];
    uint64_t forks_refused; /* EXITED: until then; UINT64_MAX: not known */
    uint64_t user_us, system_us, max_rss_kib, blocks_in, blocks_out;
};

#endif
