/* Numbers as JSON writes them, exactly: compared on their text, without floating point and without
 * a locale. Pure; allocates nothing. Used by the checks of a JSON schema. */
#ifndef LIB_DECIMAL_H
#define LIB_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0.DIGITS times ten to the power of `point`. It refers to the text that it was read from. */
struct decimal {
    const char *digits; /* from the first that is not 0; may have a point in between */
    size_t count;       /* of digits, without zeros at the end; 0: the number is zero */
    int64_t point;      /* exponents end at plus and minus DECIMAL_EXPONENT_MAX */
    bool negative;      /* never of zero */
};

#define DECIMAL_EXPONENT_MAX INT64_C(1000000000000000)

/* `text`: a number of the grammar of JSON, NUL-terminated. */
struct decimal decimal_read(const char *text);

/* Less than 0, 0 or more than 0, as a is less than, equal to or more than b. */
int decimal_compare(const struct decimal *a, const struct decimal *b);

bool decimal_is_integer(const struct decimal *number);

/* Whether there is an integer that, times `unit`, is the number. The unit is above 0 and has at
 * most DECIMAL_UNIT_DIGITS digits. */
#define DECIMAL_UNIT_DIGITS 30
bool decimal_is_multiple(const struct decimal *number, const struct decimal *unit);

/* An integer that is not negative; SIZE_MAX if it is larger than any size. */
size_t decimal_size(const struct decimal *number);

/* The same for numbers that are equal, however they are written. */
uint64_t decimal_hash(const struct decimal *number);

#endif
