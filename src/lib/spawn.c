/* Starting init. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "child/enter.h"
#include "command.h"
#include "host.h"
#include "scratch.h"

#define STAGE      "spawn"
#define STACK_SIZE 65536

/* The guest's ends of everything, and what init is told; gone when init has them. */
struct launch {
    struct enter enter;
    struct init_setup setup;
    int control, stdin_read, out_write, err_write;
    int tasks[GROUP_FOLDERS_MAX];
    struct owner owner;
    int start; /* where a guest without a cell starts, if not in the work folder; -1 */
};

static int add_slot(struct launch *launch, int fd)
{
    launch->enter.fds[launch->enter.count] = fd;
    return (int)launch->enter.count++;
}

static int make_pipe(int *read_end, int *write_end, bool keep_read, struct brig_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_system(err, STAGE, errno, "cannot make a pipe: %s", strerror(errno));
    *read_end = ends[0];
    *write_end = ends[1];
    /* Only our end: the guest expects a pipe that waits. */
    fcntl(keep_read ? ends[0] : ends[1], F_SETFL, O_NONBLOCK);
    return 0;
}

/* A guest that is not the caller may still open /dev/stderr. */
static int give_streams(const struct launch *launch, const struct plan *plan,
                        struct brig_error *err)
{
    const int ends[] = {launch->stdin_read, launch->out_write, launch->err_write};
    uid_t uid = (uid_t)plan->cell.guest_uid;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && uid; i++) {
        if (ends[i] >= 0 && fchown(ends[i], uid, uid) < 0)
            return error_system(err, STAGE, errno, "cannot give a pipe to the guest: %s",
                                strerror(errno));
    }
    return 0;
}

static int make_streams(struct launch *launch, struct spawned *spawned, const struct plan *plan,
                        struct brig_error *err)
{
    int sockets[2];
    int ret = make_pipe(&spawned->streams[BRIG_STDOUT], &launch->out_write, true, err);
    if (ret == 0)
        ret = make_pipe(&spawned->streams[BRIG_STDERR], &launch->err_write, true, err);
    if (ret == 0 && plan->stdin_fd < 0)
        ret = make_pipe(&launch->stdin_read, &spawned->feed, false, err);
    if (ret < 0)
        return ret;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_system(err, STAGE, errno, "cannot make a socket: %s", strerror(errno));
    spawned->control = sockets[0];
    launch->control = sockets[1];
    return give_streams(launch, plan, err);
}

/* Give init the group: the way in for the guest, the way to end it, the way to remove it. */
static int add_group(struct launch *launch, const struct group *group, struct brig_error *err)
{
    struct init_setup *setup = &launch->setup;
    const struct group_place *place = group->place;
    if (place->backend == &group_backend_v2)
        setup->clone_into = add_slot(launch, group->folders[0]);
    for (uint32_t i = 0; i < setup->op_count; i++) {
        struct op *op = &setup->ops[i];
        if (op->kind != OP_JOIN_GROUP)
            continue;
        int fd = openat(group->folders[op->a], "tasks", O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            return error_system(err, STAGE, errno, "cannot open tasks of the group %s: %s",
                                group->name, strerror(errno));
        launch->tasks[op->a] = fd;
        op->fd = add_slot(launch, fd);
    }
    if (group->kill_fd >= 0)
        setup->kill_fd = add_slot(launch, group->kill_fd);
    if (group->pids_events >= 0)
        setup->events_fd = add_slot(launch, group->pids_events);
    setup->kill_byte = group->kill_byte;
    memcpy(setup->group_name, group->name, sizeof setup->group_name);
    if (place->leaf_parent >= 0) {
        setup->leaf_parent = add_slot(launch, place->leaf_parent);
        memcpy(setup->leaf, place->leaf, sizeof setup->leaf);
    }
    for (size_t i = 0; i < place->count; i++)
        setup->group_parents[setup->group_count++] = add_slot(launch, place->folders[i]);
    return 0;
}

static int prepare(struct launch *launch, struct spawned *spawned, struct brig *brig,
                   const struct plan *plan, struct brig_error *err)
{
    static char *const no_env[] = {NULL};
    struct init_setup *setup = &launch->setup;
    int ret = make_streams(launch, spawned, plan, err);
    if (ret == 0 && plan->scratch[0]) {
        ret = scratch_make(plan->scratch, plan->cell.guest_uid, err);
        if (ret == 0)
            memcpy(spawned->scratch, plan->scratch, sizeof spawned->scratch);
        if (ret == 0 && plan->in_scratch) {
            launch->start = open(plan->scratch, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            ret = launch->start < 0
                      ? error_system(err, STAGE, errno, "%s: %s", plan->scratch, strerror(errno))
                      : 0;
        }
    }
    if (ret == 0 && plan->cell.needs_user)
        ret = owner_make(&launch->owner, plan->cell.guest_uid, err);
    if (ret == 0 && plan->use_group)
        ret = group_create(&spawned->group, &brig->place, &plan->group_limits, err);
    if (ret < 0)
        return ret;
    launch->enter.argv = plan->argv.items;
    launch->enter.envp = plan->env.items ? plan->env.items : no_env;
    launch->enter.init = brig->init;
    add_slot(launch, plan->stdin_fd >= 0 ? plan->stdin_fd : launch->stdin_read);
    add_slot(launch, launch->out_write);
    add_slot(launch, launch->err_write);
    add_slot(launch, launch->control);
    add_slot(launch, brig->pidfd);
    /* A slot that is not used holds something harmless; none of the host's folders is in a cell. */
    int start = launch->start >= 0 ? launch->start : plan->workdir;
    add_slot(launch, plan->cell.used ? brig->pidfd : start);
    add_slot(launch, launch->owner.user >= 0 ? launch->owner.user : brig->pidfd);
    add_slot(launch, brig->pidfd); /* CELL_KEEP_RULES puts the rules there */
    launch->enter.clone_flags = plan->cell.clone_flags;
    launch->enter.ops = plan->cell.view.ops;
    launch->enter.op_count = plan->cell.view.count;
    memcpy(setup->ops, plan->ops, sizeof setup->ops);
    setup->op_count = plan->op_count;
    setup->clone_into = setup->kill_fd = setup->events_fd = setup->leaf_parent = -1;
    if (plan->use_group)
        ret = add_group(launch, &spawned->group, err);
    return ret;
}

/* Signals stay blocked until the child is past its exec: a handler of the host must never run in a
 * process that shares the host's memory. */
static int clone_init(struct launch *launch, struct spawned *spawned, const struct plan *plan,
                      struct brig_error *err)
{
    uint64_t all = ~UINT64_C(0),
             before; /* as the kernel sees it: libc would leave its own two out */
    struct enter *enter = &launch->enter;
    enter->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (enter->stack == MAP_FAILED)
        return error_system(err, STAGE, errno, "cannot map a stack: %s", strerror(errno));
    enter->stack_size = STACK_SIZE;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    long pid = enter_init(enter, &spawned->pidfd);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    munmap(enter->stack, STACK_SIZE);
    if (pid >= 0 && enter->ret < 0) {
        siginfo_t info;
        waitid(P_PIDFD, (id_t)spawned->pidfd, &info, WEXITED | __WALL);
    }
    if (enter->ret == -E2BIG)
        return command_exec_error(plan->path, &plan->place, E2BIG, err);
    if (enter->ret < 0 && enter->in_cell)
        return cell_op_error(&enter->ops[enter->op_failed], (int)-enter->ret, err);
    if (pid < 0 && enter->clone_flags)
        return error_system(err, "cell", (int)-enter->ret, "cannot make namespaces: %s",
                            strerror((int)-enter->ret));
    if (enter->ret < 0)
        return error_system(err, STAGE, (int)-enter->ret, "%s: %s", enter->step,
                            strerror((int)-enter->ret));
    spawned->pid = (int)pid;
    return 0;
}

int spawn_start(struct spawned *spawned, struct brig *brig, const struct plan *plan,
                struct brig_error *err)
{
    struct launch launch = {.control = -1,
                            .stdin_read = -1,
                            .out_write = -1,
                            .err_write = -1,
                            .owner = {.user = -1, .pidfd = -1},
                            .start = -1};
    for (size_t i = 0; i < GROUP_FOLDERS_MAX; i++)
        launch.tasks[i] = -1;
    *spawned = SPAWNED_NONE;
    int ret = host_adopt(brig, err);
    if (ret == 0)
        ret = prepare(&launch, spawned, brig, plan, err);
    if (ret == 0 && send(spawned->control, &launch.setup, sizeof launch.setup, MSG_NOSIGNAL) < 0)
        ret = error_system(err, STAGE, errno, "cannot send the plan to init: %s", strerror(errno));
    if (ret == 0)
        ret = clone_init(&launch, spawned, plan, err);
    fd_close_at(&launch.control);
    fd_close_at(&launch.stdin_read);
    fd_close_at(&launch.out_write);
    fd_close_at(&launch.err_write);
    owner_done(&launch.owner);
    fd_close_at(&launch.start);
    for (size_t i = 0; i < GROUP_FOLDERS_MAX; i++)
        fd_close_at(&launch.tasks[i]);
    if (ret < 0)
        spawn_done(spawned);
    return ret;
}

void spawn_done(struct spawned *spawned)
{
    fd_close_at(&spawned->control);
    fd_close_at(&spawned->feed);
    fd_close_at(&spawned->streams[BRIG_STDOUT]);
    fd_close_at(&spawned->streams[BRIG_STDERR]);
    fd_close_at(&spawned->pidfd);
    group_remove(&spawned->group);
    spawn_clear(spawned);
}

int spawn_clear(struct spawned *spawned)
{
    int ret = spawned->scratch[0] ? scratch_remove(spawned->scratch) : 0;
    spawned->scratch[0] = 0;
    return ret;
}
