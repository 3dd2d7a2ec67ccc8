/* SPDX-License-Identifier: MIT */
/* The operations of a plan that run in the process of the guest, between init's clone and the exec
 * of the command. They are flat data: lib/plan/plan_operations.c creates them, the supervisor sends
 * them to init, and op_run() executes them.
 *
 * An operation names a file descriptor by its slot, which is its number in init. The number in the
 * supervisor may differ. */
#ifndef CHILD_OP_H
#define CHILD_OP_H

#include <stdint.h>

enum op_kind {
    OP_JOIN_GROUP = 1, /* fd: the open `tasks` file of a cgroup v1 directory; hierarchy */
    OP_NEW_SESSION,
    OP_CHDIR,  /* fd: a directory */
    OP_RLIMIT, /* rlimit */
    OP_NO_NEW_PRIVS,
    OP_CGROUP_NAMESPACE, /* its root is the cgroup that the guest has joined by now */
    OP_NEW_USER,         /* user */
    OP_COUNTERS,         /* limit the per-user counters of the user namespace */
    OP_LANDLOCK,         /* fd: a ruleset */
    OP_DROP_CAPS,        /* drop */
    OP_SECCOMP,          /* install the filter of seccomp/cell.table */
    OP_SECCOMP_DEGRADED, /* add the filter of seccomp/degraded.table */
    OP_NO_SOCKETS,       /* add the filter of seccomp/no_sockets.table */
    /* Install the filter of seccomp/no_unix.table, with or without the others. */
    OP_NO_UNIX,
    OP_NO_TRUNCATE,      /* add the filter of seccomp/no_truncate.table */
    OP_SECCOMP_ROOT,     /* add the filter of seccomp/root.table */
    OP_SECCOMP_TEMPLATE, /* install the filter of seccomp/template.table alone */
};

struct op {
    uint32_t kind;
    int32_t fd;
    union {
        uint64_t words[3];  /* all operands, for a request to a template */
        uint64_t hierarchy; /* its index in the cgroup of the run */
        struct {
            uint64_t resource, soft, hard;
        } rlimit;
        struct {
            uint64_t host_id, inner_id; /* the id to change to, and its id in the namespace */
        } user;
        struct {
            uint64_t ids;       /* change to this uid of the host, and gid << 32; 0: no change */
            uint64_t has_none;  /* there are no capabilities to drop */
            uint64_t stay_root; /* without its supplementary groups */
        } drop;
    };
};

/* Execute the operations in order. Returns 0, or -errno with *failed set to the index of the failed
 * operation. */
long op_run(const struct op *ops, uint32_t count, uint32_t *failed);

#endif
