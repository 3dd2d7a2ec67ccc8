/* The file view of a cell: which paths exist in it and what is behind them, compiled to operations.
 *
 * The minimal view has the system folders and the needed part of /etc read-only, fresh /proc and
 * /dev, private /tmp and HOME, and the work folder at its own path. Nothing is ever made in the
 * caller's folders: a place for a mount is made only in what is ours. */
#ifndef LIB_VIEW_H
#define LIB_VIEW_H

#include "base/strings.h"
#include "brig.h"
#include "child/cell_ops.h"
#include "lib/spec/spec.h"

#define VIEW_HOME       "/home/brig"
#define VIEW_OPS_MAX    (CELL_OPS_MAX - 1)
#define VIEW_MOUNTS_MAX 96

/* What is at a path of the cell. */
struct view_mount {
    const char *target; /* absolute, in the cell */
    const char *source; /* absolute, on the host; NULL: ours, made in memory */
    bool writable, folder;
    enum cell_part part; /* who makes it, and so what is in it */
};

struct view {
    struct cell_op ops[VIEW_OPS_MAX + 1]; /* the last one takes what does not fit: view_failed() */
    uint32_t count;
    struct view_mount mounts[VIEW_MOUNTS_MAX];
    size_t mount_count;
    struct strings text; /* what the operations point at */
    uint64_t guest_uid;  /* of the guest on the host, if root starts it; 0: the caller's own */
    unsigned uid, gid;   /* of the guest, as it sees itself */
    uint64_t scratch;    /* bytes that each folder in memory may take */
    const char *home;    /* of the guest */
    bool split;          /* what is the same for many runs is a part of its own */
    enum cell_part part; /* that what is added now is of */
    bool no_memory, too_many;
};

/* Add an operation. What does not fit is told by view_failed(), once, at the end. */
struct cell_op *view_add(struct view *view, enum cell_kind kind, const char *source,
                         const char *target);
/* A copy of text that lives as long as the view; never NULL, but view_failed() tells. */
const char *view_text(struct view *view, const char *text);

int view_failed(const struct view *view, struct brig_error *err); /* 0 or -errno */

/* Everything from the new root to the pivot. `workdir` is the host's path of the work folder, and
 * *start where the guest starts in the cell. */
int view_build(struct view *view, const struct brig_spec *spec, const char *workdir,
               const char **start, struct brig_error *err);

/* Is this folder too much to be written by a guest only because brig was started in it: the root, a
 * whole home, what holds homes, the system's own? */
bool view_is_too_much(const char *folder);

/* The host's path behind a path of the cell; false if there is nothing behind it. */
bool view_resolve(const struct view *view, const char *path, char *out, size_t size);

#endif
