/* SPDX-License-Identifier: MIT */
/* Starts, maps and ends the namespace helper. ns_helper.h has the interface; src/child/ns_child.c
 * is the code that runs in the helper. */
#include "ns_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

#define STAGE "cell"

static int write_map(pid_t pid, const char *file, const char *text)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return fd_write_file(AT_FDCWD, path, text);
}

/* Move the helper off our CPU: a new process may be queued behind us, and would begin only when we
 * wait. */
static void move_away(int pid)
{
    cpu_set_t set;
    unsigned here = 0;
    if (syscall(SYS_getcpu, &here, NULL, NULL) < 0 || here >= CPU_SETSIZE ||
        sched_getaffinity(0, sizeof set, &set) < 0)
        return;
    CPU_CLR(here, &set);
    if (CPU_COUNT(&set) > 0)
        sched_setaffinity(pid, sizeof set, &set);
}

int ns_helper_start(struct ns_helper *helper, bool network, struct brig_error *err)
{
    int ends[2];
    *helper = NS_HELPER_NONE;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_system(err, STAGE, errno, "cannot make a pipe: %s", error_text(errno));
    helper->child.read_end = ends[0];
    helper->child.write_end = ends[1];
    helper->child.network = network;
    /* No signal handler of the host program may run in the helper. */
    uint64_t all = ~UINT64_C(0), before;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    long pid = ns_child_start(&helper->child, &helper->pidfd);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    close(ends[0]);
    if (pid < 0) {
        helper->pidfd = -1; /* a failed clone may have stored a number that is closed again */
        close(ends[1]);
        return error_system(err, STAGE, (int)-pid, "cannot make a user namespace: %s",
                            error_text((int)-pid));
    }
    helper->pid = (int)pid;
    if (network)
        move_away(helper->pid);
    return 0;
}

int ns_helper_map(struct ns_helper *helper, uint64_t guest_uid, struct brig_error *err)
{
    char map[48], path[48];
    snprintf(map, sizeof map, "0 %" PRIu64 " 1", guest_uid);
    snprintf(path, sizeof path, "/proc/%d/ns/user", helper->pid);
    int ret = write_map(helper->pid, "uid_map", map);
    if (ret == 0)
        ret = write_map(helper->pid, "gid_map", map);
    if (ret == 0) {
        helper->user = open(path, O_RDONLY | O_CLOEXEC);
        ret = helper->user < 0 ? -errno : 0;
    }
    if (ret < 0)
        return error_system(err, STAGE, -ret, "cannot map ids into a user namespace: %s",
                            error_text(-ret));
    return 0;
}

/* Closing our end of the pipe ends the helper if the signal does not. */
void ns_helper_release(struct ns_helper *helper)
{
    if (helper->pidfd < 0)
        return;
    fd_close_at(&helper->child.write_end);
    fd_close_at(&helper->user);
    syscall(SYS_pidfd_send_signal, helper->pidfd, SIGKILL, NULL, 0);
}

bool ns_helper_is_gone(struct ns_helper *helper)
{
    siginfo_t info = {0};
    if (helper->pidfd < 0)
        return true;
    if (waitid(P_PIDFD, (id_t)helper->pidfd, &info, WEXITED | WNOHANG | __WALL) == 0 &&
        info.si_pid == 0)
        return false;
    fd_close_at(&helper->pidfd);
    return true;
}

void ns_helper_done(struct ns_helper *helper)
{
    siginfo_t info;
    if (helper->pidfd < 0)
        return;
    ns_helper_release(helper);
    while (waitid(P_PIDFD, (id_t)helper->pidfd, &info, WEXITED | __WALL) < 0 && errno == EINTR) {
    }
    fd_close_at(&helper->pidfd);
}
