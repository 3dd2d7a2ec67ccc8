/* The process tree below a process, read from /proc. Used by init to signal and by the supervisor
 * to sample; no libc. */
#ifndef CHILD_TREE_H
#define CHILD_TREE_H

#include <stdint.h>

struct tree_node {
    int32_t pid, parent;
};

/* All descendants of root, parents before children, root itself not included. Returns their number,
 * at most max, or -errno if /proc does not tell. A tree that changes meanwhile gives what was seen.
 */
long tree_list(int root, struct tree_node *nodes, uint32_t max);

/* Signal one of them without a chance of hitting another process that got its number: the process
 * is held by a pidfd, and its parent is checked after that. `heir` is whom orphans are given to. */
long tree_signal(const struct tree_node *node, int heir, int signal);

#endif
