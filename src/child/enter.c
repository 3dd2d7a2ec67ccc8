/* From clone to the exec of init. */
#include "enter.h"

#include <linux/fcntl.h>

#include "place.h"
#include "sys.h"

static long place(struct enter *enter)
{
    if (enter->way.ground >= 0) {
        long ground = sys3(__NR_fcntl, enter->way.ground, F_DUPFD_CLOEXEC, enter->count);
        if (ground < 0)
            return ground;
        enter->way.ground = (int)ground;
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
    int init = enter->init,
        ground = enter->way.ground; /* the child changes its copies, which are ours */
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | enter->clone_flags,
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .exit_signal = 17, /* SIGCHLD; exec would set it anyway */
        .stack = (uint64_t)(uintptr_t)enter->stack,
        .stack_size = enter->stack_size,
    };
    enter->ret = 0;
    long pid = sys_clone_call(&args, child, enter);
    enter->init = init;
    enter->way.ground = ground;
    if (pid < 0) {
        enter->step = "clone";
        enter->ret = pid;
    }
    return pid;
}
