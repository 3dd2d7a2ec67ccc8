/* SPDX-License-Identifier: MIT */
/* The namespace helper: a process that creates the slow namespaces of a run in parallel to the
 * supervisor: the network namespace, and the user namespace that maps the caller's files to the
 * guest. It shares the supervisor's memory and may only make raw system calls on memory that was
 * prepared before. */
#ifndef CHILD_NS_CHILD_H
#define CHILD_NS_CHILD_H

#include <stdbool.h>
#include <stdint.h>

struct ns_child {
    int read_end,
        write_end; /* ends of a pipe: the helper exits when no other process holds the write end */
    bool network;  /* create a network namespace and bring its loopback device up */
    int32_t ready; /* a futex: 0 while working, 1 when the namespaces exist, or -errno */
    char stack[8192] __attribute__((aligned(16)));
};

/* Start the helper in a new user namespace. Returns its pid with *pidfd set, or -errno. Signals
 * must be blocked, and `helper` must outlive the process. */
long ns_child_start(struct ns_child *helper, int *pidfd);

/* Wait for the network namespace of the helper and join it. Returns 0 or -errno. */
long ns_child_join_network(const struct ns_child *helper, int pidfd);

/* A word in shared memory that is 0 until one side sets it to 1 or -errno with ready_tell(). The
 * other side waits for it with ready_wait(), at most 30 seconds, and gets 0 or -errno. */
void ready_tell(int32_t *ready, long ret);
long ready_wait(const int32_t *ready);

/* Bring the loopback device of the current network namespace up. */
long loopback_up(void);

#endif
