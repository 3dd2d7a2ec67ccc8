/* SPDX-License-Identifier: MIT */
/* Raw system calls, for code that must not use libc: the code between clone and exec in a process
 * that shares its memory with a multithreaded host, and init, which has no libc at all.
 *
 * Every function returns the value of the kernel: a result, or -errno. */
#ifndef CHILD_SYS_H
#define CHILD_SYS_H

#include <stddef.h>
#include <stdint.h>

#include <asm/unistd.h>
#include <linux/sched.h>

#if defined(__x86_64__)
static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
    long ret;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return ret;
}
#elif defined(__aarch64__)
static inline long sys6(long nr, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
#error "brig knows the system calls of x86-64 and aarch64"
#endif

#define sys5(nr, a, b, c, d, e) sys6(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define sys4(nr, a, b, c, d)    sys5(nr, a, b, c, d, 0)
#define sys3(nr, a, b, c)       sys4(nr, a, b, c, 0)
#define sys2(nr, a, b)          sys3(nr, a, b, 0)
#define sys1(nr, a)             sys2(nr, a, 0)
#define sys0(nr)                sys1(nr, 0)

/* clone or clone3 with a new stack for the child. C cannot express this, because the child must not
 * return into the frame of its parent. The child calls entry(arg) and exits with its return value.
 */
static inline long sys_clone_raw(long nr, long a, long b, long c, int (*entry)(void *), void *arg)
{
#if defined(__x86_64__)
    long ret;
    register long r10 __asm__("r10") = 0;
    register long r8 __asm__("r8") = 0;
    register void *r9 __asm__("r9") = (void *)entry;
    register void *r12 __asm__("r12") = arg;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r12, %%rdi\n\t"
                     "call *%%r9\n\t"
                     "mov %%eax, %%edi\n\t"
                     "mov %[exit], %%eax\n\t"
                     "syscall\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9),
                       "r"(r12), [exit] "i"(__NR_exit_group)
                     : "rcx", "r11", "memory", "cc");
    return ret;
#else
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = 0;
    register long x4 __asm__("x4") = 0;
    register void *x10 __asm__("x10") = (void *)entry;
    register void *x11 __asm__("x11") = arg;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, x11\n\t"
                     "blr x10\n\t"
                     "mov x8, %[exit]\n\t"
                     "svc #0\n\t"
                     "brk #1\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x10),
                       "r"(x11), [exit] "i"(__NR_exit_group)
                     : "memory", "cc", "x30");
    return x0;
#endif
}

/* Clone a process that runs entry(arg) on its own stack. With CLONE_VM|CLONE_VFORK in args->flags
 * this returns when the child has called exec or exit. Container runtimes block clone3 with ENOSYS,
 * because their seccomp filters cannot inspect its arguments; then clone is used, which cannot
 * clone into a cgroup. */
static inline long sys_clone_call(struct clone_args *args, int (*entry)(void *), void *arg)
{
    long pid = sys_clone_raw(__NR_clone3, (long)args, sizeof *args, 0, entry, arg);
    if (pid != -38 /* ENOSYS */ || (args->flags & CLONE_INTO_CGROUP))
        return pid;
    return sys_clone_raw(__NR_clone, (long)(args->flags | args->exit_signal),
                         (long)(args->stack + args->stack_size), (long)args->pidfd, entry, arg);
}

#endif
