/* The operations of a plan that are carried out in the guest's process, between init's clone and
 * the exec of the command: flat data, made by lib/plan.c, sent to init, executed by op_run().
 *
 * Descriptors are named by their slot: the number they have in init, whatever they were in the
 * supervisor. */
#ifndef CHILD_OP_H
#define CHILD_OP_H

#include <stdint.h>

enum op_kind {
    OP_JOIN_GROUP = 1, /* fd: the open `tasks` file of a cgroup v1 group */
    OP_NEW_SESSION,
    OP_CHDIR,  /* fd: a folder */
    OP_RLIMIT, /* a: resource, b: soft, c: hard */
    OP_NO_NEW_PRIVS,
    OP_CGROUP_NAMESPACE, /* its root is the group the guest is in by now */
    OP_NEW_USER,         /* a: the id on the host to become, b: what it is called inside */
    OP_COUNTERS,         /* bound what the user namespace counts for its owner */
    OP_LANDLOCK,         /* fd: a ruleset */
    OP_DROP_CAPS,        /* a: become this user of the host, or 0; b: there are none to lose */
    OP_SECCOMP,          /* the filter of seccomp.table */
    OP_SECCOMP_DEGRADED, /* the one of seccomp_degraded.table on top */
    OP_NO_SOCKETS,       /* and that of seccomp_no_sockets.table */
    OP_SECCOMP_TEMPLATE, /* the one of seccomp_template.table, alone */
};

struct op {
    uint32_t kind;
    int32_t fd;
    uint64_t a, b, c;
};

/* Execute in order. Returns 0, or -errno with *failed the index of the one that failed. */
long op_run(const struct op *ops, uint32_t count, uint32_t *failed);

#endif
