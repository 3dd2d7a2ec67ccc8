/* Building the cell: the operations between the clone of init and its exec, in the new namespaces.
 * Made by lib/view.c and lib/cell.c, executed by cell_run() in a child that shares the supervisor's
 * memory: raw system calls on memory prepared before, nothing else.
 *
 * They are in two parts where that is possible. The ground, which is the same for many runs and has
 * nothing that a guest may write to, is made by a process of its own (ground.h) in a mount
 * namespace of its own; the part of the run is laid on that, or on a copy of it.
 *
 * Paths in the new root are relative to it and never follow links: what the guest of an earlier run
 * left in a work folder cannot redirect a mount. Sources are absolute and free of links, and must
 * still be the file that the plan looked at. */
#ifndef CHILD_CELL_H
#define CHILD_CELL_H

#include <stdint.h>

#include "mount_builder.h"
#include "ns_child.h"

enum cell_kind {
    CELL_MAP_SELF = 1, /* source: the line for uid_map, target: for gid_map */
    CELL_JOIN,         /* become part of the ground's mount namespace, or of a copy of it */
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
    CELL_SEAL,       /* target: the mount there becomes read-only */
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
    CELL_DEVICES = 2,  /* devices work on this mount */
    CELL_OURS = 4,     /* all above the target was made by us: no link can be in the way */
    CELL_SYSTEM = 8,   /* the source is the system's, and not to be compared */
    CELL_OWNER = 16,   /* fd: the user namespace that gives its files to the guest */
    CELL_MAKE = 32,    /* a device: make it, if that is allowed */
    CELL_TAKEN = 64,   /* the mount is made before CELL_JOIN, which leaves what it is made from */
    CELL_SEALED = 128, /* the source is on a mount that is as this one has to be */
};

enum cell_part { CELL_PART_RUN, CELL_PART_GROUND };

#define CELL_OPS_MAX   225
#define CELL_LIFTS_MAX 32

struct cell_op {
    uint32_t kind, part;
    int32_t fd; /* slot */
    const char *source, *target;
    uint64_t a, b, c;
};

/* Where the operations of a run lead through. */
struct cell_way {
    const struct holder *holder;   /* what CELL_NETWORK joins */
    const struct builder *builder; /* at work on the ground; NULL: it is there already */
    int ground;                    /* the mount namespace that CELL_JOIN joins */
    bool copy;                     /* not that one itself: other runs use it as well */
};

/* Execute those of one part in order. Returns 0, or -errno with *failed the index of the one that
 * failed, which may be one of the ground. There are at most CELL_OPS_MAX. */
long cell_run(const struct cell_op *ops, uint32_t count, enum cell_part part,
              const struct cell_way *way, uint32_t *failed);

#endif
