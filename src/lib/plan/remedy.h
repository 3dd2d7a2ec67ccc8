/* SPDX-License-Identifier: MIT */
/* Finds out how to fix a host that allows no cells. */
#ifndef LIB_REMEDY_H
#define LIB_REMEDY_H

/* brig_cell_fix() with another /proc than the host's, for tests. Returns static memory. */
const char *remedy_find(const char *proc, const char *why);

#endif
