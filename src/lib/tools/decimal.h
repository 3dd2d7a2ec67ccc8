/* SPDX-License-Identifier: MIT */
/* JSON numbers, compared exactly on their text, without floating point and without a locale. Pure;
 * allocates nothing. Used by the checks of a JSON schema. */
#ifndef LIB_DECIMAL_H
#define LIB_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0.DIGITS times ten to the power of `point`. Refers to the text that it was read from. */
struct decimal {
    const char *digits; /* from the first nonzero digit; may contain a decimal point */
    size_t count;       /* number of digits without trailing zeros; 0 if the number is zero */
    int64_t point;      /* exponents are clamped to plus and minus DECIMAL_EXPONENT_MAX */
    bool negative;      /* false for zero */
};

#define DECIMAL_EXPONENT_MAX INT64_C(1000000000000000)

/* `text` is a number in the grammar of JSON, NUL-terminated. */
struct decimal decimal_read(const char *text);

/* Returns less than 0, 0 or more than 0 if a is less than, equal to or greater than b. */
int decimal_compare(const struct decimal *a, const struct decimal *b);

bool decimal_is_integer(const struct decimal *number);

/* True if the number is an integer times `unit`. The unit is above 0 and has at most
 * DECIMAL_UNIT_DIGITS digits. */
#define DECIMAL_UNIT_DIGITS 30
bool decimal_is_multiple(const struct decimal *number, const struct decimal *unit);

/* The value of a nonnegative integer; SIZE_MAX if it does not fit. */
size_t decimal_size(const struct decimal *number);

/* Equal numbers have equal hashes, however they are written. */
uint64_t decimal_hash(const struct decimal *number);

#endif
