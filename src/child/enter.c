/* From clone to the exec of init. */
#include "enter.h"

#include <linux/close_range.h>
#include <linux/fcntl.h>

#include "sys.h"

/* Move every descriptor to its slot. A slot may be the number of one that is still to be moved, so
 * all of them go above the slots first. */
static long place_fds(struct enter *enter)
{
    uint32_t count = enter->count;
    long init = sys3(__NR_fcntl, enter->init, F_DUPFD_CLOEXEC, count);
    if (init < 0)
        return init;
    enter->init = (int)init;
    long ground = -1;
    if (enter->way.ground >= 0) {
        ground = sys3(__NR_fcntl, enter->way.ground, F_DUPFD_CLOEXEC, count);
        if (ground < 0)
            return ground;
    }
    enter->way.ground = (int)ground;
    for (uint32_t i = 0; i < count; i++) {
        long fd = sys3(__NR_fcntl, enter->fds[i], F_DUPFD_CLOEXEC, count);
        if (fd < 0)
            return fd;
        enter->scratch[i] = (int)fd;
    }
    for (uint32_t i = 0; i < count; i++) {
        long fd = sys3(__NR_dup3, enter->scratch[i], i, 0);
        if (fd < 0)
            return fd;
    }
    /* Whatever another thread of the host opened without close-on-exec goes as well. */
    return sys3(__NR_close_range, count, ~0u, CLOSE_RANGE_CLOEXEC);
}

static int child(void *arg)
{
    struct enter *enter = arg;
    enter->step = "placing descriptors";
    enter->ret = place_fds(enter);
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
