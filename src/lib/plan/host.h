/* struct brig: what a process needs to start runs. */
#ifndef LIB_HOST_H
#define LIB_HOST_H

#include "lib/cell/base_mounts.h"
#include "brig.h"
#include "lib/cgroup/group.h"
#include "lib/spec/operator.h"

struct brig {
    struct group_place place;
    struct operator_limits maxima;
    char no_cell[256]; /* why no cell could be built for the latest run; empty: it could */
    uint64_t file_max; /* open files that the machine can have, for all that is not root's */
    int init;          /* sealed memory file with brig's init */
    int pidfd;         /* of this process, for init to watch */
    struct grounds grounds;
    struct pool *pool; /* cells built ahead; NULL: none are */
    int pid;           /* that opened it: a fork of it gets its own pidfd */
};

/* In a fork of the process that opened it, make the handle the fork's own. Returns 0 or -errno. */
int host_adopt(struct brig *brig, struct brig_error *err);

#endif
