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

/* Remember what is at a path of the cell. */
void view_note(struct view *view, const char *target, const char *source, bool writable,
               bool folder);

/* Show a file or folder. `owned`: what root shows is shown as the guest's own. */
int view_bind(struct view *view, const struct source *source, const char *target, bool writable,
              bool owned, struct brig_error *err);

/* An empty folder in memory. */
int view_tmpfs(struct view *view, const char *target, uint64_t bytes, unsigned mode,
               struct brig_error *err);

/* The root, the system's folders, /dev and /proc. */
int view_add_system(struct view *view, bool host, bool network, struct brig_error *err);

/* All that lies on that, and where the guest starts. */
int view_add_caller(struct view *view, const struct brig_spec *spec, const char *workdir,
                    const char **start, struct brig_error *err);

#endif
