/* SPDX-License-Identifier: MIT */
/* Starts and ends the guard of a run's cgroups, for group.c and spawn.c. */
#include "group_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "group.h"

#define STAGE "cgroup"

int group_guard_start(struct group_guard *guard, const struct group_place *place, const char *name,
                      struct brig_error *err)
{
    int ends[2];
    guard->pidfd = -1;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_system(err, STAGE, errno, "cannot make a pipe: %s", error_text(errno));
    memcpy(guard->guard.parents, place->dirs, sizeof place->dirs);
    memcpy(guard->guard.name, name, sizeof guard->guard.name);
    guard->guard.count = (uint32_t)place->count;
    guard->guard.read_end = ends[0];
    guard->guard.write_end = ends[1];
    uint64_t all = ~UINT64_C(0), before; /* signal handlers of the host must not run in it */
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    long pid = guard_start(&guard->guard, &guard->pidfd);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    close(ends[0]);
    if (pid >= 0)
        return 0;
    guard->pidfd = -1; /* the kernel may have written a stale number */
    close(ends[1]);
    return error_system(err, STAGE, (int)-pid, "cannot start the guard of the cgroups: %s",
                        error_text((int)-pid));
}

/* The signal arrives before the guard can see the end of the pipe. */
void group_guard_release(struct group_guard *guard)
{
    if (guard->pidfd < 0)
        return;
    syscall(SYS_pidfd_send_signal, guard->pidfd, SIGKILL, NULL, 0);
    fd_close_at(&guard->guard.write_end);
}

void group_guard_done(struct group_guard *guard)
{
    siginfo_t info;
    if (guard->pidfd < 0)
        return;
    group_guard_release(guard);
    while (waitid(P_PIDFD, (id_t)guard->pidfd, &info, WEXITED | __WALL) < 0 && errno == EINTR) {
    }
    fd_close_at(&guard->pidfd);
}
