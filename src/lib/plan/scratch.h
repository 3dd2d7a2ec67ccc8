/* SPDX-License-Identifier: MIT */
/* A scratch directory: the HOME and TMPDIR of a guest without a cell, which has no private /tmp.
 * Called by plan.c and spawn.c. It is removed with the run; the next run removes those of killed
 * supervisors. */
#ifndef LIB_SCRATCH_H
#define LIB_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "brig.h"

/* Choose a name; nothing is made yet. */
void scratch_choose(char *path, size_t size);

/* Make the directory, owned by the user `owner` if that is not 0. Removes those of dead supervisors
 * first. */
int scratch_make(const char *path, uint64_t owner, struct brig_error *err);

/* Remove the directory and its content, of any depth and any mode, in bounded time and memory.
 * Returns 0 or -errno. */
int scratch_remove(const char *path);

#endif
