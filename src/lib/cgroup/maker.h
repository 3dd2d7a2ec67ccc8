/* SPDX-License-Identifier: MIT */
/* Names that identify their creator, so that an object can be removed once its creator is dead:
 * "brig.PIDNS.PID.START.RANDOM". PIDNS, the inode of the pid namespace, tells whether PID can be
 * looked up from here at all. START, the start time, tells whether PID is still the same process.
 */
#ifndef LIB_MAKER_H
#define LIB_MAKER_H

#include <stdbool.h>
#include <stddef.h>

#define MAKER_NAME_SIZE 80

/* A new name for an object of this process. */
void maker_name(char *out, size_t size);

/* True if the creator of the object with that name is certainly dead. More text may follow the
 * name. */
bool maker_is_dead(const char *name);

#endif
