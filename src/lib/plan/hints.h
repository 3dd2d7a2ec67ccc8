/* SPDX-License-Identifier: MIT */
/* Hints: plain sentences for the result about facts that brig knows for certain and the caller may
 * not know. Their number (BRIG_HINTS_MAX) and length are bounded. The plan has the hints that do
 * not depend on the end of the command; the others are looked for only after a failure. Called by
 * plan.c and finish.c. */
#ifndef LIB_HINTS_H
#define LIB_HINTS_H

#include "base/strings.h"
#include "plan.h"

/* Add a sentence. Control characters are escaped and, if there are rules, secrets are hidden. The
 * sentence is dropped if the list is full or memory is short. */
void hints_add(struct strings *hints, const struct redact_rules *rules, const char *text);

__attribute__((format(printf, 2, 3))) void hints_say(struct strings *hints, const char *format,
                                                     ...);

/* Add hints for a command that failed: its arguments that name files outside of the view, and its
 * packets that could not leave its network. */
void hints_of_failure(struct strings *hints, const struct plan *plan, uint64_t no_routes,
                      uint64_t no_ports);

#endif
