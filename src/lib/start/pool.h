/* SPDX-License-Identifier: MIT */
/* The pool: cells built ahead by a thread of the library, parked, and used once. start.c takes
 * cells from it, and hands it the runs that are over.
 *
 *     brig_warm() ──► shape ──pool thread──► parked run ──pool_take()──► run
 *     run ──pool_reap()──► reap queue ──pool thread──► killed, waited for, removed
 *
 * A parked run has everything but its command: the cell, and all that watches it. It fits a spec if
 * everything that the cell was built from is the same: limits, view, network. Values that only the
 * supervisor uses (timeouts, output) and values that are sent with the job (command, environment,
 * streams) may differ. */
#ifndef LIB_POOL_H
#define LIB_POOL_H

#include "brig.h"

struct pool;

/* Take a parked run for this spec. The caller owns it. Returns NULL if there is none. */
struct brig_run *pool_take(struct pool *pool, const struct brig_spec *spec);

/* Have the next cell built; called when the run that took one has started. */
void pool_refill(struct pool *pool);

/* Hand a run that is over to the pool thread. The run is freed here. The pool thread kills its
 * processes, waits for their end, removes the cgroup and closes the file descriptors. */
void pool_reap(struct pool *pool, struct brig_run *run);

/* End the pool thread, end all parked runs, and wait for them. */
void pool_close(struct pool *pool);

#endif
