/* SPDX-License-Identifier: MIT */
/* The result that a tool reports: {"status": "success"|"error", "output", "error", "metadata"},
 * sent on its channel or printed between two markers. Pure: takes untrusted bytes and returns
 * positions in them. */
#ifndef LIB_ENVELOPE_H
#define LIB_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/jsonscan.h"

#define ENVELOPE_WHY_SIZE 192

struct envelope {
    bool success;
    struct jsonscan_span output, error, metadata; /* JSON; len 0 if absent */
};

/* Parse an envelope. Returns false with the reason in `why` if it is not one. An empty text is an
 * envelope without output. */
bool envelope_read(struct envelope *out, const char *json, size_t len, char why[ENVELOPE_WHY_SIZE]);

/* Find the text between the two markers. Each marker must occur exactly once, in this order. */
bool envelope_find(struct jsonscan_span *out, const char *text, size_t len, const char *begin,
                   const char *end, char why[ENVELOPE_WHY_SIZE]);

#endif
