/* SPDX-License-Identifier: MIT */
/* The base mounts of a cell: the part of its view that is the same for many runs. They come from a
 * cache, or a builder process (src/child/mount_builder.h) makes them in parallel with the
 * supervisor. Called by spawn.c. */
#ifndef LIB_BASE_MOUNTS_H
#define LIB_BASE_MOUNTS_H

#include <pthread.h>

#include "brig.h"
#include "view.h"

/* The cache of a handle: at most one set of base mounts, and the operations that made it. Runs and
 * the pool thread use it. */
struct base_mounts_cache {
    pthread_mutex_t lock;
    int mounts;      /* the mount namespace; -1: nothing is kept */
    int host_mounts; /* polled to find out whether the host's mounts have changed */
    uint64_t host;   /* the mount namespace that host_mounts belongs to */
    uint64_t made_at;
    struct cell_op *ops; /* the operations of the base mounts only */
    uint32_t op_count;
    struct strings text; /* the strings of the operations */
    /* Runs in a row that it did not fit; the number of them after which it is replaced. */
    unsigned misses, patience;
};

/* The base mounts of one run, while the run is set up. */
struct base_mounts {
    int mounts;      /* -1: the run needs none */
    bool copy;       /* others use it too, so the run takes a copy */
    bool built;      /* the builder made it for this run */
    int pidfd;       /* of the builder; -1 */
    int host_mounts; /* opened before the build, to see changes since; -1: not to be kept */
    uint64_t host;
    struct builder builder;
};

void base_mounts_cache_init(struct base_mounts_cache *base_mounts_cache);
void base_mounts_cache_done(struct base_mounts_cache *base_mounts_cache);
/* In a fork of the process: a thread that does not exist in the fork may hold the lock. */
void base_mounts_cache_adopt(struct base_mounts_cache *base_mounts_cache);

void base_mounts_init(struct base_mounts *base_mounts);
/* Find the base mounts for a view or begin to build them. Returns 0 or an error with stage
 * "cell". */
int base_mounts_begin(struct base_mounts *base_mounts, struct base_mounts_cache *base_mounts_cache,
                      const struct view *view, struct brig_error *err);
/* The run is set up, or has failed: wait for the builder, and keep the base mounts if they are
 * worth it. `view` is the same view; `good` says that the run has found the base mounts
 * complete. */
void base_mounts_end(struct base_mounts *base_mounts, struct base_mounts_cache *base_mounts_cache,
                     const struct view *view, bool good);

#endif
