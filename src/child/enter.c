/* SPDX-License-Identifier: MIT */
/* The child between the supervisor's clone and the exec of init. */
#include "enter.h"

#include <linux/fcntl.h>

#include "place.h"
#include "sys.h"

static long place(struct enter *enter)
{
    if (enter->way.base_mounts >= 0) {
        long base_mounts = sys3(__NR_fcntl, enter->way.base_mounts, F_DUPFD_CLOEXEC, enter->count);
        if (base_mounts < 0)
            return base_mounts;
        enter->way.base_mounts = (int)base_mounts;
    }
    return place_fds(enter->fds, enter->scratch, enter->count, &enter->init);
}

static int child(void *arg)
{
    struct enter *enter = arg;
    enter->step = "placing descriptors";
    enter->ret = place(enter);
    if (enter->ret < 0)
        return 1;
    enter->in_cell = true;
    enter->ret =
        cell_run(enter->ops, enter->op_count, CELL_PART_RUN, &enter->way, &enter->op_failed);
    if (enter->ret < 0)
        return 1;
    enter->in_cell = false;
    enter->step = "exec of init";
    enter->ret = sys5(__NR_execveat, enter->init, "", enter->argv, enter->envp, AT_EMPTY_PATH);
    return 1;
}

long enter_init(struct enter *enter, int *pidfd)
{
    /* The child overwrites these two in the shared memory. */
    int init = enter->init, base_mounts = enter->way.base_mounts;
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | enter->clone_flags,
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .exit_signal = 17, /* SIGCHLD; exec sets it in any case */
        .stack = (uint64_t)(uintptr_t)enter->stack,
        .stack_size = enter->stack_size,
    };
    enter->ret = 0;
    long pid = sys_clone_call(&args, child, enter);
    enter->init = init;
    enter->way.base_mounts = base_mounts;
    if (pid < 0) {
        enter->step = "clone";
        enter->ret = pid;
    }
    return pid;
}
