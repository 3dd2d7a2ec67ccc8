/* SPDX-License-Identifier: MIT */
/* Shared by the files that build a view; view.h describes views.
 *   view.c         operations, and where a mount goes
 *   view_system.c  the part of the system that is shown
 *   view_proc.c    /proc for a guest that has root's id
 *   view_caller.c  the caller's part: work directory, --ro, --rw, --tmpfs; home and /tmp */
#ifndef LIB_VIEW_BUILD_H
#define LIB_VIEW_BUILD_H

#include "source.h"
#include "view.h"

/* Operations added from here on belong to this part, if the view has two. */
void view_begin(struct view *view, enum cell_part part);

/* Record a mount of the cell. */
void view_note(struct view *view, const char *target, const char *source, bool writable, bool dir);

/* Make a directory on a mount of brig, once; `target` is relative to the new root. */
struct cell_op *view_dir(struct view *view, const char *target, unsigned mode);

enum view_source {
    VIEW_SYSTEM, /* a part of the system */
    VIEW_CALLER, /* named by the caller: its inode is compared, and the guest owns its files */
};

/* Show a file or directory. */
int view_bind(struct view *view, const struct source *source, const char *target, bool writable,
              enum view_source kind, struct brig_error *err);

/* Make a symlink on a mount of brig; elsewhere, nothing is done. */
void view_link(struct view *view, const char *path, const char *to);

/* Mount a tmpfs. `owned`: it belongs to the guest; otherwise brig fills it. */
int view_tmpfs(struct view *view, const char *target, uint64_t bytes, unsigned mode, bool owned,
               struct brig_error *err);

#define VIEW_NOTHING "dev/.nothing" /* a file that no guest may open */

/* Cover a path of the new root with `source`, a path below /dev: /dev is already read-only when the
 * run's part begins. */
void view_cover(struct view *view, const char *source, const char *target, bool ours);

/* Cover the files of /proc that the kernel opens to root's id. */
void view_seal_proc(struct view *view);

/* Add the root, the system's directories, /dev and /proc. */
int view_add_system(struct view *view, bool host, bool network, struct brig_error *err);

/* Add everything that is mounted on top of that, and set the start directory. */
int view_add_caller(struct view *view, const struct brig_spec *spec, const char *workdir,
                    const char **start, struct brig_error *err);

#endif
