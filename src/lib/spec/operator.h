/* SPDX-License-Identifier: MIT */
/* The operator's maxima: a system-wide file with limits that no option, variable, spec or job can
 * exceed. */
#ifndef LIB_OPERATOR_H
#define LIB_OPERATOR_H

#include "brig.h"
#include "keys.h"

struct operator_limits {
    uint64_t maximum[KEY_COUNT]; /* BRIG_UNLIMITED if there is none */
};

/* Read the file. A missing file sets no maxima. A file that cannot be trusted or read is an error,
 * because a run must not ignore limits that the operator set. */
int operator_read(struct operator_limits *limits, const char *path, struct brig_error *err);

/* Compute the value that applies. A requested value over the maximum is refused; brig's own default
 * is lowered to the maximum. */
int operator_apply(const struct operator_limits *limits, enum key key, uint64_t value, bool asked,
                   uint64_t *out, struct brig_error *err);

#endif
