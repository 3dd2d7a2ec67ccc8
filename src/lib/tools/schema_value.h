/* Values of JSON compared by what they mean: 1 is 1.0, and the order of members does not matter.
 * Recurses; the caller has bounded the depth of one of the values. Work is taken off *left. */
#ifndef LIB_SCHEMA_VALUE_H
#define LIB_SCHEMA_VALUE_H

#include <stdint.h>

#include "base/jsonr.h"

/* 1 or 0; -E2BIG: too much work. */
int schema_equal(const struct jsonr *a, const struct jsonr *b, int64_t *left);

/* 1 if no two elements are equal; 0 with the two that are; -E2BIG, -ENOMEM. */
int schema_unique(const struct jsonr *array, int64_t *left, size_t twice[2]);

/* The depth of a value, or SIZE_MAX if it is above `max`; without recursion. */
size_t schema_depth(const struct jsonr *value, size_t max);

/* For messages: what it is, cut to a few words. */
#define SCHEMA_SHOWN_SIZE 96
const char *schema_show(const struct jsonr *value, char out[SCHEMA_SHOWN_SIZE]);

#endif
