/* SPDX-License-Identifier: MIT */
/* Finds the files on which the resolution of a path depends: anyone able to change one of them can
 * make the path lead to another file. */
#ifndef LIB_WAY_H
#define LIB_WAY_H

#include <limits.h>

#include "base/strings.h"

struct way {
    char real[PATH_MAX]; /* the resolved path, or its first missing component */
    int missing;         /* errno of the failed lookup; 0 if the path exists */
};

/* Add to `out` every path that has to stay unchanged for the path to keep its meaning: each
 * symlink, each directory that the path leaves by "..", and its end or first missing component. All
 * are absolute, and only the last component of one may be a symlink. A trailing slash marks a
 * directory that only has to keep its place. `from` is the start of a relative path: free of
 * symlinks, or NULL for the current directory. Returns 0 or -errno. */
int way_find(struct strings *out, const char *from, const char *path, struct way *way);

#endif
