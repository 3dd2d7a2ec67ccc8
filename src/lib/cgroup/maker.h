/* Names that say who made something, so that it can be removed when its maker is dead:
 * "brig.PIDNS.PID.START.RANDOM". PIDNS, the inode of the pid namespace, says whether PID can be
 * looked up at all from here, and START, the start time, that it is still the same process. */
#ifndef LIB_MAKER_H
#define LIB_MAKER_H

#include <stdbool.h>
#include <stddef.h>

#define MAKER_NAME_SIZE 80

/* A new name of this process. */
void maker_name(char *out, size_t size);

/* Is it the name of something whose maker is surely dead? More may follow the name. */
bool maker_is_dead(const char *name);

#endif
