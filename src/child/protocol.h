/* SPDX-License-Identifier: MIT */
/* The messages between the supervisor and init on their socket (SOCK_SEQPACKET, one struct per
 * message), and the file descriptors that init starts with.
 *
 * Both sides are built from the same source into the same file, so the layout has no version. The
 * supervisor still checks the size and kind of each message. */
#ifndef CHILD_PROTOCOL_H
#define CHILD_PROTOCOL_H

#include <stdint.h>

#include "guest_ops.h"

/* File descriptor numbers in init. */
enum slot {
    SLOT_STDIN,
    SLOT_STDOUT,
    SLOT_STDERR,
    SLOT_CONTROL,    /* the socket */
    SLOT_SUPERVISOR, /* a pidfd of the supervisor: readable when it is dead */
    SLOT_CHANNEL,    /* the guest's end of its result channel, if it has one */
    /* The socket on which a template gets requests, or a fork of it gets its job. */
    SLOT_TEMPLATE,
    SLOT_WORKDIR,  /* without a cell: the work directory */
    SLOT_USER_NS,  /* a user namespace for idmapped mounts: maps their files to the guest */
    SLOT_HELPER,   /* a pidfd of the namespace helper, which holds the run's network namespace */
    SLOT_RULES,    /* a landlock ruleset */
    SLOT_DEADLINE, /* a timer of the supervisor: readable when the run has to end */
    SLOT_MEMORY,   /* the memory file of a call of a template */
    SLOT_EXTRA,    /* the first of the file descriptors of the cgroups */
    SLOT_MAX = 28,
};

#define GUEST_CHANNEL  3
#define GUEST_TEMPLATE 4
#define GUEST_MEMORY   4 /* in a call of a template */

/* The pid of a guest that a template forked. Pid 1 is init. Pid 2 is the number of the template in
 * its own namespace: a library that compares pids to detect a fork would not notice this one. */
#define FORKED_PID 3

#define INIT_OPS_MAX    32
#define INIT_GROUPS_MAX 5
#define GROUP_NAME_SIZE 80

/* The first message from the supervisor to init. */
struct init_setup {
    int32_t clone_into; /* slot of a cgroup v2 directory for CLONE_INTO_CGROUP, or -1 */
    /* Writing kill_byte to it kills the cgroup or stops it from growing. Used when the run has to
     * end. */
    int32_t kill_fd;
    int32_t events_fd; /* pids.events, read before the cgroup is held at its size; or -1 */
    char kill_byte;
    /* The cgroups of this run, which init removes if the supervisor dies first. */
    int32_t group_parents[INIT_GROUPS_MAX]; /* slots of the directories that contain them */
    uint32_t group_count;
    char group_name[GROUP_NAME_SIZE];
    /* cgroup v2: the directory below which the supervisor, and init with it, was moved to a leaf;
     * or -1 if it was not moved.
     */
    int32_t leaf_parent;
    char leaf[GROUP_NAME_SIZE];
    /* The cell is built ahead of time: the guest executes its operations, then waits for a job. */
    int32_t park;
    /* The limit on processes if no cgroup counts them, so that init checks it at the end; or 0. */
    uint64_t pids;
    int32_t channel; /* the guest gets its result channel as file descriptor GUEST_CHANNEL */
    /* The guest is a template: it gets its socket as file descriptor GUEST_TEMPLATE. If the
     * supervisor dies, init removes the cgroups of the template's forks as well. */
    int32_t template;
    int32_t forked; /* a template has already forked the guest as process FORKED_PID */
    int32_t counts; /* the run has its own network namespace, whose counters init reports */
    uint32_t op_count;
    struct op ops[INIT_OPS_MAX];
};

/* The job of a parked guest, from the supervisor to the guest. This header is followed by the path,
 * the arguments and the environment as NUL-terminated texts, then by the input. The message may
 * carry a file descriptor for stdin. */
struct init_job {
    uint32_t argc, envc;
    uint32_t input_len; /* nonzero only in a call of a template */
};

#define JOB_SIZE_MAX  65536 /* without the input */
#define JOB_WORDS_MAX 1024  /* arguments and variables, with the NULL after each list */
#define JOB_INPUT_MAX 16384

/* Later messages from the supervisor to init: one byte each. */
enum init_command {
    INIT_TERMINATE = 'T', /* send SIGTERM, then SIGCONT, to the tree */
    INIT_KILL = 'K',      /* kill everything now */
    INIT_STOP = 'S',      /* send SIGSTOP to the tree: the supervisor is about to stop as well */
    INIT_CONTINUE = 'C',  /* send SIGCONT to the tree */
};

enum report_kind {
    REPORT_STARTED = 1, /* pid: the main process of the guest, which is past its exec */
    REPORT_PARKED,      /* sent by the guest itself: it waits for its job */
    /* op, errnum: nothing was executed; status: op is an operation of the cell */
    REPORT_FAILED,
    REPORT_EXITED, /* pid, code (CLD_*), status, comm: the main process has ended */
    /* The whole tree is gone and reaped; usage of all its processes; status: whether processes
     * were left when the main process had ended. */
    REPORT_GONE,
};

#define REPORT_OP_JOB   UINT32_C(0xfffffffd) /* the parked guest got no job */
#define REPORT_OP_CLONE UINT32_C(0xfffffffe) /* the clone of the guest failed */
#define REPORT_OP_EXEC  UINT32_C(0xffffffff) /* the exec of the guest failed */

/* A message from init to the supervisor. */
struct init_report {
    uint32_t kind;
    int32_t pid;
    uint32_t op;
    int32_t errnum;
    int32_t code, status;
    char comm[16];
    uint32_t expired;   /* EXITED: init itself killed it at the deadline */
    uint64_t pids_seen; /* EXITED, without a cgroup: number of live processes; 0 if not counted */
    uint64_t pids_made; /* EXITED: number of pids ever used; 0 if unknown */
    uint64_t forks_refused; /* EXITED: number of refused forks until then; UINT64_MAX if unknown */
    /* EXITED with a failure, in a network namespace of the run's own: packets that could not leave
     * it. */
    uint64_t no_routes, no_ports;
    uint64_t user_us, system_us, max_rss_kib, blocks_in, blocks_out;
};

#endif
