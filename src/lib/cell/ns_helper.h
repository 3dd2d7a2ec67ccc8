/* SPDX-License-Identifier: MIT */
/* The namespace helper: a process that makes namespaces in parallel with the supervisor, which sets
 * up the rest of the cell. Used as root only, by start.c, run_new.c, spawn.c and idmap.c. */
#ifndef LIB_NAMESPACE_HELPER_H
#define LIB_NAMESPACE_HELPER_H

#include <stdbool.h>
#include <stdint.h>

#include "brig.h"
#include "child/ns_child.h"

/* The helper makes the network namespace of the run and a user namespace for mounts, in which
 * root's files belong to the guest. It shares the supervisor's memory until ns_helper_done(), which
 * must be called even if another call failed. */
struct ns_helper {
    int pid, pidfd; /* of the namespace helper; -1: there is none */
    int user;       /* its user namespace, after ns_helper_map() has set its id maps */
    struct ns_child child;
};

#define NS_HELPER_NONE ((struct ns_helper){.pid = -1, .pidfd = -1, .user = -1})

int ns_helper_start(struct ns_helper *helper, bool network, struct brig_error *err);
int ns_helper_map(struct ns_helper *helper, uint64_t guest_uid, struct brig_error *err);
/* The helper is no longer needed. ns_helper_done() waits until it has ended, and may be called
 * later. */
void ns_helper_release(struct ns_helper *helper);
bool ns_helper_is_gone(struct ns_helper *helper);
void ns_helper_done(struct ns_helper *helper);

#endif
