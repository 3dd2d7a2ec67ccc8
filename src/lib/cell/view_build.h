/* What the files that build a view share; see view.h for what a view is.
 *   view.c         operations, and where a mount goes
 *   view_system.c  what is shown of the system
 *   view_caller.c  what the caller adds: work folder, --ro, --rw, --tmpfs; home and /tmp */
#ifndef LIB_VIEW_BUILD_H
#define LIB_VIEW_BUILD_H

#include "source.h"
#include "view.h"

/* Is path the same as base, or below it? */
bool view_is_within(const char *path, const char *base);

/* What is added from here on is of this part, if the view has two. */
void view_begin(struct view *view, enum cell_part part);

/* Remember what is at a path of the cell. */
void view_note(struct view *view, const char *target, const char *source, bool writable,
               bool folder);

/* Make a folder in what is ours, once; `target` is relative to the new root. */
struct cell_op *view_folder(struct view *view, const char *target, unsigned mode);

enum view_source {
    VIEW_SYSTEM, /* a part of the system */
    VIEW_CALLER, /* named by the caller: compared before it is shown, and the guest's own */
};

/* Show a file or folder. */
int view_bind(struct view *view, const struct source *source, const char *target, bool writable,
              enum view_source kind, struct brig_error *err);

/* An empty folder in memory, the guest's own or for us to fill. */
int view_tmpfs(struct view *view, const char *target, uint64_t bytes, unsigned mode, bool owned,
               struct brig_error *err);

/* The root, the system's folders, /dev and /proc. */
int view_add_system(struct view *view, bool host, bool network, struct brig_error *err);

/* All that lies on that, and where the guest starts. */
int view_add_caller(struct view *view, const struct brig_spec *spec, const char *workdir,
                    const char **start, struct brig_error *err);

#endif
