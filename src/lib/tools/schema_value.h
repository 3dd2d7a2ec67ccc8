/* SPDX-License-Identifier: MIT */
/* Compares JSON values by meaning: 1 equals 1.0, and the order of members does not matter.
 * Recursive; the caller has bounded the depth of one of the values. Work is deducted from *left. */
#ifndef LIB_SCHEMA_VALUE_H
#define LIB_SCHEMA_VALUE_H

#include <stdint.h>

#include "base/jsonr.h"

/* Returns 1 or 0, or -E2BIG if the budget is used up. */
int schema_equal(const struct jsonr *a, const struct jsonr *b, int64_t *left);

/* Returns 1 if no two elements are equal; 0 with the indexes of two equal ones; -E2BIG; -ENOMEM. */
int schema_unique(const struct jsonr *array, int64_t *left, size_t twice[2]);

/* The depth of a value, or SIZE_MAX if it exceeds `max`. Not recursive. */
size_t schema_depth(const struct jsonr *value, size_t max);

/* A short text for the value, for messages. */
#define SCHEMA_SHOWN_SIZE 96
const char *schema_show(const struct jsonr *value, char out[SCHEMA_SHOWN_SIZE]);

#endif
