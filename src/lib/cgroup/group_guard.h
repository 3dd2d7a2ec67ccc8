/* SPDX-License-Identifier: MIT */
/* The guard of a run's cgroups during its setup: see child/guard.h. */
#ifndef LIB_GROUP_GUARD_H
#define LIB_GROUP_GUARD_H

#include "brig.h"
#include "child/guard.h"

struct group_place;

struct group_guard {
    int pidfd; /* -1 if there is none */
    struct guard guard;
};

/* Must be called before the cgroup with that name is created in the place. */
int group_guard_start(struct group_guard *guard, const struct group_place *place, const char *name,
                      struct brig_error *err);
/* Call group_guard_release() once init has the cgroups or the supervisor has removed them, and
 * group_guard_done() later, which waits until the process is gone. Both accept a guard that was not
 * started. */
void group_guard_release(struct group_guard *guard);
void group_guard_done(struct group_guard *guard);

#endif
