/* The ground of a cell: the part of its file view that is the same for many runs, in a mount
 * namespace of its own. It is made by the builder, a process beside the supervisor, which shares
 * the supervisor's memory and makes raw system calls on memory prepared before, nothing else. It
 * ends when it is done and the supervisor has a descriptor of the namespace, which keeps the
 * ground. */
#ifndef CHILD_GROUND_H
#define CHILD_GROUND_H

#include <stdbool.h>
#include <stdint.h>

struct cell_op;

struct builder {
    const struct cell_op *ops; /* of all parts; the builder executes those of the ground */
    uint32_t count;
    int32_t supervisor; /* its pid */
    uint32_t failed;    /* which one, if ready says so */
    int32_t ready;      /* a futex: 0 not yet, 1 the ground is there, or -errno */
    int32_t held;       /* a futex: 1 when it may end */
    char stack[16384] __attribute__((aligned(16)));
};

/* Start it, in a new mount namespace; returns its pid with *pidfd set, or -errno. Signals must be
 * blocked, and `builder` must outlive it. */
long builder_start(struct builder *builder, int *pidfd);

#endif
