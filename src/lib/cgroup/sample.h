/* What a process tree uses, read from /proc: the stand-in where there is no cgroup. */
#ifndef LIB_SAMPLE_H
#define LIB_SAMPLE_H

#include <stdint.h>

struct sample {
    uint64_t memory_bytes;               /* proportional where it matters, see sample_tree() */
    uint64_t pids;                       /* processes and threads */
    uint64_t cpu_user_ns, cpu_system_ns; /* of those alive, with the children they waited for */
};

/* Everything below `root`. Shared pages are counted once per process (RSS) as long as that sum is
 * below `exact_from`; from there on the exact, slower figure (PSS) is read. 0 or -errno. */
int sample_tree(int root, uint64_t exact_from, struct sample *out);

#endif
