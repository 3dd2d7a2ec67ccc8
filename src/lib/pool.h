/* Cells built ahead: parked, used once, renewed by a thread of the library's own.
 *
 *     brig_warm() ──► shape ──keeper──► parked cells ──take──► run ──bury──► keeper ends and
 * removes
 *
 * A cell fits a run if everything that the cell was built from is the same: limits, view, network.
 * What only the supervisor keeps (timeouts, output) and what the job brings (command, environment,
 * streams) may differ. */
#ifndef LIB_POOL_H
#define LIB_POOL_H

#include "brig.h"
#include "plan.h"
#include "spawn.h"

struct pool;

struct parked {
    struct parked *next;
    struct plan plan; /* the half that a cell is made of */
    struct spawned spawned;
    uint64_t built_at;
};

/* A parked cell for this spec, the caller's now, or NULL. */
struct parked *pool_take(struct pool *pool, const struct brig_spec *spec);

/* After that, when the run is on its way: have the next one built. */
void pool_refill(struct pool *pool);

/* Does it go on? Else what is over is removed before anybody is told that it is. */
bool pool_goes_on(struct pool *pool);

/* Leave what is over to the keeper: ending init, removing the group, closing what is open. Takes it
 * over; *spawned is empty afterwards. */
void pool_bury(struct pool *pool, struct spawned *spawned);

/* End the keeper and all that is parked, and wait for it. */
void pool_close(struct pool *pool);

#endif
