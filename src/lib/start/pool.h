/* Cells built ahead: parked, used once, renewed by a thread of the library's own.
 *
 *     brig_warm() ──► shape ──keeper──► parked run ──take──► run ──bury──► keeper ends and removes
 *
 * What is parked is a run that has all but its command: the cell, and all that watches it. It fits
 * a spec if everything that the cell was built from is the same: limits, view, network. What only
 * the supervisor keeps (timeouts, output) and what the job brings (command, environment, streams)
 * may differ. */
#ifndef LIB_POOL_H
#define LIB_POOL_H

#include "brig.h"

struct pool;

/* A parked run for this spec, the caller's now, or NULL. */
struct brig_run *pool_take(struct pool *pool, const struct brig_spec *spec);

/* After that, when the run is on its way: have the next one built. */
void pool_refill(struct pool *pool);

/* Does it go on? Else what is over is removed before anybody is told that it is. */
bool pool_goes_on(struct pool *pool);

/* Leave what is over to the keeper: what still lives is killed, and the run is freed, but to wait
 * for the end, to remove the group and to close what is open is the keeper's. */
void pool_bury(struct pool *pool, struct brig_run *run);

/* End the keeper and all that is parked, and wait for it. */
void pool_close(struct pool *pool);

#endif
