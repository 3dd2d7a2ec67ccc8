/* Looking at JSON of any size without building anything: is it one, and where do the members of its
 * outermost object begin and end. For what is passed on as it is. */
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
    char kind; /* of the value: { [ " 0 (a number) t f n */
    struct jsonscan_span value;
    /* Of an object, the first ones: names without their quotes, escapes as they are written. */
    struct jsonscan_span names[JSONSCAN_MEMBERS_MAX], values[JSONSCAN_MEMBERS_MAX];
    size_t deepest; /* how many brackets were open at once */
    size_t members; /* all of them, also those that did not fit */
    /* If it is not JSON. */
    const char *why;
    size_t where;
};

/* True if the text is exactly one JSON value, in UTF-8, of bounded depth. */
bool jsonscan(struct jsonscan *scan, const char *text, size_t len);

/* The value of the member of that name; false if there is none. */
bool jsonscan_get(const struct jsonscan *scan, const char *name, struct jsonscan_span *out);

#endif
