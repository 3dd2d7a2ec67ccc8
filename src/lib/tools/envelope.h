/* What a tool says its result is: {"status": "success"|"error", "output", "error", "metadata"},
 * sent on its channel or printed between two markers. Pure: takes bytes of unknown origin, gives
 * places in them. */
#ifndef LIB_ENVELOPE_H
#define LIB_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/jsonscan.h"

#define ENVELOPE_WHY_SIZE 192

struct envelope {
    bool success;
    struct jsonscan_span output, error, metadata; /* JSON; len 0: not there */
};

/* False: it is not an envelope, and `why` says what is wrong with it. Empty text is one without
 * output. */
bool envelope_read(struct envelope *out, const char *json, size_t len, char why[ENVELOPE_WHY_SIZE]);

/* What stands between the two markers, each of which has to be there exactly once, in this order.
 */
bool envelope_find(struct jsonscan_span *out, const char *text, size_t len, const char *begin,
                   const char *end, char why[ENVELOPE_WHY_SIZE]);

#endif
