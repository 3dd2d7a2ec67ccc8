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

enum cell_kind {
    CELL_MAP_SELF = 1, /* source: the line for uid_map, target: for gid_map */
    CELL_PRIVATE,      /* no mount propagates to the host or from it */
    CELL_ROOT,         /* an empty root in memory; source: its size */
    CELL_ROOT_HOST,    /* all of the host's, read-only */
    CELL_FOLDER,       /* target; a: mode */
    CELL_LINK,         /* target -> source */
    CELL_FILE,         /* target; source: its text; a: mode */
    CELL_BIND,         /* target <- source; a: flags; b, c: device and inode of the source */
    CELL_TMPFS,        /* target; source: its size; a: mode; b: owner, or 0 */
    CELL_PROC,         /* target; a: hide processes that the reader may not trace */
    CELL_PTS,          /* target */
    CELL_PIVOT,        /* the new root becomes the root, the old one is gone */
    CELL_SEAL,         /* the root folder itself becomes read-only */
    CELL_CHDIR,        /* source */
    CELL_LOOPBACK,     /* up */
    CELL_HOSTNAME,     /* source */
    CELL_KEEP_CAPS,  /* a: capabilities that init keeps over its exec, for the guest's operations */
    CELL_RULES,      /* begin a landlock ruleset; a: file access it handles, b: scopes */
    CELL_ALLOW,      /* source; a: access below it */
    CELL_KEEP_RULES, /* fd: the slot that gets the ruleset, for the guest's operations */
};

enum cell_bind_flag {
    CELL_READ_ONLY = 1,
    CELL_DEVICE = 2,    /* may be a device; nothing else may */
    CELL_FROM_ROOT = 4, /* the source is in the new root as well */
    CELL_OPTIONAL = 8,  /* a target that does not exist is left out */
    CELL_OWNER = 16,    /* fd: the user namespace that gives its files to the guest */
};

struct cell_op {
    uint32_t kind;
    int32_t fd; /* slot */
    const char *source, *target;
    uint64_t a, b, c;
};

/* Execute in order. Returns 0, or -errno with *failed the index of the one that failed. */
long cell_run(const struct cell_op *ops, uint32_t count, uint32_t *failed);

#endif
