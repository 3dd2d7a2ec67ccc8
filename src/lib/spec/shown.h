/* SPDX-License-Identifier: MIT */
/* An entry of the lists ro, rw and tmpfs: a path, with its destination in the cell or its size.
 *
 * On a command line an entry is one text, P:DEST or P:SIZE, and P may be a file name chosen by a
 * guest: no file name may change the meaning of the text. In JSON and Python an entry can have two
 * parts, in which a colon has no meaning. A spec keeps both forms as one text in its list, and only
 * this file parses it. */
#ifndef LIB_SHOWN_H
#define LIB_SHOWN_H

#include <stdbool.h>

#include "brig.h"

struct shown {
    char *path;
    char *second; /* NULL if not given */
};

/* Join two parts to an entry; `second` may be NULL. Returns NULL without memory. */
char *shown_join(const char *path, const char *second);

/* True if the text begins with the mark of a joined entry. Text from a command line must not. */
bool shown_is_joined(const char *entry);

/* Parse P[:DEST]. DEST is absolute, so the last colon before a slash separates the two. Refused are
 * "..", and a text for which a file or directory named "P:" exists, since the whole text may then
 * be a path. `what` begins the message. */
int shown_read_place(const char *entry, const char *what, struct shown *out,
                     struct brig_error *err);

/* Parse P[:SIZE]. */
int shown_read_size(const char *entry, struct shown *out, struct brig_error *err);

void shown_done(struct shown *shown);

#endif
