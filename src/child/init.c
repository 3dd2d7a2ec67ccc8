/* SPDX-License-Identifier: MIT */
/* brig's init: the parent of the guest, a small program without any library.
 *
 *     supervisor ──clone+exec──► init ──clone+exec──► guest ──► its children
 *         ▲                        │
 *         └──── control socket ────┘  setup ►  commands ►  ◄ reports
 *
 * It starts the main process of the guest, adopts every orphan below it (as pid 1 of a pid
 * namespace, otherwise as a subreaper), reports how the main process ended, and then kills all
 * processes that are left. When the supervisor dies, init kills everything at once. It watches both
 * the socket and a pidfd of the supervisor, because a process forked by the supervisor's program
 * may hold a copy of the socket.
 *
 * Init is a separate executable and not a fork of the supervisor, so that starting a run costs the
 * same from a large process as from a small one, and so that the guest cannot reach the
 * supervisor's memory. It stays outside of the run's cgroup: no limit of the guest affects it.
 *
 * argv: "brig-init", the path to execute, the argv of the guest. envp: the environment of the
 * guest. */
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/poll.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/signal.h>
#include <linux/signalfd.h>
#include <linux/time_types.h>
#include <linux/wait.h>

#include <stdbool.h>

#include "job.h"
#include "netcount.h"
#include "protocol.h"
#include "removal.h"
#include "plain_text.h"
#include "tree.h"

/* Defined by the C library but not by the kernel headers. */
#define MSG_DONTWAIT 0x40
#define MSG_NOSIGNAL 0x4000

#define TREE_MAX      8192
#define LINGER_NS     2000000
#define LINGER_ROUNDS 4
#define POLL_FAILURES 16 /* in a row, before init gives up watching */

struct guest {
    const char *path;
    char **argv, **envp;
    const struct init_setup *setup;
    uint32_t failed; /* the failed operation; set by the child, which shares this memory */
    long ret;
    bool joins;    /* the guest joins its cgroup itself, because clone3 is blocked */
    bool orphaned; /* the supervisor died while the guest was parked */
};

static struct init_setup setup;
static struct tree_node tree[TREE_MAX];
static char guest_stack[32768] __attribute__((aligned(16)));
static bool expired; /* init ended the run at the deadline, because the supervisor did not */

/* The compiler emits calls to these two for structs. */
void *memset(void *to, int value, size_t len);
void *memcpy(void *to, const void *from, size_t len);

void *memset(void *to, int value, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((volatile char *)to)[i] = (char)value;
    return to;
}

void *memcpy(void *to, const void *from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

static void block_signals(uint64_t mask)
{
    sys4(__NR_rt_sigprocmask, SIG_SETMASK, &mask, 0, sizeof mask);
}

/* Signals that the supervisor's caller ignored are still ignored here, and would be in the guest.
 * With SIGCHLD ignored, init would not learn that the guest has ended. */
static void default_signals(void)
{
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } action = {0, 0, 0, 0};
    for (int i = 1; i <= 64; i++)
        sys4(__NR_rt_sigaction, i, &action, 0, sizeof action.mask);
}

/* ---- the guest's side of the clone --------------------------------------------------------- */

/* Join the cgroup where clone3 is blocked: only clone3 can clone into a cgroup. */
static long join_group(int dir)
{
    long fd = sys4(__NR_openat, dir, "cgroup.procs", O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    long n = sys3(__NR_write, fd, "0", 1);
    sys1(__NR_close, fd);
    return n < 0 ? n : 0;
}

/* Init waits for this process as for any CLONE_VFORK child, so the process itself has to notice
 * that the supervisor is gone. No code of the guest has run yet. */
static long wait_for_job(struct guest *guest)
{
    const struct init_report parked = {.kind = REPORT_PARKED};
    struct pollfd polls[] = {
        {.fd = SLOT_CONTROL, .events = POLLIN},
        {.fd = SLOT_SUPERVISOR, .events = POLLIN},
    };
    struct job job;
    /* Makes room for a passed file descriptor. */
    long ret = sys3(__NR_close_range, SLOT_CHANNEL + 1, ~0u, 0);
    if (ret == 0)
        ret = sys6(__NR_sendto, SLOT_CONTROL, (long)&parked, sizeof parked, MSG_NOSIGNAL, 0, 0);
    if (ret < 0)
        return ret;
    do
        ret = sys5(__NR_ppoll, polls, 2, 0, 0, 0);
    while (ret == -EINTR);
    ret = ret >= 0 && !polls[1].revents ? job_receive(SLOT_CONTROL, &job) : -ECANCELED;
    guest->orphaned = ret == -ECANCELED;
    if (ret < 0)
        return ret;
    guest->path = job.path;
    guest->argv = job.argv;
    guest->envp = job.envp;
    return 0;
}

/* Keep stdin, stdout and stderr, the result channel in place of the control socket, and after it
 * the socket of a template. All others close at the exec. */
static long keep_descriptors(const struct init_setup *asked)
{
    int next = 3;
    long ret = 0;
    if (asked->channel)
        ret = sys3(__NR_dup3, SLOT_CHANNEL, next++, 0);
    if (ret >= 0 && asked->template)
        ret = sys3(__NR_dup3, SLOT_TEMPLATE, next++, 0);
    return ret < 0 ? ret : sys3(__NR_close_range, next, ~0u, CLOSE_RANGE_CLOEXEC);
}

static int guest_entry(void *arg)
{
    struct guest *guest = arg;
    guest->failed = REPORT_OP_CLONE;
    if (guest->joins)
        guest->ret = join_group(guest->setup->clone_into);
    if (guest->ret < 0)
        return 1;
    guest->ret = op_run(guest->setup->ops, guest->setup->op_count, &guest->failed);
    if (guest->ret < 0)
        return 1;
    if (guest->setup->park) {
        guest->failed = REPORT_OP_JOB;
        guest->ret = wait_for_job(guest);
        if (guest->ret < 0)
            return 1;
    }
    guest->failed = REPORT_OP_EXEC;
    block_signals(0);
    guest->ret = keep_descriptors(guest->setup);
    if (guest->ret == 0)
        guest->ret = sys3(__NR_execve, guest->path, guest->argv, guest->envp);
    return 1;
}

static long start_guest(struct guest *guest)
{
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK,
        .exit_signal = SIGCHLD,
        .stack = (uint64_t)(uintptr_t)guest_stack,
        .stack_size = sizeof guest_stack,
    };
    if (setup.clone_into >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)setup.clone_into;
    }
    long pid = sys_clone_call(&args, guest_entry, guest);
    if (pid == -ENOSYS && setup.clone_into >= 0) {
        args.flags &= ~(uint64_t)CLONE_INTO_CGROUP;
        guest->joins = true;
        pid = sys_clone_call(&args, guest_entry, guest);
    }
    if (pid < 0) {
        guest->failed = REPORT_OP_CLONE;
        guest->ret = pid;
    }
    if (guest->ret == 0 && guest->failed == REPORT_OP_JOB) /* killed while parked */
        guest->ret = -ECANCELED;
    return guest->ret < 0 ? guest->ret : pid;
}

/* ---- reports ------------------------------------------------------------------------------- */

/* Send without blocking: init must not hang on a supervisor that does not read, and the few reports
 * of a run always fit into the socket buffer. */
static void send_report(const struct init_report *report)
{
    for (int round = 0; round < 3; round++) { /* the kernel may be short of memory for a moment */
        if (sys6(__NR_sendto, SLOT_CONTROL, (long)report, sizeof *report,
                 MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0) >= 0)
            return;
    }
}

/* Read the name of a process, which a zombie still has. */
static void read_comm(int pid, char comm[16])
{
    char path[NUMBER_MAX + 16];
    put_text(put_number(put_text(path, "/proc/"), (uint64_t)pid), "/comm");
    comm[0] = 0;
    long fd = sys4(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    long len = sys3(__NR_read, fd, comm, 16);
    sys1(__NR_close, fd);
    if (len < 0)
        len = 0;
    while (len > 0 && (len == 16 || comm[len - 1] == '\n'))
        len--;
    comm[len] = 0;
}

/* Read "max N": the number of forks refused so far. After this the cgroup is held at its size, and
 * later refusals say nothing about the limit. */
static uint64_t forks_refused(void)
{
    char text[32];
    uint64_t count = 0;
    long n = setup.events_fd >= 0 ? sys4(__NR_pread64, setup.events_fd, text, sizeof text, 0) : -1;
    if (n < 5)
        return UINT64_MAX;
    /* NOLINTNEXTLINE(clang-analyzer-core.*): the kernel filled it in */
    for (long i = 4; i < n && text[i] >= '0' && text[i] <= '9'; i++)
        count = count * 10 + (uint64_t)(text[i] - '0');
    return count;
}

/* Count processes where no cgroup counts refused forks. The tree is counted when the main process
 * has ended; the last pid of the namespace tells whether the tree could have reached the limit at
 * all. */
static void count_processes(struct init_report *report)
{
    char text[NUMBER_MAX];
    const int self = (int)sys0(__NR_getpid);
    if (!setup.pids || self != 1)
        return;
    long fd = sys4(__NR_openat, AT_FDCWD, "/proc/sys/kernel/ns_last_pid", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    long n = sys3(__NR_read, fd, text, sizeof text);
    sys1(__NR_close, fd);
    /* NOLINTNEXTLINE(clang-analyzer-core.*): the kernel filled it in */
    for (long i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
        report->pids_made = report->pids_made * 10 + (uint64_t)(text[i] - '0');
    if (report->pids_made <= setup.pids)
        return;
    long count = tree_list(self, tree, TREE_MAX);
    for (long i = 0; i < count; i++)
        report->pids_seen += tree_counts(&tree[i], self);
}

static void report_exit(const siginfo_t *info)
{
    struct init_report report = {
        .kind = REPORT_EXITED,
        .pid = info->si_pid,
        .code = info->si_code,
        .status = info->si_status,
        .expired = expired,
        .forks_refused = forks_refused(),
    };
    count_processes(&report); /* at once, because the other processes may be about to end */
    if (info->si_code != CLD_EXITED)
        read_comm(info->si_pid, report.comm);
    if (setup.counts && info->si_status != 0) {
        report.no_routes = netcount_no_routes();
        report.no_ports = netcount_no_ports();
    }
    send_report(&report);
}

static void report_gone(bool others)
{
    struct rusage usage = {0};
    sys2(__NR_getrusage, RUSAGE_CHILDREN, &usage);
    struct init_report report = {
        .kind = REPORT_GONE,
        .status = others,
        .user_us = (uint64_t)usage.ru_utime.tv_sec * 1000000 + (uint64_t)usage.ru_utime.tv_usec,
        .system_us = (uint64_t)usage.ru_stime.tv_sec * 1000000 + (uint64_t)usage.ru_stime.tv_usec,
        .max_rss_kib = (uint64_t)usage.ru_maxrss,
        .blocks_in = (uint64_t)usage.ru_inblock,
        .blocks_out = (uint64_t)usage.ru_oublock,
    };
    send_report(&report);
}

/* ---- the tree ------------------------------------------------------------------------------ */

/* Returns the number of processes that were signalled, or -errno if the tree cannot be listed. */
static long signal_tree(int self, int signal)
{
    if (self == 1)
        return sys2(__NR_kill, -1, signal); /* every process of the pid namespace except init */
    long count = tree_list(self, tree, TREE_MAX);
    for (long i = 0; i < count; i++)
        tree_signal(&tree[i], self, signal);
    return count;
}

static void terminate_tree(int self, int main_pid)
{
    if (signal_tree(self, SIGTERM) < 0)
        sys2(__NR_kill, -main_pid, SIGTERM);
    /* A stopped process has to run to handle SIGTERM. */
    if (signal_tree(self, SIGCONT) < 0)
        sys2(__NR_kill, -main_pid, SIGCONT);
}

/* Reap the processes that have ended, and report the main process. Returns 1 if there are no
 * children left. */
static int reap(int *main_pid)
{
    for (;;) {
        siginfo_t info;
        info.si_pid = 0;
        long ret = sys5(__NR_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT, 0);
        if (ret == -ECHILD)
            return 1;
        if (ret < 0)
            continue; /* interrupted by a signal */
        if (info.si_pid == 0)
            return 0;
        int pid = info.si_pid;
        if (pid == *main_pid) {
            report_exit(&info);
            *main_pid = 0;
        }
        sys5(__NR_waitid, P_PID, pid, &info, WEXITED | WNOHANG, 0);
    }
}

static void wait_for_child(int signals, int timeout_ms)
{
    char info[128];
    struct pollfd poll = {.fd = signals, .events = POLLIN};
    struct __kernel_timespec timeout = {timeout_ms / 1000, (timeout_ms % 1000) * 1000000L};
    sys5(__NR_ppoll, &poll, 1, &timeout, 0, 0);
    sys3(__NR_read, signals, info, sizeof info);
}

/* Without a cgroup that stops its growth, a tree can fork faster than it is killed. So stop all
 * processes first, until two rounds count the same number. */
static void freeze_tree(int self)
{
    long before = -1;
    for (int round = 0; round < 64; round++) {
        long count = signal_tree(self, SIGSTOP);
        if (count <= 0 || count == before)
            return;
        before = count;
    }
}

static bool kill_tree(int self, int signals, int main_pid)
{
    bool others = false;
    if (setup.kill_fd >= 0)
        sys3(__NR_write, setup.kill_fd, &setup.kill_byte, 1);
    int known = main_pid; /* if /proc is hidden, only its process group can be signalled */
    for (;;) {
        if (self != 1 && setup.kill_fd < 0)
            freeze_tree(self);
        if (signal_tree(self, SIGKILL) < 0 && known > 0)
            sys2(__NR_kill, -known, SIGKILL);
        if (reap(&main_pid))
            return others;
        others = true;
        wait_for_child(signals, 20);
    }
}

/* Drop all capabilities except these. */
static void keep_rights(uint32_t permitted, uint32_t effective)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}};
    if (sys2(__NR_capget, &header, caps) < 0)
        return;
    caps[0].permitted &= permitted;
    caps[0].effective = caps[0].permitted & effective;
    caps[0].inheritable = 0;
    caps[1] = (struct __user_cap_data_struct){0};
    sys2(__NR_capset, &header, caps);
}

/* CAP_KILL, while the guest runs: to signal processes of another user. CAP_DAC_OVERRIDE, at the
 * end: to remove cgroups of root in directories that are not writable. */
#define RIGHT_TO_SIGNAL (UINT32_C(1) << CAP_KILL)
#define RIGHT_TO_REMOVE (UINT32_C(1) << CAP_DAC_OVERRIDE)

static void remove_groups(void)
{
    keep_rights(RIGHT_TO_REMOVE, RIGHT_TO_REMOVE);
    removal_run(&setup);
}

/* True if the supervisor is gone and cannot remove the cgroups. */
static bool is_orphan(void)
{
    struct __kernel_timespec now = {0, 0};
    struct pollfd polls[] = {
        {.fd = SLOT_CONTROL, .events = 0}, /* POLLHUP */
        {.fd = SLOT_SUPERVISOR, .events = POLLIN},
    };
    return sys5(__NR_ppoll, polls, 2, &now, 0, 0) > 0;
}

/* Delay the end of a pooled cell. The kernel needs longer to tear down a cell than the supervisor
 * needs for the rest of a run. If the supervisor leaves the cell to its pool thread, init waits
 * until the pool thread sends INIT_KILL, or for two milliseconds, and holds the memory of the run
 * meanwhile. Returns true if the supervisor is gone. */
static bool linger(void)
{
    struct __kernel_timespec timeout = {0, LINGER_NS};
    struct pollfd polls[] = {
        {.fd = SLOT_CONTROL, .events = POLLIN},
        {.fd = SLOT_SUPERVISOR, .events = POLLIN},
    };
    for (int round = 0; round < LINGER_ROUNDS; round++) {
        char command = 0;
        long ready = sys5(__NR_ppoll, polls, 2, &timeout, 0, 0);
        if (ready == 0)
            return false;
        if (ready < 0)
            continue;
        long n = sys6(__NR_recvfrom, SLOT_CONTROL, (long)&command, 1, MSG_DONTWAIT, 0, 0);
        if (n == 0 || polls[1].revents)
            return true;
        if (n == 1 && command == INIT_KILL)
            return false;
    }
    return false;
}

/* ---- main ---------------------------------------------------------------------------------- */

static long receive_setup(void)
{
    long n;
    do
        n = sys6(__NR_recvfrom, SLOT_CONTROL, (long)&setup, sizeof setup, 0, 0, 0);
    while (n == -EINTR);
    return n == (long)sizeof setup ? 0 : -1;
}

static int open_child_signals(void)
{
    uint64_t mask = UINT64_C(1) << (SIGCHLD - 1);
    return (int)sys4(__NR_signalfd4, -1, &mask, sizeof mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Serve until the main process has ended or has to end. Returns 1 if the supervisor is dead. */
static int serve(int self, int signals, int *main_pid)
{
    for (int failures = 0;;) {
        char info[128], command = 0;
        struct pollfd polls[] = {
            {.fd = signals, .events = POLLIN},
            {.fd = SLOT_CONTROL, .events = POLLIN},
            {.fd = SLOT_SUPERVISOR, .events = POLLIN},
            {.fd = SLOT_DEADLINE, .events = POLLIN},
        };
        long ready = sys5(__NR_ppoll, polls, 4, 0, 0, 0);
        failures = ready < 0 ? failures + 1 : 0;
        if (polls[2].revents || failures > POLL_FAILURES)
            return 1; /* a run that cannot be watched must end */
        if (ready < 0)
            continue;
        if (polls[0].revents) {
            sys3(__NR_read, signals, info, sizeof info);
            reap(main_pid);
        }
        if (*main_pid == 0)
            return 0;
        /* The supervisor did not end the run at its deadline: it is stopped, or does not get CPU
         * time. */
        expired = polls[3].revents != 0;
        if (expired)
            return 0;
        if (!polls[1].revents)
            continue;
        long n = sys6(__NR_recvfrom, SLOT_CONTROL, (long)&command, 1, MSG_DONTWAIT, 0, 0);
        if (n == 0)
            return 1;
        if (n == 1 && command == INIT_TERMINATE)
            terminate_tree(self, *main_pid);
        if (n == 1 && command == INIT_STOP)
            freeze_tree(self);
        if (n == 1 && command == INIT_CONTINUE)
            signal_tree(self, SIGCONT);
        if (n == 1 && command == INIT_KILL)
            return 0;
    }
}

/* Signals sent to init are charged to its user, up to init's own limit. */
static void bound_signals(void)
{
    struct rlimit64 limit = {64, 64};
    sys4(__NR_prlimit64, 0, RLIMIT_SIGPENDING, &limit, 0);
}

static int init_main(char **argv, char **envp)
{
    /* The guest may run as the same user. Without this it could trace init, or take the socket with
     * pidfd_getfd and forge its own exit status. */
    sys5(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    sys5(__NR_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    sys5(__NR_prctl, PR_SET_NAME, "brig-init", 0, 0, 0);
    default_signals();
    block_signals(~UINT64_C(0));
    int signals = open_child_signals();
    if (signals < 0 || receive_setup() < 0)
        return 1;
    int self = (int)sys0(__NR_getpid);
    struct guest guest = {.path = argv[1], .argv = argv + 2, .envp = envp, .setup = &setup};
    long pid = setup.forked ? FORKED_PID : start_guest(&guest);
    keep_rights(RIGHT_TO_SIGNAL | RIGHT_TO_REMOVE, RIGHT_TO_SIGNAL);
    bound_signals();
    /* The guest has its own copies. Copies in init would keep its pipes open. */
    for (int fd = SLOT_STDIN; fd <= SLOT_STDERR; fd++)
        sys1(__NR_close, fd);
    sys1(__NR_close, SLOT_CHANNEL);
    sys1(__NR_close, SLOT_MEMORY);
    sys1(__NR_close, SLOT_TEMPLATE);
    if (pid < 0) {
        struct init_report report = {
            .kind = REPORT_FAILED, .op = guest.failed, .errnum = (int32_t)-guest.ret};
        send_report(&report);
        sys5(__NR_waitid, P_ALL, 0, 0, WEXITED, 0); /* reap the child that failed before its exec */
        if (guest.orphaned || is_orphan())
            remove_groups();
        return 0;
    }
    struct init_report started = {.kind = REPORT_STARTED, .pid = (int32_t)pid};
    send_report(&started);
    int main_pid = (int)pid;
    if (setup.forked)
        reap(&main_pid); /* it may have ended before the signalfd existed */
    int orphaned = main_pid ? serve(self, signals, &main_pid) : 0;
    bool killed = main_pid != 0; /* then the supervisor waits for init to exit */
    report_gone(kill_tree(self, signals, main_pid));
    if (!orphaned && !killed && setup.park)
        orphaned = linger();
    if (orphaned)
        remove_groups();
    return 0;
}

/* The kernel starts a program with argc on top of the stack. */
__attribute__((used)) static void init_start(long *stack)
{
    char **argv = (char **)(stack + 1);
    char **envp = argv + stack[0] + 1;
    sys1(__NR_exit_group, init_main(argv, envp));
    __builtin_unreachable();
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\t"
        "call init_start\n\thlt\n");
#else
__asm__(".globl _start\n_start:\n\tmov x29, xzr\n\tmov x0, sp\n\tbl init_start\n\tbrk #1\n");
#endif
