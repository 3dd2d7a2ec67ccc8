/* SPDX-License-Identifier: MIT */
/* Owns the epoll set of a run: adds and removes the file descriptors that it waits for. */
#include <errno.h>
#include <sys/epoll.h>

#include "run.h"

int run_poll(struct brig_run *run, enum run_source source, int fd, uint32_t events)
{
    if (run->sources.polled[source])
        return 0;
    struct epoll_event event = {.events = events, .data.u32 = source};
    if (epoll_ctl(run->sources.epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        return -errno;
    run->sources.polled[source] = true;
    return 0;
}

void run_unpoll(struct brig_run *run, enum run_source source, int fd)
{
    if (run->sources.polled[source])
        epoll_ctl(run->sources.epoll, EPOLL_CTL_DEL, fd, NULL);
    run->sources.polled[source] = false;
}

void run_reap_helper(struct brig_run *run)
{
    run_unpoll(run, SOURCE_HELPER, run->helper.pidfd);
    ns_helper_done(&run->helper);
}
