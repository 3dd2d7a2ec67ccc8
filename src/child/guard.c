/* SPDX-License-Identifier: MIT */
/* The guard: removes the cgroups of a run in place of init until init has them. */
#include "guard.h"

#include <linux/errno.h>

#include "removal.h"
#include "sys.h"

/* The lowest needed file descriptor that is not below `from`, or ~0. */
static uint32_t next_needed(const struct guard *guard, uint32_t from)
{
    uint32_t least = (uint32_t)guard->read_end >= from ? (uint32_t)guard->read_end : ~0u;
    for (uint32_t i = 0; i < guard->count; i++) {
        uint32_t fd = (uint32_t)guard->parents[i];
        least = fd >= from && fd < least ? fd : least;
    }
    return least;
}

/* Close all other file descriptors of the host: a copy in this process would keep them open. */
static void keep_needed(const struct guard *guard)
{
    uint32_t from = 0;
    for (;;) {
        uint32_t needed = next_needed(guard, from);
        if (needed > from)
            sys3(__NR_close_range, from, needed == ~0u ? needed : needed - 1, 0);
        if (needed == ~0u)
            return;
        from = needed + 1;
    }
}

/* Wait for the end of the supervisor, then remove the cgroups. If init did start, it removes them
 * too, and here they are busy until it has. */
static int stand_in(void *arg)
{
    const struct guard *guard = arg;
    char byte;
    keep_needed(guard);
    while (sys3(__NR_read, guard->read_end, &byte, 1) == -EINTR) {
    }
    for (uint32_t i = guard->count; i-- > 0;)
        removal_one(guard->parents[i], guard->name);
    return 0;
}

long guard_start(struct guard *guard, int *pidfd)
{
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .stack = (uint64_t)(uintptr_t)guard->stack,
        .stack_size = sizeof guard->stack,
    };
    return sys_clone_call(&args, stand_in, guard);
}
