/* SPDX-License-Identifier: MIT */
/* Print the plan of a spec on stdout; returns an exit code. */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H

#include <stdbool.h>

struct brig_spec;

int explain_spec(const struct brig_spec *spec, bool json);

#endif
