/* Finding the file that a command names, and saying exactly why it cannot be executed. */
#ifndef LIB_COMMAND_H
#define LIB_COMMAND_H

#include "brig.h"

struct view;

/* Where a command is looked for: in the host's files, or in what a cell shows of them. */
struct command_place {
    int workdir;             /* where relative paths start */
    const struct view *view; /* NULL: none */
    const char *start;       /* in the cell, where relative paths start */
};

/* The path to execute, in new memory. A name with a slash is taken from the work folder; one
 * without is looked up in `path`, the guest's PATH. */
int command_find(const char *name, const char *path, const struct command_place *place, char **out,
                 struct brig_error *err);

/* The error for an exec that failed with errnum. */
int command_exec_error(const char *path, const struct command_place *place, int errnum,
                       struct brig_error *err);

#endif
