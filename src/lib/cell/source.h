/* A file or folder of the host that the caller names to be shown in a cell.
 *
 * A guest may have written where the path leads through: no part of it may be a link, and the child
 * mounts it only if it is still the same file. */
#ifndef LIB_SOURCE_H
#define LIB_SOURCE_H

#include <stdint.h>
#include <sys/stat.h>

#include "brig.h"

struct source {
    char *path; /* absolute and free of links; in new memory */
    uint64_t device, inode;
    bool folder;
};

/* `what` begins the message: "--ro", "workdir". */
int source_open(struct source *source, const char *what, const char *path, struct brig_error *err);
uint64_t source_device(const struct stat *st); /* as the child compares it */
void source_done(struct source *source);

#endif
