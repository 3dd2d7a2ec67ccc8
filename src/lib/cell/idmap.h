/* SPDX-License-Identifier: MIT */
#ifndef LIB_IDMAP_H
#define LIB_IDMAP_H

#include <stdbool.h>
#include <stdint.h>

/* Returns false if the file system of this path refuses id-mapped mounts. Returns true otherwise,
 * also if that is not known: the mount itself then shows it. */
bool idmap_works(const char *path, uint64_t guest_uid);

#endif
