/* SPDX-License-Identifier: MIT */
/* The process tree below a process, read from /proc. Init uses it to send signals, the supervisor
 * to sample usage; no libc. */
#ifndef CHILD_TREE_H
#define CHILD_TREE_H

#include <stdint.h>

struct tree_node {
    int32_t pid, parent;
};

/* List all descendants of root, parents before children, without root itself. Returns their number,
 * at most max, or -errno if /proc does not list them. If the tree changes meanwhile, the list has
 * the processes that were seen.
 */
long tree_list(int root, struct tree_node *nodes, uint32_t max);

/* Send a signal to one process of the tree without the risk of hitting another process that reuses
 * its pid: a pidfd pins the process, and its parent is checked after that. `heir` is the process
 * that adopts orphans. */
long tree_signal(const struct tree_node *node, int heir, int signal);

/* True if the process counts as one of the tree. A zombie that the heir has yet to reap does not
 * count.
 */
int tree_counts(const struct tree_node *node, int heir);

#endif
