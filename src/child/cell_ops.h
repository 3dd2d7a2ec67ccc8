/* SPDX-License-Identifier: MIT */
/* The operations that build a cell. They run between the clone of init and its exec, in the new
 * namespaces.
 *
 * lib/cell/view.c and lib/cell/cell.c create them; cell_run() executes them in a child that shares
 * the supervisor's memory. It may only make raw system calls on memory that was prepared before the
 * clone.
 *
 * Where possible, the operations come in two parts. The base mounts, which are the same for many
 * runs and contain nothing that a guest may write to, are built by a separate process in its own
 * mount namespace (mount_builder.h). The operations of the run are applied on top of them, or on
 * top of a copy.
 *
 * Paths in the new root are relative to it and never follow symlinks, so that a symlink left by the
 * guest of an earlier run cannot redirect a mount. Source paths are absolute, contain no symlinks,
 * and must still lead to the file that the plan examined. */
#ifndef CHILD_CELL_H
#define CHILD_CELL_H

#include <stdint.h>

#include "mount_builder.h"
#include "ns_child.h"

enum cell_kind {
    CELL_MAP_SELF = 1, /* source: the line for uid_map; target: the line for gid_map */
    CELL_JOIN,         /* join the mount namespace of the base mounts, or a copy of it */
    CELL_PRIVATE,      /* stop mount propagation to and from the host */
    CELL_ROOT,         /* an empty root on tmpfs; source: mount options */
    CELL_ROOT_HOST,    /* the whole file system of the host, read-only */
    CELL_ROOT_HERE,    /* the current root: in a fork of a template */
    CELL_DIR,          /* target; make */
    CELL_LINK,         /* target: the symlink; source: its contents */
    CELL_FILE,         /* target; source: its bytes; make */
    CELL_NODE,         /* target: a device node, or a mount of source; flags; device: its number */
    CELL_BIND,         /* target: mount point of source; flags; device and inode of the source */
    CELL_LIFT,         /* target: keep a copy of the mount there, before another mount covers it */
    CELL_LOWER,        /* target: attach the next kept mount, in the order of CELL_LIFT */
    CELL_COVER,        /* mount source over target, both in the new root, if target exists; flags */
    CELL_TMPFS,        /* target; source: mount options; flags */
    CELL_PROC,         /* target; source: mount options; flags */
    CELL_COUNTERS, /* limit the per-user counters of the user namespace, before /proc is sealed */
    CELL_PTS,      /* target; flags */
    CELL_PIVOT,    /* make the new root the root and detach the old one */
    CELL_SEAL,     /* target: make the mount there read-only */
    CELL_CHDIR,    /* source */
    CELL_LOOPBACK, /* bring the loopback device up */
    CELL_NETWORK,  /* fd: pidfd of the namespace helper, whose network namespace init joins */
    CELL_HOSTNAME, /* source */
    /* capabilities that init keeps across its exec, for the operations of the guest */
    CELL_KEEP_CAPS,
    CELL_RULES, /* create a landlock ruleset; rules: the file access and scopes that it handles */
    CELL_ALLOW, /* rules: the access allowed below source, or below the open slot fd */
    CELL_KEEP_RULES, /* fd: the slot that receives the ruleset, for the operations of the guest */
};

enum cell_flag {
    CELL_READ_ONLY = 1,
    CELL_DEVICES = 2, /* device nodes work on this mount */
    CELL_OURS = 4,    /* brig created every component above the target: none can be a symlink */
    CELL_SYSTEM = 8,  /* the source belongs to the system and is not compared with the plan */
    CELL_IDMAP = 16,  /* fd: the user namespace that maps the owner of its files to the guest */
    CELL_MAKE = 32,   /* create the device node if the kernel permits it */
    /* The mount is created before CELL_JOIN, which leaves the namespace of its source. */
    CELL_TAKEN = 64,
    CELL_SEALED = 128, /* the mount of the source already has all required attributes */
};

enum cell_part { CELL_PART_RUN, CELL_PART_BASE };

#define CELL_OPS_MAX   225
#define CELL_LIFTS_MAX 32

struct cell_op {
    uint32_t kind, part;
    int32_t fd; /* slot number */
    const char *source, *target;
    union {
        uint64_t words[3];  /* all operands, for a request to a template */
        struct {            /* operands of mounts */
            uint64_t flags; /* enum cell_flag */
            uint64_t device, inode;
        };
        struct {
            uint64_t mode, len; /* len: size of a file */
            uint64_t foreign;   /* the path may contain symlinks that brig did not create */
        } make;
        struct {
            uint64_t access, scopes;
        } rules;
        uint64_t capabilities;
    };
};

/* The processes and namespaces that the operations of a run refer to. */
struct cell_way {
    const struct ns_child *helper; /* its network namespace is joined by CELL_NETWORK */
    /* The process that is building the base mounts; NULL if they exist already. */
    const struct builder *builder;
    int base_mounts; /* the mount namespace that CELL_JOIN joins */
    bool copy;       /* copy it first, because other runs use it too */
};

/* Execute the operations of one part in order. Returns 0, or -errno with *failed set to the index
 * of the failed operation, which may belong to the base mounts. `count` is at most CELL_OPS_MAX. */
long cell_run(const struct cell_op *ops, uint32_t count, enum cell_part part,
              const struct cell_way *way, uint32_t *failed);

#endif
