/* SPDX-License-Identifier: MIT */
/* Compares decimal numbers of any length digit by digit. */
#include "decimal.h"

/* Read the exponent after the e, clamped to the maximum. */
static int64_t read_exponent(const char *text)
{
    bool negative = *text == '-';
    int64_t value = 0;
    text += *text == '-' || *text == '+';
    for (; *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (*text - '0');
        if (value > DECIMAL_EXPONENT_MAX)
            value = DECIMAL_EXPONENT_MAX;
    }
    return negative ? -value : value;
}

struct decimal decimal_read(const char *text)
{
    struct decimal d = {.negative = *text == '-'};
    bool fraction = false;
    size_t count = 0;
    text += *text == '-';
    for (; *text && *text != 'e' && *text != 'E'; text++) {
        if (*text == '.') {
            fraction = true;
        } else if (!d.digits && *text == '0') {
            d.point -= fraction; /* a zero before the first significant digit */
        } else {
            if (!d.digits)
                d.digits = text;
            count++;
            d.point += !fraction;
            if (*text != '0')
                d.count = count;
        }
    }
    if (!d.digits)
        return (struct decimal){.count = 0};
    if (*text)
        d.point += read_exponent(text + 1);
    return d;
}

static int next_digit(const char **at)
{
    *at += **at == '.';
    return *(*at)++ - '0';
}

static int compare_size(const struct decimal *a, const struct decimal *b)
{
    const char *x = a->digits, *y = b->digits;
    if (!a->count || !b->count)
        return (a->count > 0) - (b->count > 0);
    if (a->point != b->point)
        return a->point < b->point ? -1 : 1;
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        int order = next_digit(&x) - next_digit(&y);
        if (order)
            return order;
    }
    return (a->count > b->count) - (a->count < b->count);
}

int decimal_compare(const struct decimal *a, const struct decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    int order = compare_size(a, b);
    return a->negative ? -order : order;
}

bool decimal_is_integer(const struct decimal *number)
{
    return number->count == 0 || (number->point > 0 && number->count <= (uint64_t)number->point);
}

/* Both are integers without trailing zeros, times a power of ten. If the power of the unit is
 * higher, the number would need trailing zeros to be a multiple. Otherwise the difference of the
 * powers is multiplied into the remainder. Once it covers all factors 2 and 5 that the unit can
 * have, further tens change nothing. */
bool decimal_is_multiple(const struct decimal *number, const struct decimal *unit)
{
    unsigned __int128 modulus = 0, rest = 0;
    const char *at = unit->digits;
    if (number->count == 0)
        return true;
    int64_t tens = number->point - (int64_t)number->count - (unit->point - (int64_t)unit->count);
    if (tens < 0 || unit->count == 0 || unit->count > DECIMAL_UNIT_DIGITS)
        return false;
    for (size_t i = 0; i < unit->count; i++)
        modulus = modulus * 10 + (unsigned)next_digit(&at);
    at = number->digits;
    for (size_t i = 0; i < number->count; i++)
        rest = (rest * 10 + (unsigned)next_digit(&at)) % modulus;
    for (int64_t i = 0; i < tens && i < 4 * DECIMAL_UNIT_DIGITS && rest; i++)
        rest = rest * 10 % modulus;
    return rest == 0;
}

size_t decimal_size(const struct decimal *number)
{
    size_t value = 0;
    const char *at = number->digits;
    if (number->count == 0)
        return 0;
    if (number->point > 18)
        return SIZE_MAX;
    for (int64_t i = 0; i < number->point; i++)
        value = value * 10 + ((size_t)i < number->count ? (size_t)next_digit(&at) : 0);
    return value;
}

uint64_t decimal_hash(const struct decimal *number)
{
    uint64_t hash = ((uint64_t)number->point * 2 + number->negative) * UINT64_C(0x9e3779b97f4a7c15);
    const char *at = number->digits;
    for (size_t i = 0; i < number->count; i++)
        hash = (hash ^ (uint64_t)next_digit(&at)) * UINT64_C(0x100000001b3);
    return number->count ? hash : 0;
}
