/* SPDX-License-Identifier: MIT */
/* The base mounts of a cell: the part of its file view that is the same for many runs, in a
 * separate mount namespace. The builder creates them: a process beside the supervisor that shares
 * its memory and may only make raw system calls on memory that was prepared before. The builder
 * exits when it is done and the supervisor has a file descriptor of the namespace, which keeps the
 * base mounts alive. */
#ifndef CHILD_BASE_MOUNTS_H
#define CHILD_BASE_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

struct cell_op;

struct builder {
    /* Operations of all parts; the builder executes those of the base mounts. */
    const struct cell_op *ops;
    uint32_t count;
    int32_t supervisor; /* its pid */
    uint32_t failed;    /* index of the failed operation, if `ready` is -errno */
    int32_t ready;      /* a futex: 0 while building, 1 when the base mounts exist, or -errno */
    int32_t held;       /* a futex: 1 when the builder may exit */
    char stack[16384] __attribute__((aligned(16)));
};

/* Start the builder in a new mount namespace. Returns its pid with *pidfd set, or -errno. Signals
 * must be blocked, and `builder` must outlive the process. */
long builder_start(struct builder *builder, int *pidfd);

#endif
