/* A private folder on disk, for the guest of a run that has no cell and so no /tmp of its own: its
 * HOME and TMPDIR. Gone when the run is; what a killed supervisor left is removed by the next. */
#ifndef LIB_SCRATCH_H
#define LIB_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "brig.h"

/* A name for one; nothing is made yet. */
void scratch_choose(char *path, size_t size);

/* Make it, for the user of that id if that is not 0, and remove those of dead supervisors. */
int scratch_make(const char *path, uint64_t owner, struct brig_error *err);

/* Remove it and all that is in it, however deep, whatever its modes: in bounded time and memory.
 * Returns 0 or -errno. */
int scratch_remove(const char *path);

#endif
