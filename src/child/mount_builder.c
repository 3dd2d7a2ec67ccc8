/* SPDX-License-Identifier: MIT */
/* The builder: creates the base mounts of a cell in parallel to the supervisor. */
#include "mount_builder.h"

#include <linux/futex.h>
#include <linux/time_types.h>

#include "cell_ops.h"
#include "sys.h"

#define WAIT_SLICES 3000 /* of 10 ms each */

/* Wait for the supervisor to take a file descriptor of the namespace, but only while it lives. The
 * base mounts are built in any case: the child of the cell waits for them, and cleans up after a
 * dead supervisor. */
static void wait_until_held(const struct builder *builder)
{
    const struct __kernel_timespec slice = {.tv_nsec = 10000000};
    for (int i = 0; i < WAIT_SLICES; i++) {
        if (__atomic_load_n(&builder->held, __ATOMIC_ACQUIRE) != 0 ||
            sys0(__NR_getppid) != builder->supervisor)
            return;
        sys6(__NR_futex, (long)&builder->held, FUTEX_WAIT_PRIVATE, 0, (long)&slice, 0, 0);
    }
}

static int build(void *arg)
{
    struct builder *builder = arg;
    const struct cell_way none = {.base_mounts = -1};
    /* Close all file descriptors of the host: a copy in this process would keep them open. */
    sys3(__NR_close_range, 0, ~0u, 0);
    long ret = cell_run(builder->ops, builder->count, CELL_PART_BASE, &none, &builder->failed);
    ready_tell(&builder->ready, ret);
    wait_until_held(builder);
    return 0;
}

long builder_start(struct builder *builder, int *pidfd)
{
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_PIDFD | CLONE_NEWNS,
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .stack = (uint64_t)(uintptr_t)builder->stack,
        .stack_size = sizeof builder->stack,
    };
    return sys_clone_call(&args, build, builder);
}
