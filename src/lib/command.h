/* Finding the file that a command names, and saying exactly why it cannot be executed. */
#ifndef LIB_COMMAND_H
#define LIB_COMMAND_H

#include "brig.h"

/* The path to execute, in new memory. A name with a slash is taken from the work folder (`workdir`,
 * a descriptor); one without is looked up in `path`, the guest's PATH. */
int command_find(const char *name, const char *path, int workdir, char **out,
                 struct brig_error *err);

/* The error for an exec that failed with errnum. */
int command_exec_error(const char *path, int workdir, int errnum, struct brig_error *err);

#endif
