/* SPDX-License-Identifier: MIT */
/* Removal of the cgroups of a run whose supervisor is gone. Used by init and the guard; no libc. */
#ifndef CHILD_REMOVAL_H
#define CHILD_REMOVAL_H

#include "protocol.h"

/* Remove the cgroups of the run, and those of the calls of a template. Their processes must be
 * dead; waits up to a second until the kernel has released them. */
void removal_run(const struct init_setup *setup);

/* Remove one cgroup, given the directory that contains it and its name. */
void removal_one(int parent, const char *name);

#endif
