/* SPDX-License-Identifier: MIT */
/* Questions about paths of the host that need no view. Called by the plan, the view and the tool
 * chains. */
#ifndef LIB_VIEW_PATHS_H
#define LIB_VIEW_PATHS_H

#include <limits.h>
#include <stdbool.h>

/* The caller's home directories, free of symlinks: the one it names, and the one in the user
 * database. */
struct view_homes {
    char paths[2][PATH_MAX]; /* empty: there is none */
};

/* `named` is HOME of the caller, or NULL; `ask`: read the user database, too. */
void view_find_homes(struct view_homes *homes, const char *named, bool ask);
bool view_is_home(const char *path);

/* Is this directory too much for a guest to write to, only because brig was started in it? This is
 * so for the root, a whole home, a directory above homes, and the system's directories. */
bool view_is_too_much(const char *dir);
bool view_is_too_much_for(const char *dir, const struct view_homes *homes);

/* Is it in /proc, /sys or /dev? A cell has its own. */
bool view_is_kernels(const char *path);

/* Is the path the same as base, or below it? */
bool view_is_within(const char *path, const char *base);

#endif
