/* SPDX-License-Identifier: MIT */
/* struct brig: the handle that a process needs to start runs. */
#ifndef LIB_HOST_H
#define LIB_HOST_H

#include "lib/cell/base_mounts.h"
#include "brig.h"
#include "lib/cgroup/group.h"
#include "lib/spec/operator.h"

struct brig {
    struct group_place place;
    struct operator_limits maxima;
    char no_cell[256]; /* why the latest run got no cell; empty: it got one */
    uint64_t file_max; /* open files of the machine, for all processes that are not root's */
    int init;          /* sealed memory file with brig's init */
    int pidfd;         /* of this process, for init to watch */
    struct base_mounts_cache base_mounts_cache;
    struct pool *pool;     /* cells built ahead; NULL if there are none */
    unsigned cells_wanted; /* of all shapes together; written by the pool */
    int pid;               /* the process that opened it; a fork of it gets its own pidfd */
};

/* Initialize everything but the memory of the handle. Returns 0, or -errno and leaves nothing to
 * release. */
int host_init(struct brig *brig, struct brig_error *err);
/* The pool must be closed before. */
void host_done(struct brig *brig);

/* Are more cells to be built ahead? If not, a run is removed before its end is reported. */
static inline bool host_keeps_cells(const struct brig *brig)
{
    return __atomic_load_n(&brig->cells_wanted, __ATOMIC_ACQUIRE) > 0;
}

/* In a fork of the process that opened the handle: make it the fork's own. Returns 0 or -errno. */
int host_adopt(struct brig *brig, struct brig_error *err);

#endif
