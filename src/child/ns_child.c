/* Making namespaces beside the supervisor. */
#include "ns_child.h"

#include <linux/errno.h>
#include <linux/futex.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <linux/time_types.h>

#include "sys.h"

#define AF_INET_    2
#define SOCK_DGRAM_ 2
#define WAIT_SLICES 30 /* seconds until what is waited for is given up */

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

/* Other descriptors of the host must not stay open only because this process has a copy. */
static void keep_only(uint32_t fd)
{
    if (fd > 0)
        sys3(__NR_close_range, 0, fd - 1, 0);
    sys3(__NR_close_range, fd + 1, ~0u, 0);
}

static int hold(void *arg)
{
    struct holder *holder = arg;
    char byte;
    keep_only((uint32_t)holder->read_end);
    long ret = 0;
    if (holder->network) {
        ret = sys1(__NR_unshare, CLONE_NEWNET);
        if (ret == 0)
            ret = loopback_up();
    }
    ready_tell(&holder->ready, ret);
    while (sys3(__NR_read, holder->read_end, &byte, 1) == -EINTR) {
    }
    return 0;
}

long holder_start(struct holder *holder, int *pidfd)
{
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_PIDFD | CLONE_NEWUSER,
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .stack = (uint64_t)(uintptr_t)holder->stack,
        .stack_size = sizeof holder->stack,
    };
    return sys_clone_call(&args, hold, holder);
}

long holder_join_network(const struct holder *holder, int pidfd)
{
    long ret = ready_wait(&holder->ready);
    return ret < 0 ? ret : sys2(__NR_setns, pidfd, CLONE_NEWNET);
}
