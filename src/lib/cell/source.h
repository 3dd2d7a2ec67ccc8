/* SPDX-License-Identifier: MIT */
/* A file or directory of the host that the caller names to be shown in a cell. Called by the files
 * that build a view.
 *
 * A guest may have written to a directory on the path. So no component of the path may be a
 * symlink, and the child mounts the file only if its device and inode are unchanged. */
#ifndef LIB_SOURCE_H
#define LIB_SOURCE_H

#include <stdint.h>
#include <sys/stat.h>

#include "brig.h"

struct source {
    char *path; /* absolute and free of symlinks; in new memory */
    uint64_t device, inode;
    bool dir;
};

/* `what` is the beginning of the message: "--ro", "workdir". */
int source_open(struct source *source, const char *what, const char *path, struct brig_error *err);
uint64_t source_device(const struct stat *st); /* in the form that the child compares */
void source_done(struct source *source);

#endif
