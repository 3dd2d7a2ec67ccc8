/* SPDX-License-Identifier: MIT */
/* Landlock rules: a second barrier behind the mounts, and the only one without mounts. Operations
 * of the cell make the rules, and the guest enforces them on itself. Called by cell.c. */
#ifndef LIB_LANDLOCK_H
#define LIB_LANDLOCK_H

#include "view.h"

/* The first versions that restrict truncate(), and signals and abstract sockets. */
#define LANDLOCK_TRUNCATES 3
#define LANDLOCK_SCOPES    6

/* Returns the version that this kernel has, or -errno. */
int landlock_version(void);

/* Describe its effect on a run, for the result: behind the mounts of a cell, or alone. */
const char *landlock_describe(int version, bool alone);

/* Add rules that allow the same as the view. */
void landlock_add_rules(struct view *view, int version);

/* Add rules for the host's files: reading the paths that a minimal view would show, and writing in
 * the work directory, which is open in its slot (NULL: there is none), and in the scratch
 * directory, which may not exist yet. */
void landlock_add_host_rules(struct view *view, int version, const char *workdir,
                             const char *scratch);

#endif
