/* The operator's maxima: a system-wide file that no option, variable, spec or job exceeds. */
#ifndef LIB_OPERATOR_H
#define LIB_OPERATOR_H

#include "brig.h"
#include "keys.h"

struct operator_limits {
    uint64_t maximum[KEY_COUNT]; /* BRIG_UNLIMITED: none */
};

/* A missing file sets no maxima. A file that cannot be trusted or read is an error: running without
 * the limits that somebody meant to set is not an option. */
int operator_read(struct operator_limits *limits, const char *path, struct brig_error *err);

/* The value that applies: the one asked for, refused if it is over the maximum; brig's own default,
 * lowered to it. */
int operator_apply(const struct operator_limits *limits, enum key key, uint64_t value, bool asked,
                   uint64_t *out, struct brig_error *err);

#endif
