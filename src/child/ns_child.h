/* The holder: a process that makes, beside the supervisor, what takes long to make: the network
 * namespace of a run, and the user namespace that gives the caller's files to the guest. It shares
 * the supervisor's memory and makes raw system calls on memory prepared before, nothing else. */
#ifndef CHILD_HOLDER_H
#define CHILD_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

struct holder {
    int read_end, write_end; /* a pipe: the holder ends when nobody else holds the write end */
    bool network;            /* make a network namespace with loopback up */
    int32_t ready;           /* a futex: 0 not yet, 1 the namespaces are there, or -errno */
    char stack[8192] __attribute__((aligned(16)));
};

/* Start it, in a new user namespace; returns its pid with *pidfd set, or -errno. Signals must be
 * blocked, and `holder` must outlive it. */
long holder_start(struct holder *holder, int *pidfd);

/* Become part of its network namespace, as soon as that is there. Returns 0 or -errno. */
long holder_join_network(const struct holder *holder, int pidfd);

/* A word in shared memory that is 0 until the one side tells 1 or -errno; the other waits for it,
 * at most half a minute, and gets 0 or -errno. */
void ready_tell(int32_t *ready, long ret);
long ready_wait(const int32_t *ready);

/* Bring the loopback device of the caller's network namespace up. */
long loopback_up(void);

#endif
