/* Landlock: a second wall behind the mounts, and the only one where there can be no mounts. The
 * rules are made by operations of the cell and enforced by the guest. */
#ifndef LIB_LANDLOCK_H
#define LIB_LANDLOCK_H

#include "view.h"

/* Its version in this kernel, or -errno. */
int landlock_version(void);

/* The same as the view allows. */
void landlock_add_rules(struct view *view, int version);

/* On the host's own files: reading what a minimal view would show, writing below `writable`, a list
 * that ends with NULL, and in the scratch folder, which may not be there yet. */
void landlock_add_host_rules(struct view *view, int version, const char *const *writable,
                             const char *scratch);

#endif
