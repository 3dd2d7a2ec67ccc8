/* The way from the supervisor's clone to the exec of init, in a child that shares the supervisor's
 * memory: raw system calls on memory prepared before, nothing else. A test checks the object file:
 * it refers to no symbol outside of itself. */
#ifndef CHILD_ENTER_H
#define CHILD_ENTER_H

#include <stdbool.h>
#include <stdint.h>

#include "cell_ops.h"
#include "protocol.h"

struct enter {
    int fds[SLOT_MAX];     /* by slot: the supervisor's descriptors that init starts with */
    int scratch[SLOT_MAX]; /* used on the way */
    uint32_t count;
    uint64_t clone_flags; /* namespaces */
    const struct cell_op *ops;
    uint32_t op_count;
    struct cell_way way;
    uint32_t op_failed; /* written by the child: which one, if it failed in_cell */
    bool in_cell;
    int init; /* the executable */
    char *const *argv, *const *envp;
    void *stack; /* for the child alone */
    uint64_t stack_size;
    long ret; /* written by the child: 0, or -errno of the step that failed */
    const char *step;
};

/* Clone and exec. Returns the pid with *pidfd set, or -errno with enter->step naming what failed.
 * Signals must be blocked. Returns when the exec is done. */
long enter_init(struct enter *enter, int *pidfd);

#endif
