/* Making the ground of a cell beside the supervisor. */
#include "ground.h"

#include <linux/prctl.h>

#include "cell.h"
#include "sys.h"

static int build(void *arg)
{
    struct builder *builder = arg;
    const struct cell_way none = {.ground = -1};
    sys5(__NR_prctl, PR_SET_PDEATHSIG, 9 /* SIGKILL */, 0, 0, 0);
    /* No descriptor of the host must stay open only because this process has a copy. */
    sys3(__NR_close_range, 0, ~0u, 0);
    long ret = cell_run(builder->ops, builder->count, CELL_PART_GROUND, &none, &builder->failed);
    ready_tell(&builder->ready, ret);
    ready_wait(&builder->held);
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
