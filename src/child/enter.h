/* SPDX-License-Identifier: MIT */
/* The code from the supervisor's clone to the exec of init. lib/spawn/spawn.c calls it. It runs in
 * a child that shares the supervisor's memory and may only make raw system calls on memory that was
 * prepared before. A test checks that the object file refers to no symbol outside of itself. */
#ifndef CHILD_ENTER_H
#define CHILD_ENTER_H

#include <stdbool.h>
#include <stdint.h>

#include "cell_ops.h"
#include "protocol.h"

struct enter {
    int fds[SLOT_MAX];     /* by slot: the supervisor's file descriptors that init starts with */
    int scratch[SLOT_MAX]; /* temporary copies of `fds` */
    uint32_t count;
    uint64_t clone_flags; /* the new namespaces */
    const struct cell_op *ops;
    uint32_t op_count;
    struct cell_way way;
    uint32_t op_failed; /* set by the child if it failed while in_cell: index of the operation */
    bool in_cell;
    int init; /* the executable */
    char *const *argv, *const *envp;
    void *stack; /* used by the child alone */
    uint64_t stack_size;
    long ret; /* set by the child: 0, or -errno of the failed step */
    const char *step;
};

/* Clone the child and let it exec init. Returns the pid with *pidfd set, or -errno with enter->step
 * naming the failed step. Signals must be blocked. Returns after the exec. */
long enter_init(struct enter *enter, int *pidfd);

#endif
