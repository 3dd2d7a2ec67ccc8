/* SPDX-License-Identifier: MIT */
/* The usage of a process tree, read from /proc: the replacement where there is no cgroup. */
#ifndef LIB_SAMPLE_H
#define LIB_SAMPLE_H

#include <stdint.h>

struct sample {
    /* Proportional set size if it matters, see sample_tree(). */
    uint64_t memory_bytes;
    uint64_t pids;                       /* processes and threads */
    uint64_t cpu_user_ns, cpu_system_ns; /* of live processes, with the children they waited for */
};

/* Sample every process below `root`. Shared pages are counted once per process (RSS) as long as the
 * sum is below `exact_from`; above that, the exact but slower figure (PSS) is read. Returns 0 or
 * -errno. */
int sample_tree(int root, uint64_t exact_from, struct sample *out);

#endif
