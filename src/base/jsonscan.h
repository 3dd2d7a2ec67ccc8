/* SPDX-License-Identifier: MIT */
/* A scanner that validates JSON of any size without building a tree, and finds the members of its
 * outermost object. For JSON that brig passes on unchanged. */
#ifndef BASE_JSONSCAN_H
#define BASE_JSONSCAN_H

#include <stdbool.h>
#include <stddef.h>

#define JSONSCAN_DEPTH_MAX   512
#define JSONSCAN_MEMBERS_MAX 16

struct jsonscan_span {
    const char *at;
    size_t len;
};

struct jsonscan {
    char kind; /* type of the value: { [ " 0 (a number) t f n */
    struct jsonscan_span value;
    /* The first members of an object: names without their quotes, escapes not decoded. */
    struct jsonscan_span names[JSONSCAN_MEMBERS_MAX], values[JSONSCAN_MEMBERS_MAX];
    size_t deepest; /* the largest number of brackets open at once */
    size_t members; /* number of all members, including those that did not fit */
    /* Set if the text is not JSON: the reason, and the offset of the fault. */
    const char *why;
    size_t where;
};

/* True if the text is exactly one JSON value, in UTF-8, of bounded depth. */
bool jsonscan(struct jsonscan *scan, const char *text, size_t len);

/* Find the value of the member with that name. Returns false if there is none. */
bool jsonscan_get(const struct jsonscan *scan, const char *name, struct jsonscan_span *out);

#endif
