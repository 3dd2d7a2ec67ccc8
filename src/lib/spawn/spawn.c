/* SPDX-License-Identifier: MIT */
/* Starts init: makes the pipes, sockets, timer and cgroup of a run, sends init its setup, and
 * clones it. spawn.h has the interface. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/cell/base_mounts.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "child/enter.h"
#include "lib/plan/command.h"
#include "lib/cgroup/group_guard.h"
#include "lib/plan/host.h"
#include "lib/plan/scratch.h"
#include "template_fork.h"

#define STAGE "spawn"

/* The stack of the child until its exec. It is not mapped separately, because unmapping memory that
 * the namespace helper shares would interrupt the helper's CPU. */
#define STACK_SIZE 16384

/* With less memory, everything that the kernel does for the guest may fail, with any error. */
#define MEMORY_TO_START (UINT64_C(256) << 10)

#define PARK_WITHIN (30 * NS_PER_S)

/* The supervisor has this long to end a run that exceeds its timeout, before init does. */
#define DEADLINE_SLACK NS_PER_S
#define END_WITHIN     5000 /* ms */

/* The guest's ends of its streams and of its result channel. */
#define END_COUNT   4
#define END_CHANNEL 3
struct ends {
    int fds[END_COUNT]; /* stdin, stdout, stderr, channel; -1 */
};

#define ENDS_NONE                                                                                  \
    (struct ends)                                                                                  \
    {                                                                                              \
        {                                                                                          \
            -1, -1, -1, -1                                                                         \
        }                                                                                          \
    }

static void ends_done(struct ends *ends)
{
    for (size_t i = 0; i < END_COUNT; i++)
        fd_close_at(&ends->fds[i]);
}

/* The arguments of spawn(). */
struct order {
    struct brig *brig;
    const struct plan *plan;
    struct ns_helper *helper;
    bool park; /* start init without a command */
};

/* Everything that is needed to start init; freed when init has been started. */
struct launch {
    struct order order;
    struct spawned *spawned; /* the result */
    struct enter enter;
    struct init_setup setup;
    struct ends ends;
    struct base_mounts base_mounts;
    struct group_guard guard; /* until init has the cgroup */
    char stack[STACK_SIZE] __attribute__((aligned(16)));
    int control;
    int template; /* the guest's end of the socket of a template, or of one of its calls; -1 */
    int tasks[GROUP_DIRS_MAX];
    int start; /* where a guest without a cell starts, if not in the work directory; -1 */
};

/* Append a slot after the slots that every init has. */
static int add_slot(struct launch *launch, int fd)
{
    launch->enter.fds[launch->enter.count] = fd;
    return (int)launch->enter.count++;
}

static int make_pipe(int *read_end, int *write_end, bool keep_read, struct brig_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_system(err, STAGE, errno, "cannot make a pipe: %s", error_text(errno));
    *read_end = ends[0];
    *write_end = ends[1];
    /* Only the supervisor's end: the guest expects a blocking pipe. */
    fcntl(keep_read ? ends[0] : ends[1], F_SETFL, O_NONBLOCK);
    return 0;
}

/* Give the pipes to the guest's user, so that it can open /dev/stderr. */
static int give_streams(const struct ends *ends, const struct plan *plan, struct brig_error *err)
{
    uid_t uid = (uid_t)plan->cell.guest_uid;
    for (size_t i = 0; i < END_COUNT && uid; i++) {
        if (ends->fds[i] >= 0 && fchown(ends->fds[i], uid, uid) < 0)
            return error_system(err, STAGE, errno, "cannot give a pipe to the guest: %s",
                                error_text(errno));
    }
    return 0;
}

static int make_streams(struct launch *launch, struct brig_error *err)
{
    struct ends *ends = &launch->ends;
    struct spawned *spawned = launch->spawned;
    const struct plan *plan = launch->order.plan;
    int ret = make_pipe(&spawned->streams[BRIG_STDOUT], &ends->fds[1], true, err);
    if (ret == 0)
        ret = make_pipe(&spawned->streams[BRIG_STDERR], &ends->fds[2], true, err);
    if (ret == 0 && plan->stdin_fd < 0)
        ret = make_pipe(&ends->fds[0], &spawned->relay, false, err);
    if (ret == 0 && plan->channel)
        ret = make_pipe(&spawned->channel, &ends->fds[END_CHANNEL], true, err);
    if (ret == 0 && plan->channel && plan->template)
        ret = template_make_memory(&spawned->memory, err);
    return ret == 0 ? give_streams(ends, plan, err) : ret;
}

static int make_control(struct launch *launch, struct brig_error *err)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_system(err, STAGE, errno, "cannot make a socket: %s", error_text(errno));
    launch->spawned->control = sockets[0];
    launch->control = sockets[1];
    return 0;
}

static int make_deadline(struct launch *launch, struct brig_error *err)
{
    struct spawned *spawned = launch->spawned;
    spawned->deadline = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (spawned->deadline < 0)
        return error_system(err, STAGE, errno, "cannot make a timer: %s", error_text(errno));
    if (!launch->order.park)
        spawn_arm(spawned, &launch->order.plan->limits);
    return 0;
}

void spawn_arm(const struct spawned *spawned, const struct brig_limits *limits)
{
    uint64_t ns = limits->timeout_ns;
    struct itimerspec spec = {0};
    if (ns == BRIG_UNLIMITED || limits->kill_after_ns >= UINT64_MAX - DEADLINE_SLACK - ns)
        return;
    ns += limits->kill_after_ns + DEADLINE_SLACK;
    spec.it_value.tv_sec = (time_t)(ns / NS_PER_S);
    spec.it_value.tv_nsec = (long)(ns % NS_PER_S);
    timerfd_settime(spawned->deadline, 0, &spec, NULL);
}

static int make_template_socket(struct launch *launch, struct brig_error *err)
{
    int sockets[2] = {-1, -1};
    struct brig_template *serves = launch->order.plan->serves;
    if (serves)
        sockets[1] = template_open_socket(serves);
    else if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0)
        launch->spawned->job = sockets[0];
    launch->template = sockets[1];
    return sockets[1] < 0
               ? error_system(err, STAGE, errno, "cannot make a socket: %s", error_text(errno))
               : 0;
}

static int make_scratch(struct launch *launch, struct brig_error *err)
{
    const struct plan *plan = launch->order.plan;
    int ret = scratch_make(plan->scratch, plan->cell.guest_uid, err);
    if (ret < 0)
        return ret;
    memcpy(launch->spawned->scratch, plan->scratch, sizeof launch->spawned->scratch);
    if (!plan->in_scratch)
        return 0;
    launch->start = open(plan->scratch, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return launch->start < 0
               ? error_system(err, STAGE, errno, "%s: %s", plan->scratch, error_text(errno))
               : 0;
}

/* Give init the file descriptors of the cgroup: to join it, to kill it, and to remove it. */
static int add_group(struct launch *launch, const struct group *group, struct brig_error *err)
{
    struct init_setup *setup = &launch->setup;
    const struct group_place *place = group->place;
    bool v2 = place->backend == &group_backend_v2;
    const char *entrance = v2 ? "cgroup.procs" : "tasks";
    if (v2 && !setup->forked)
        setup->clone_into = add_slot(launch, group->dirs[0]);
    for (uint32_t i = 0; i < setup->op_count; i++) {
        struct op *op = &setup->ops[i];
        if (op->kind != OP_JOIN_GROUP)
            continue;
        int fd = openat(group->dirs[op->hierarchy], entrance, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            return error_system(err, STAGE, errno, "cannot open %s of the group %s: %s", entrance,
                                group->name, error_text(errno));
        launch->tasks[op->hierarchy] = fd;
        op->fd = add_slot(launch, fd);
    }
    if (group->kill_fd >= 0)
        setup->kill_fd = add_slot(launch, group->kill_fd);
    if (group->pids_events >= 0)
        setup->events_fd = add_slot(launch, group->pids_events);
    setup->kill_byte = group->kill_byte;
    memcpy(setup->group_name, group->name, sizeof setup->group_name);
    /* The template's init removes the group; no process of a call needs access to other groups. */
    if (setup->forked)
        return 0;
    if (place->leaf_parent >= 0) {
        setup->leaf_parent = add_slot(launch, place->leaf_parent);
        memcpy(setup->leaf, place->leaf, sizeof setup->leaf);
    }
    for (size_t i = 0; i < place->count; i++)
        setup->group_parents[setup->group_count++] = add_slot(launch, place->dirs[i]);
    return 0;
}

/* Make everything that init needs. spawn_done() undoes each part, or it is closed with the
 * launch. */
static int make_parts(struct launch *launch, struct brig_error *err)
{
    const struct plan *plan = launch->order.plan;
    int ret = make_control(launch, err);
    if (ret == 0)
        ret = make_deadline(launch, err);
    if (ret == 0)
        ret = make_streams(launch, err);
    if (ret == 0 && (plan->template || plan->serves))
        ret = make_template_socket(launch, err);
    if (ret == 0 && plan->scratch[0])
        ret = make_scratch(launch, err);
    if (ret == 0 && plan->cell.needs_user)
        ret = ns_helper_map(launch->order.helper, plan->cell.guest_uid, err);
    if (ret == 0 && plan->use_group)
        ret = group_create(&launch->spawned->group, &launch->order.brig->place, &plan->group_limits,
                           plan->template ? NULL : &launch->guard, err);
    return ret;
}

/* An unused slot holds the supervisor's pidfd, which is harmless. No slot of a cell holds a
 * directory of the host. */
static void fill_slots(struct launch *launch)
{
    const struct plan *plan = launch->order.plan;
    const struct ns_helper *helper = launch->order.helper;
    int *fds = launch->enter.fds, nothing = launch->order.brig->pidfd;
    int start = launch->start >= 0 ? launch->start : plan->workdir;
    fds[SLOT_STDIN] = plan->stdin_fd >= 0 ? plan->stdin_fd : launch->ends.fds[0];
    fds[SLOT_STDOUT] = launch->ends.fds[1];
    fds[SLOT_STDERR] = launch->ends.fds[2];
    fds[SLOT_CONTROL] = launch->control;
    fds[SLOT_SUPERVISOR] = launch->order.brig->pidfd;
    fds[SLOT_CHANNEL] = plan->channel ? launch->ends.fds[END_CHANNEL] : nothing;
    fds[SLOT_TEMPLATE] = launch->template >= 0 ? launch->template : nothing;
    fds[SLOT_WORKDIR] = plan->cell.used ? nothing : start;
    fds[SLOT_USER_NS] = helper->user >= 0 ? helper->user : nothing;
    fds[SLOT_HELPER] = helper->pidfd >= 0 ? helper->pidfd : nothing;
    fds[SLOT_RULES] = nothing; /* CELL_KEEP_RULES puts the rules there */
    fds[SLOT_DEADLINE] = launch->spawned->deadline;
    fds[SLOT_MEMORY] = launch->spawned->memory >= 0 ? launch->spawned->memory : nothing;
    launch->enter.count = SLOT_EXTRA;
}

static void fill_enter(struct launch *launch)
{
    static char *const no_env[] = {NULL};
    struct enter *enter = &launch->enter;
    const struct plan *plan = launch->order.plan;
    enter->argv = plan->argv.items;
    enter->envp = plan->env.items ? plan->env.items : no_env;
    enter->init = launch->order.brig->init;
    enter->clone_flags = plan->cell.clone_flags;
    enter->ops = plan->cell.view.ops;
    enter->op_count = plan->cell.view.count;
    enter->way = (struct cell_way){
        .helper = &launch->order.helper->child,
        .builder = launch->base_mounts.built ? &launch->base_mounts.builder : NULL,
        .base_mounts = launch->base_mounts.mounts,
        .copy = launch->base_mounts.copy,
    };
}

static void fill_setup(struct launch *launch)
{
    struct init_setup *setup = &launch->setup;
    const struct plan *plan = launch->order.plan;
    memcpy(setup->ops, plan->ops, sizeof setup->ops);
    setup->op_count = plan->op_count;
    setup->clone_into = setup->kill_fd = setup->events_fd = setup->leaf_parent = -1;
    setup->park = launch->order.park;
    setup->channel = plan->channel;
    setup->pids = plan->use_group || plan->limits.pids == BRIG_UNLIMITED ? 0 : plan->limits.pids;
    setup->template = plan->serves != NULL;
    setup->forked = plan->template != NULL;
    setup->counts = plan->cell.used && !plan->host_network && !plan->template;
}

static int prepare(struct launch *launch, struct brig_error *err)
{
    int ret = make_parts(launch, err);
    if (ret < 0)
        return ret;
    fill_slots(launch);
    fill_enter(launch);
    fill_setup(launch);
    return launch->order.plan->use_group ? add_group(launch, &launch->spawned->group, err) : 0;
}

/* Signals stay blocked until the exec of the child: a signal handler of the host program must never
 * run in a process that shares its memory. */
static int clone_init(struct launch *launch, struct brig_error *err)
{
    struct spawned *spawned = launch->spawned;
    const struct plan *plan = launch->order.plan;
    /* The raw system call also blocks the two signals that the C library would leave out. */
    uint64_t all = ~UINT64_C(0), before;
    struct enter *enter = &launch->enter;
    enter->stack = launch->stack;
    enter->stack_size = sizeof launch->stack;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    long pid = enter_init(enter, &spawned->pidfd);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    if (pid < 0)
        spawned->pidfd = -1; /* a failed clone may have stored a number that is closed again */
    if (pid >= 0 && enter->ret < 0) {
        siginfo_t info;
        waitid(P_PIDFD, (id_t)spawned->pidfd, &info, WEXITED | __WALL);
    }
    if (enter->ret == -E2BIG)
        return command_exec_error(plan->path, &plan->place, E2BIG, err);
    if (enter->ret < 0 && enter->in_cell)
        return cell_op_error(&enter->ops[enter->op_failed], (int)-enter->ret, err);
    if (pid < 0 && enter->clone_flags)
        return error_system(err, "cell", (int)-enter->ret, "cannot make %s: %s",
                            enter->clone_flags & CLONE_NEWUSER ? "a user namespace and others in it"
                                                               : "namespaces",
                            error_text((int)-enter->ret));
    if (enter->ret < 0)
        return error_system(err, STAGE, (int)-enter->ret, "%s: %s", enter->step,
                            error_text((int)-enter->ret));
    spawned->pid = (int)pid;
    return 0;
}

static int fork_init(struct launch *launch, struct brig_error *err)
{
    struct spawned *spawned = launch->spawned;
    const struct plan *plan = launch->order.plan;
    int pid =
        template_fork(plan->template, plan, &launch->enter, &launch->setup, &spawned->pidfd, err);
    spawned->pid = pid;
    return pid < 0 ? pid : 0;
}

static int spawn(struct spawned *spawned, const struct order *order, struct brig_error *err)
{
    struct launch launch; /* not initialized as a whole: zeroing the stack takes time */
    const struct plan *plan = order->plan;
    struct base_mounts_cache *cache = &order->brig->base_mounts_cache;
    launch.order = *order;
    launch.spawned = spawned;
    memset(&launch.enter, 0, sizeof launch.enter);
    memset(&launch.setup, 0, sizeof launch.setup);
    launch.ends = ENDS_NONE;
    base_mounts_init(&launch.base_mounts);
    launch.control = launch.template = launch.start = launch.guard.pidfd = -1;
    for (size_t i = 0; i < GROUP_DIRS_MAX; i++)
        launch.tasks[i] = -1;
    *spawned = SPAWNED_NONE;
    /* First, because the base mounts are built in parallel with all the rest. */
    int ret = base_mounts_begin(&launch.base_mounts, cache, &plan->cell.view, err);
    if (ret == 0)
        ret = prepare(&launch, err);
    if (ret == 0 && send(spawned->control, &launch.setup, sizeof launch.setup, MSG_NOSIGNAL) < 0)
        ret =
            error_system(err, STAGE, errno, "cannot send the plan to init: %s", error_text(errno));
    if (ret == 0)
        ret = plan->template ? fork_init(&launch, err) : clone_init(&launch, err);
    if (ret == 0)
        group_guard_release(&launch.guard); /* it ends while the rest is done */
    base_mounts_end(&launch.base_mounts, cache, &plan->cell.view, ret == 0);
    fd_close_at(&launch.control);
    fd_close_at(&launch.template);
    spawned->ends[BRIG_STDOUT] = take_fd(&launch.ends.fds[1]);
    spawned->ends[BRIG_STDERR] = take_fd(&launch.ends.fds[2]);
    ends_done(&launch.ends);
    fd_close_at(&launch.start);
    for (size_t i = 0; i < GROUP_DIRS_MAX; i++)
        fd_close_at(&launch.tasks[i]);
    if (ret < 0)
        spawn_done(spawned);
    group_guard_done(&launch.guard);
    return ret;
}

int spawn_start(struct spawned *spawned, struct brig *brig, const struct plan *plan,
                struct ns_helper *helper, struct brig_error *err)
{
    return spawn(spawned, &(struct order){brig, plan, helper, false}, err);
}

int spawn_error(const struct plan *plan, const struct init_report *report, struct brig_error *err)
{
    int errnum = report->errnum > 0 ? report->errnum : EIO;
    if (report->kind == REPORT_FAILED && report->status && report->op < plan->cell.view.count)
        return cell_op_error(&plan->cell.view.ops[report->op], errnum, err);
    if (report->op == REPORT_OP_EXEC)
        return command_exec_error(plan->path, &plan->place, errnum, err);
    if (plan->limits.memory_bytes < MEMORY_TO_START)
        return error_system(err, "start", ENOMEM,
                            "memory: its limit of %llu bytes is too low to start anything",
                            (unsigned long long)plan->limits.memory_bytes);
    char what[400] = "clone";
    if (report->op < plan->op_count)
        plan_describe_op(plan, &plan->ops[report->op], what, sizeof what);
    return error_system(err, "start", errnum, "%s: %s", what, error_text(errnum));
}

/* Wait for the next report. Returns true if it is of this kind. */
static bool is_report(int socket, enum report_kind kind, struct init_report *report)
{
    struct pollfd ready = {.fd = socket, .events = POLLIN};
    uint64_t until = clock_now() + PARK_WITHIN;
    int n;
    do
        n = poll(&ready, 1, 1000);
    while (n <= 0 && clock_now() < until);
    ssize_t len = n > 0 ? recv(socket, report, sizeof *report, MSG_DONTWAIT) : -1;
    return len == sizeof *report && report->kind == kind;
}

int spawn_park(struct spawned *spawned, struct brig *brig, const struct plan *plan,
               struct ns_helper *helper, struct brig_error *err)
{
    struct init_report report = {0};
    int ret = spawn(spawned, &(struct order){brig, plan, helper, true}, err);
    if (ret < 0)
        return ret;
    bool parked =
        is_report(spawned->job >= 0 ? spawned->job : spawned->control, REPORT_PARKED, &report);
    /* A guest that a template forked reports REPORT_PARKED itself; its init then reports that it
     * watches it. */
    if (parked && spawned->job >= 0)
        parked = is_report(spawned->control, REPORT_STARTED, &report);
    if (parked)
        return 0;
    spawn_end(spawned);
    if (report.kind != REPORT_FAILED && plan->limits.memory_bytes >= MEMORY_TO_START)
        return error_system(err, "start", ECHILD,
                            "the cell ended before it could take its command; its memory limit "
                            "may be too low");
    return spawn_error(plan, &report, err);
}

/* Write the head of a job and the strings behind it. Returns the number of bytes, or 0 if it is too
 * large. */
static size_t put_job(char *out, const struct plan *plan)
{
    struct init_job head = {(uint32_t)plan->argv.count - 2, (uint32_t)plan->env.count,
                            (uint32_t)plan->input_len};
    const struct strings *lists[] = {&plan->argv, &plan->env};
    size_t at = sizeof head;
    if (plan->argv.count + plan->env.count + 4 > JOB_WORDS_MAX)
        return 0;
    memcpy(out, &head, sizeof head);
    for (size_t list = 0; list < 2; list++) {
        for (size_t i = list == 0 ? 1 : 0; i < lists[list]->count; i++) {
            size_t len = strlen(lists[list]->items[i]) + 1;
            if (at + len > JOB_SIZE_MAX)
                return 0;
            memcpy(out + at, lists[list]->items[i], len);
            at += len;
        }
    }
    return at;
}

/* Make the stdin of the job, if it is not the one that the cell was parked with. */
static int make_stdin(struct ends *ends, struct spawned *spawned, const struct plan *plan,
                      struct brig_error *err)
{
    if (plan->stdin_fd >= 0)
        return plan->stdin_fd;
    int ret = make_pipe(&ends->fds[0], &spawned->relay, false, err);
    if (ret == 0)
        ret = give_streams(ends, plan, err);
    return ret < 0 ? ret : ends->fds[0];
}

int spawn_job(struct spawned *spawned, const struct plan *plan, struct brig_error *err)
{
    struct ends ends = ENDS_NONE;
    char bytes[JOB_SIZE_MAX];
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec parts[] = {{bytes, put_job(bytes, plan)}, {(void *)plan->input, plan->input_len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (parts[0].iov_len == 0)
        return -E2BIG;
    int ret = 0;
    if (!plan->parked_stdin) {
        int fd = ret = make_stdin(&ends, spawned, plan, err);
        message.msg_control = &control;
        message.msg_controllen = sizeof control.space;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    int socket = spawned->job >= 0 ? spawned->job : spawned->control;
    if (ret >= 0 && sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        ret = error_system(err, STAGE, errno, "cannot send the job: %s", error_text(errno));
    ends_done(&ends);
    return ret < 0 ? ret : 0;
}

bool spawn_is_parked(const struct spawned *spawned)
{
    struct pollfd said = {.fd = spawned->control, .events = POLLIN};
    return poll(&said, 1, 0) == 0; /* init sends nothing until it has its job */
}

void spawn_end(struct spawned *spawned)
{
    struct pollfd gone = {.fd = spawned->pidfd, .events = POLLIN};
    siginfo_t info;
    syscall(SYS_pidfd_send_signal, spawned->pidfd, SIGKILL, NULL, 0);
    while (poll(&gone, 1, END_WITHIN) < 0 && errno == EINTR) {
    }
    waitid(P_PIDFD, (id_t)spawned->pidfd, &info, WEXITED | WNOHANG | __WALL);
    spawn_done(spawned);
}

void spawn_done(struct spawned *spawned)
{
    fd_close_at(&spawned->control);
    fd_close_at(&spawned->job);
    fd_close_at(&spawned->relay);
    fd_close_at(&spawned->streams[BRIG_STDOUT]);
    fd_close_at(&spawned->streams[BRIG_STDERR]);
    fd_close_at(&spawned->ends[BRIG_STDOUT]);
    fd_close_at(&spawned->ends[BRIG_STDERR]);
    fd_close_at(&spawned->channel);
    fd_close_at(&spawned->memory);
    fd_close_at(&spawned->deadline);
    fd_close_at(&spawned->pidfd);
    group_remove(&spawned->group);
    spawn_clear(spawned);
    spawned->pid = -1; /* so that it is not ended a second time */
}

void spawn_forget(struct spawned *spawned)
{
    group_forget(&spawned->group);
    spawned->scratch[0] = 0;
    spawned->pid = -1;
}

int spawn_clear(struct spawned *spawned)
{
    int ret = spawned->scratch[0] ? scratch_remove(spawned->scratch) : 0;
    spawned->scratch[0] = 0;
    return ret;
}
