/* The ground of a cell, which is the same for many runs (child/ground.h): one that is kept, if it
 * fits, or one that a builder makes beside the supervisor. */
#ifndef LIB_GROUND_H
#define LIB_GROUND_H

#include <pthread.h>

#include "brig.h"
#include "view.h"

/* What a handle keeps: at most one ground, and what it was made from. Runs and the keeper of the
 * pool use it. */
struct grounds {
    pthread_mutex_t lock;
    int mounts;      /* the mount namespace; -1: none is kept */
    int host_mounts; /* tells when the host's mounts have changed */
    uint64_t host;   /* the mount namespace whose they are */
    uint64_t made_at;
    struct cell_op *ops; /* of the ground alone */
    uint32_t op_count;
    struct strings text;       /* what they point at */
    unsigned misses, patience; /* runs in a row that it did not fit; how many are waited for */
};

/* The ground of one run, while that is set up. */
struct ground {
    int mounts;      /* -1: the run needs none */
    bool copy;       /* it is kept for others */
    bool built;      /* for this run, by the builder */
    int pidfd;       /* of the builder; -1 */
    int host_mounts; /* it is to be kept: what told of changes since before it was begun */
    uint64_t host;
    struct builder builder;
};

void grounds_init(struct grounds *grounds);
void grounds_done(struct grounds *grounds);
/* In a fork of the process, in which the lock may be held by a thread that is not there. */
void grounds_adopt(struct grounds *grounds);

void ground_init(struct ground *ground);
/* Find the ground for a view or begin to build it; 0 or an error with stage "cell". */
int ground_begin(struct ground *ground, struct grounds *grounds, const struct view *view,
                 struct brig_error *err);
/* The run is set up, or is not to be: wait for the builder and keep what is worth it. `view` is the
 * same, and `good` whether the run has found the ground to be whole. */
void ground_end(struct ground *ground, struct grounds *grounds, const struct view *view, bool good);

#endif
