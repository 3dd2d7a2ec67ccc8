/* Building the cell: the operations between the clone of init and its exec, in the new namespaces.
 * Made by lib/view.c and lib/cell.c, executed by cell_run() in a child that shares the supervisor's
 * memory: raw system calls on memory prepared before, nothing else.
 *
 * Paths in the new root are relative to it and never follow links: what the guest of an earlier run
 * left in a work folder cannot redirect a mount. Sources are absolute and free of links, and must
 * still be the file that the plan looked at. */
#ifndef CHILD_CELL_H
#define CHILD_CELL_H

#include <stdint.h>

#include "holder.h"

enum cell_kind {
    CELL_MAP_SELF = 1, /* source: the line for uid_map, target: for gid_map */
    CELL_PRIVATE,      /* no mount propagates to the host or from it */
    CELL_ROOT,         /* an empty root in memory; source: mount options */
    CELL_ROOT_HOST,    /* all of the host's, read-only */
    CELL_ROOT_HERE,    /* the one that there is: in a fork of a template */
    CELL_FOLDER,       /* target; a: mode; b: not all above it is ours */
    CELL_LINK,         /* target -> source */
    CELL_FILE,       /* target; source: its bytes; a: mode; b: how many; c: not all above is ours */
    CELL_NODE,       /* target: a device, or a mount of source; a: flags; b: its number */
    CELL_BIND,       /* target <- source; a: flags; b, c: device and inode of the source */
    CELL_LIFT,       /* target: keep what is mounted there, before something is mounted above it */
    CELL_LOWER,      /* target: mount what was kept there, in the order of the lifts */
    CELL_COVER,      /* target <- source, both in the new root; no target, nothing to do */
    CELL_TMPFS,      /* target; source: mount options; a: flags */
    CELL_PROC,       /* target; source: mount options; a: flags */
    CELL_PTS,        /* target; a: flags */
    CELL_PIVOT,      /* the new root becomes the root, the old one is gone */
    CELL_SEAL,       /* the root folder itself becomes read-only */
    CELL_CHDIR,      /* source */
    CELL_LOOPBACK,   /* up */
    CELL_NETWORK,    /* fd: pidfd of the holder, whose network namespace is joined */
    CELL_HOSTNAME,   /* source */
    CELL_KEEP_CAPS,  /* a: capabilities that init keeps over its exec, for the guest's operations */
    CELL_RULES,      /* begin a landlock ruleset; a: file access it handles, b: scopes */
    CELL_ALLOW,      /* source; a: access below it */
    CELL_KEEP_RULES, /* fd: the slot that gets the ruleset, for the guest's operations */
};

enum cell_flag {
    CELL_READ_ONLY = 1,
    CELL_DEVICES = 2, /* devices work on this mount */
    CELL_OURS = 4,    /* all above the target was made by us: no link can be in the way */
    CELL_SYSTEM = 8,  /* the source is the system's, and not to be compared */
    CELL_OWNER = 16,  /* fd: the user namespace that gives its files to the guest */
    CELL_MAKE = 32,   /* a device: make it, if that is allowed */
};

#define CELL_LIFTS_MAX 32

struct cell_op {
    uint32_t kind;
    int32_t fd; /* slot */
    const char *source, *target;
    uint64_t a, b, c;
};

/* Execute in order. Returns 0, or -errno with *failed the index of the one that failed. */
long cell_run(const struct cell_op *ops, uint32_t count, const struct holder *holder,
              uint32_t *failed);

#endif
