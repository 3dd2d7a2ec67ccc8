/* SPDX-License-Identifier: MIT */
/* Turns a fork of a template into the init and the guest of a cell. */
#include "fork.h"

#include <linux/close_range.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/signal.h>
#include <linux/wait.h>

#include "place.h"
#include "sys.h"

#define MSG_NOSIGNAL 0x4000

#define STACK_SIZE 4096

/* The values with which every version of the C library registers its rseq area. */
#define RSEQ_SIZE 32
#if defined(__x86_64__)
#define RSEQ_SIGNATURE 0x53053053
#else
#define RSEQ_SIGNATURE 0xd428bc00
#endif

/* ---- from fork to guest -------------------------------------------------------------------- */

static int leave(void *arg)
{
    return 0;
}

/* Create a process only to use up pid 2. */
static long skip_number(void)
{
    static char stack[STACK_SIZE] __attribute__((aligned(16)));
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK,
        .exit_signal = SIGCHLD,
        .stack = (uint64_t)(uintptr_t)stack,
        .stack_size = sizeof stack,
    };
    long pid = sys_clone_call(&args, leave, 0);
    return pid < 0 ? pid : sys4(__NR_wait4, pid, 0, __WALL, 0);
}

/* Clone a process that shares our memory, then leave this memory to it by an exec of init. The
 * child keeps the memory and the current stack, and nothing is copied. This is assembly because the
 * parent may not touch memory between the two calls. Returns only in the child. If the exec fails,
 * the parent exits, which ends the pid namespace. */
static void leave_memory_to_child(int *thread_id, int image, const char *path, char *const *argv,
                                  char *const *envp)
{
    long flags = CLONE_VM | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
    if (!thread_id)
        flags = CLONE_VM | SIGCHLD;
#if defined(__x86_64__)
    register long rax __asm__("rax") = __NR_clone;
    register long rdi __asm__("rdi") = flags;
    register long rsi __asm__("rsi") = 0; /* the current stack */
    register long rdx __asm__("rdx") = 0;
    register void *r10 __asm__("r10") = thread_id;
    register long r8 __asm__("r8") = 0;
    register long r12 __asm__("r12") = image;
    register const char *r13 __asm__("r13") = path;
    register char *const *r14 __asm__("r14") = argv;
    register char *const *r15 __asm__("r15") = envp;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jz 1f\n\t"
                     "js 2f\n\t"
                     "mov %%r12, %%rdi\n\t"
                     "mov %%r13, %%rsi\n\t"
                     "mov %%r14, %%rdx\n\t"
                     "mov %%r15, %%r10\n\t"
                     "mov %[empty], %%r8d\n\t"
                     "mov %[exec], %%eax\n\t"
                     "syscall\n"
                     "2:\tmov $1, %%edi\n\t"
                     "mov %[exit], %%eax\n\t"
                     "syscall\n\t"
                     "ud2\n"
                     "1:"
                     : "+r"(rax), "+r"(rdi), "+r"(rsi), "+r"(rdx), "+r"(r10), "+r"(r8)
                     : "r"(r12), "r"(r13), "r"(r14), "r"(r15), [empty] "i"(AT_EMPTY_PATH),
                       [exec] "i"(__NR_execveat), [exit] "i"(__NR_exit_group)
                     : "rcx", "r11", "memory", "cc");
#else
    register long x8 __asm__("x8") = __NR_clone;
    register long x0 __asm__("x0") = flags;
    register long x1 __asm__("x1") = 0;
    register long x2 __asm__("x2") = 0;
    register long x3 __asm__("x3") = 0;
    register void *x4 __asm__("x4") = thread_id;
    register long x9 __asm__("x9") = image;
    register const char *x10 __asm__("x10") = path;
    register char *const *x11 __asm__("x11") = argv;
    register char *const *x12 __asm__("x12") = envp;
    __asm__ volatile("svc #0\n\t"
                     "cbz x0, 1f\n\t"
                     "tbnz x0, #63, 2f\n\t"
                     "mov x0, x9\n\t"
                     "mov x1, x10\n\t"
                     "mov x2, x11\n\t"
                     "mov x3, x12\n\t"
                     "mov x4, %[empty]\n\t"
                     "mov x8, %[exec]\n\t"
                     "svc #0\n"
                     "2:\tmov x0, #1\n\t"
                     "mov x8, %[exit]\n\t"
                     "svc #0\n\t"
                     "brk #1\n"
                     "1:"
                     : "+r"(x8), "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3), "+r"(x4)
                     : "r"(x9), "r"(x10), "r"(x11), "r"(x12), [empty] "i"(AT_EMPTY_PATH),
                       [exec] "i"(__NR_execveat), [exit] "i"(__NR_exit_group)
                     : "memory", "cc");
#endif
}

/* ---- init's part --------------------------------------------------------------------------- */

static void tell(const struct init_report *report)
{
    sys6(__NR_sendto, SLOT_TEMPLATE, (long)report, sizeof *report, MSG_NOSIGNAL, 0, 0);
}

static void fail(uint32_t op, long ret, bool of_cell)
{
    const struct init_report report = {
        .kind = REPORT_FAILED, .op = op, .errnum = (int32_t)-ret, .status = of_cell};
    tell(&report);
    sys1(__NR_exit_group, 1);
}

/* The template ignores SIGCHLD so that it need not reap its forks. Init and the guest need the
 * default. */
static void default_child_signal(void)
{
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } action = {0, 0, 0, 0};
    sys4(__NR_rt_sigaction, SIGCHLD, &action, 0, sizeof action.mask);
}

static void build_cell(struct fork_call *call)
{
    static int scratch[SLOT_MAX + 1];
    const struct fork_request *request = call->request;
    const struct cell_way alone = {.base_mounts = -1};
    uint32_t failed = 0;
    default_child_signal();
    long ret = place_fds(call->fds, scratch, request->slot_count, &call->fds[request->slot_count]);
    /* The forks inherit none of the file descriptors that the template has open, not even until the
     * exec. */
    if (ret == 0)
        ret = sys3(__NR_dup3, call->fds[request->slot_count], request->slot_count, O_CLOEXEC);
    if (ret >= 0)
        ret = sys3(__NR_close_range, request->slot_count + 1, ~0u, 0);
    if (ret < 0)
        sys1(__NR_exit_group, 1); /* there is no socket yet to report on */
    ret = cell_run(call->ops, request->cell_op_count, CELL_PART_RUN, &alone, &failed);
    if (ret < 0)
        fail(failed, ret, true);
    ret = skip_number();
    if (ret < 0)
        fail(REPORT_OP_CLONE, ret, false);
}

/* ---- the guest's part ---------------------------------------------------------------------- */

/* Keep stdin, stdout and stderr, the result channel and the memory file, and the socket that the
 * job arrives on. The guest continues in code that the template loaded, which must not reach init's
 * sockets and cgroups. */
static long keep_descriptors(bool channel)
{
    long next = 3, ret = channel ? sys3(__NR_dup3, SLOT_CHANNEL, GUEST_CHANNEL, 0) : 0;
    if (channel)
        next = GUEST_CHANNEL + 1;
    /* Below its limit of open files the guest may have no room for it, and can do without. */
    if (channel && sys3(__NR_dup3, SLOT_MEMORY, GUEST_MEMORY, O_CLOEXEC) >= 0)
        next = GUEST_MEMORY + 1;
    if (ret >= 0)
        ret = sys3(__NR_close_range, next, SLOT_TEMPLATE - 1, 0);
    return ret < 0 ? ret : sys3(__NR_close_range, SLOT_TEMPLATE + 1, ~0u, 0);
}

static void become_guest(struct fork_call *call)
{
    const struct fork_request *request = call->request;
    uint32_t failed = REPORT_OP_CLONE;
    long ret = sys0(__NR_getpid) == FORKED_PID ? 0 : -ECHILD;
    if (ret == 0 && call->robust)
        sys2(__NR_set_robust_list, call->robust, call->robust_size);
    /* The kernel treats a clone that shares memory as a thread, which has to register its own rseq
     * area. */
    if (ret == 0 && call->rseq)
        ret = sys4(__NR_rseq, call->rseq, RSEQ_SIZE, 0, RSEQ_SIGNATURE);
    if (ret == 0)
        ret = op_run(request->ops, request->op_count, &failed);
    if (ret == 0) {
        failed = REPORT_OP_JOB;
        ret = keep_descriptors(request->channel);
    }
    if (ret < 0)
        fail(failed, ret, false);
}

void fork_wait(struct fork_call *call)
{
    const struct init_report parked = {.kind = REPORT_PARKED};
    tell(&parked);
    long ret = job_receive(SLOT_TEMPLATE, &call->job);
    if (ret == 0)
        ret = sys1(__NR_close, SLOT_TEMPLATE);
    if (ret < 0)
        sys1(__NR_exit_group, 1);
}

long fork_call(struct fork_call *call, int *pidfd)
{
    static char *argv[] = {(char *)"brig-init", 0}, *envp[] = {0};
    struct clone_args args = {
        .flags = CLONE_PIDFD | call->request->clone_flags,
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
    };
    long pid = sys2(__NR_clone3, &args, sizeof args);
    if (pid == -ENOSYS)
        pid = sys5(__NR_clone, args.flags | SIGCHLD, 0, pidfd, 0, 0);
    if (pid != 0)
        return pid;
    build_cell(call);
    leave_memory_to_child(call->thread_id, (int)call->request->slot_count, "", argv, envp);
    become_guest(call);
    return 0;
}
