/* SPDX-License-Identifier: MIT */
/* The namespace helper: creates namespaces in parallel to the supervisor. */
#include "ns_child.h"

#include <linux/errno.h>
#include <linux/futex.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <linux/time_types.h>

#include "sys.h"

#define AF_INET_    2
#define SOCK_DGRAM_ 2
#define WAIT_SLICES 30 /* seconds until a wait gives up */

long loopback_up(void)
{
    struct ifreq request = {.ifr_flags = IFF_UP};
    request.ifr_name[0] = 'l';
    request.ifr_name[1] = 'o';
    long fd = sys3(__NR_socket, AF_INET_, SOCK_DGRAM_, 0);
    if (fd < 0)
        return fd;
    long ret = sys3(__NR_ioctl, fd, SIOCSIFFLAGS, &request);
    sys1(__NR_close, fd);
    return ret;
}

void ready_tell(int32_t *ready, long ret)
{
    __atomic_store_n(ready, ret < 0 ? (int32_t)ret : 1, __ATOMIC_RELEASE);
    sys6(__NR_futex, (long)ready, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

long ready_wait(const int32_t *ready)
{
    struct __kernel_timespec second = {.tv_sec = 1};
    int32_t told = 0;
    for (int i = 0; i < WAIT_SLICES && told == 0; i++) {
        told = __atomic_load_n(ready, __ATOMIC_ACQUIRE);
        if (told == 0)
            sys6(__NR_futex, (long)ready, FUTEX_WAIT_PRIVATE, 0, (long)&second, 0, 0);
    }
    if (told < 0)
        return told;
    return told == 0 ? -ETIMEDOUT : 0;
}

/* Close all other file descriptors of the host: a copy in this process would keep them open. */
static void keep_only(uint32_t fd)
{
    if (fd > 0)
        sys3(__NR_close_range, 0, fd - 1, 0);
    sys3(__NR_close_range, fd + 1, ~0u, 0);
}

static int hold(void *arg)
{
    struct ns_child *helper = arg;
    char byte;
    keep_only((uint32_t)helper->read_end);
    long ret = 0;
    if (helper->network) {
        ret = sys1(__NR_unshare, CLONE_NEWNET);
        if (ret == 0)
            ret = loopback_up();
    }
    ready_tell(&helper->ready, ret);
    while (sys3(__NR_read, helper->read_end, &byte, 1) == -EINTR) {
    }
    return 0;
}

long ns_child_start(struct ns_child *helper, int *pidfd)
{
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_PIDFD | CLONE_NEWUSER,
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .stack = (uint64_t)(uintptr_t)helper->stack,
        .stack_size = sizeof helper->stack,
    };
    return sys_clone_call(&args, hold, helper);
}

long ns_child_join_network(const struct ns_child *helper, int pidfd)
{
    long ret = ready_wait(&helper->ready);
    return ret < 0 ? ret : sys2(__NR_setns, pidfd, CLONE_NEWNET);
}
