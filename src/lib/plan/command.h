/* SPDX-License-Identifier: MIT */
/* Finds the file that a command names, and explains exactly why it cannot be executed. Called by
 * plan.c, hints.c and spawn.c; executes nothing. */
#ifndef LIB_COMMAND_H
#define LIB_COMMAND_H

#include "brig.h"

#define COMMAND_DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct view;

/* Where a command is looked up: in the host's files, or in the part of them that a cell shows. */
struct command_place {
    int workdir;             /* relative paths start here */
    const struct view *view; /* NULL: no cell */
    const char *start;       /* relative paths start here in the cell */
    bool hides_host;         /* messages do not mention files outside of the view */
};

/* Find the path to execute, in new memory. A name with a slash is relative to the work directory; a
 * name without one is looked up in `path`, the guest's PATH. */
int command_find(const char *name, const char *path, const struct command_place *place, char **out,
                 struct brig_error *err);

/* Is the file a script whose first line ends with a carriage return? */
bool command_ends_with_return(const char *path, const struct command_place *place);

/* Set the error for an exec that failed with errnum. */
int command_exec_error(const char *path, const struct command_place *place, int errnum,
                       struct brig_error *err);

#endif
