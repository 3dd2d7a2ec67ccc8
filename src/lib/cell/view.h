/* SPDX-License-Identifier: MIT */
/* The file view of a cell: the paths that exist in it, and the files behind them, compiled to
 * operations. Called by cell.c and, for look-ups, by the plan.
 *
 * The minimal view has the system directories and the needed part of /etc read-only, a new /proc
 * and /dev, a private /tmp and HOME, and the work directory at its own path. Nothing is ever made
 * in the caller's directories: brig makes mount points only on its own mounts. */
#ifndef LIB_VIEW_H
#define LIB_VIEW_H

#include "base/strings.h"
#include "brig.h"
#include "child/cell_ops.h"
#include "lib/spec/spec.h"
#include "toolchain.h"
#include "view_paths.h"

#define VIEW_HOME       "/home/brig"
#define VIEW_OPS_MAX    (CELL_OPS_MAX - 1)
#define VIEW_MOUNTS_MAX 96

/* A mount of the cell. */
struct view_mount {
    const char *target; /* absolute, in the cell */
    const char *source; /* absolute, on the host; NULL: a tmpfs that brig makes */
    bool writable, dir;
    enum cell_part part; /* the part that makes it and its content */
};

struct view {
    /* The last one takes operations that do not fit: view_failed(). */
    struct cell_op ops[VIEW_OPS_MAX + 1];
    uint32_t count;
    struct view_mount mounts[VIEW_MOUNTS_MAX];
    size_t mount_count;
    struct strings text;  /* the strings that the operations point at */
    uint64_t guest_uid;   /* id of the guest on the host, if started as root; 0: the caller's own */
    unsigned uid, gid;    /* ids of the guest, as it sees itself */
    uint64_t scratch;     /* the largest size of each tmpfs, in bytes */
    const char *home;     /* of the guest */
    bool as_root;         /* the guest has root's id on the host: it must not reach root's files */
    const char *unmapped; /* a writable path on a file system without id-mapped mounts; or NULL */
    struct toolchain toolchain; /* the tool chain of the command, if it is outside of the system */
    bool home_moved;            /* to /tmp, because the caller's mounts leave no place for it */
    bool split;                 /* the base mounts are a part of their own */
    enum cell_part part;        /* the part that new operations belong to */
    bool no_memory, too_many;
};

/* Add an operation. view_failed() reports at the end if one did not fit. */
struct cell_op *view_add(struct view *view, enum cell_kind kind, const char *source,
                         const char *target);
/* A copy of the text that lives as long as the view. Never NULL; view_failed() reports a lack of
 * memory. */
const char *view_text(struct view *view, const char *text);

int view_failed(const struct view *view, struct brig_error *err); /* 0 or -errno */

/* Build everything from the new root to the pivot. `workdir` is the host's path of the work
 * directory; *start becomes the directory in the cell in which the guest starts. */
int view_build(struct view *view, const struct brig_spec *spec, const char *workdir,
               const char **start, struct brig_error *err);

/* Can everything that the spec guards be kept from its guest? Builds nothing. */
int view_check_guards(const struct brig_spec *spec, struct brig_error *err);

/* Find the host's path behind a path of the cell. Returns false if there is nothing behind it. */
bool view_resolve(const struct view *view, const char *path, char *out, size_t size);

#endif
