/* SPDX-License-Identifier: MIT */
/* The guard: a process that removes the cgroups of a run if the supervisor is killed after it
 * created them and before init received them. It shares the supervisor's memory and keeps its
 * privileges, because only these can write to the root of a cgroup v1 hierarchy. It may only make
 * raw system calls on memory that was prepared before. */
#ifndef CHILD_GUARD_H
#define CHILD_GUARD_H

#include <stdint.h>

#include "protocol.h"

struct guard {
    int parents[INIT_GROUPS_MAX]; /* the directories that contain the cgroups */
    uint32_t count;
    char name[GROUP_NAME_SIZE];
    int read_end, write_end; /* ends of a pipe: end of file means that the supervisor is gone */
    char stack[4096] __attribute__((aligned(16)));
};

/* Start the guard, before the cgroups are created. Returns its pid with *pidfd set, or -errno.
 * Signals must be blocked, and `guard` must outlive the process. SIGKILL ends it without removing
 * anything. */
long guard_start(struct guard *guard, int *pidfd);

#endif
