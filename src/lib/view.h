/* The file view of a cell: which paths exist in it and what is behind them, compiled to operations.
 *
 * The minimal view has the system folders and the needed part of /etc read-only, fresh /proc and
 * /dev, private /tmp and HOME, and the work folder at its own path. Nothing is ever made in the
 * caller's folders: a place for a mount is made only in what is ours. */
#ifndef LIB_VIEW_H
#define LIB_VIEW_H

#include "base/strings.h"
#include "brig.h"
#include "child/cell.h"
#include "spec.h"

#define VIEW_HOME    "/home/brig"
#define CELL_OPS_MAX 192
#define VIEW_MAX     96

/* What is at a path of the cell. */
struct view_mount {
    const char *target; /* absolute, in the cell */
    const char *source; /* absolute, on the host; NULL: ours, made in memory */
    bool writable, folder;
};

struct cell {
    struct cell_op
        ops[CELL_OPS_MAX + 1]; /* the last one takes what does not fit; see cell_failed() */
    uint32_t count;
    struct view_mount mounts[VIEW_MAX];
    size_t mount_count;
    struct strings text; /* what the operations point at */
    bool owner;          /* as root: writable binds are given to the guest by an id map */
    uint64_t guest_uid;  /* on the host; 0: the caller's own */
    const char *home;    /* of the guest */
    bool no_memory;
};

/* Add an operation. What does not fit is told by cell_failed(), once, at the end. */
struct cell_op *cell_add(struct cell *cell, enum cell_kind kind, const char *source,
                         const char *target);
/* A copy of text that lives as long as the cell; never NULL, but cell_failed() tells. */
const char *cell_text(struct cell *cell, const char *text);

int cell_failed(const struct cell *cell); /* 0 or -errno */

/* Everything from the new root to the pivot. `workdir` is the host's path of the work folder, and
 * *start where the guest starts in the cell. */
int view_build(struct cell *cell, const struct brig_spec *spec, const char *workdir,
               uint64_t memory_bytes, const char **start, struct brig_error *err);

/* The host's path behind a path of the cell, in new memory; NULL if there is nothing behind it. */
char *view_resolve(const struct cell *cell, const char *path);

#endif
