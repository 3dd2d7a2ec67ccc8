/* SPDX-License-Identifier: MIT */
/* Finds the name that a misspelt word probably stands for, for "did you mean". Pure. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

#define NEAREST_MAX       48 /* bytes of a word; longer words match no name */
#define NEAREST_HINT_SIZE 96

struct nearest {
    const char *word; /* the word to find a name for */
    size_t len;
    const char *name; /* the nearest name so far, or NULL */
    size_t distance;
};

void nearest_init(struct nearest *nearest, const char *word, size_t len);

/* Keep this name if it is nearer than all names before. Names too far from the word are never kept.
 */
void nearest_try(struct nearest *nearest, const char *name);

/* Call nearest_try() for each name of a list "a|b|c". The name found is not NUL-terminated: only
 * nearest_hint() can print it. */
void nearest_try_list(struct nearest *nearest, const char *names);

/* Format " (did you mean PREFIXname?)", or an empty text. Returns `out`. */
const char *nearest_hint(const struct nearest *nearest, const char *prefix,
                         char out[NEAREST_HINT_SIZE]);

#endif
