/* SPDX-License-Identifier: MIT */
/* Parsing and formatting of sizes, durations, counts and numbers of CPUs.
 *
 * All arithmetic is on integers: a decimal number is scaled digit by digit, so that 0.1 is exactly
 * a tenth and nothing depends on the locale. */
#include "units.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"

static const char not_number[] = "is not a number";
static const char negative[] = "is negative";
static const char zero[] = "is zero; write \"unlimited\" for no limit";
static const char too_large[] = "is too large";

#define SCALE      UINT64_C(1000000000) /* the resolution: nine decimal places */
#define MAX_DIGITS 9

/* Parse a decimal number into its whole part and billionths. Moves *text past it. */
static const char *parse_decimal(const char **text, uint64_t *whole, uint64_t *billionths)
{
    const char *p = *text;
    uint64_t value = 0, fraction = 0;
    if (*p == '-')
        return negative;
    if (*p < '0' || *p > '9')
        return not_number;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return too_large;
    }
    if (*p == '.') {
        int places = 0;
        p++;
        if (*p < '0' || *p > '9')
            return not_number;
        for (; *p >= '0' && *p <= '9'; p++, places++) {
            if (places < MAX_DIGITS)
                fraction = fraction * 10 + (uint64_t)(*p - '0');
        }
        for (; places < MAX_DIGITS; places++)
            fraction *= 10;
    }
    *text = p;
    *whole = value;
    *billionths = fraction;
    return NULL;
}

/* whole.billionths times unit, rounded down. */
static const char *scale(uint64_t whole, uint64_t billionths, uint64_t unit, uint64_t *out)
{
    unsigned __int128 value = (unsigned __int128)whole * unit;
    value += (unsigned __int128)billionths * unit / SCALE;
    /* UINT64_MAX is reserved: it means "unlimited". */
    if (value >= UINT64_MAX)
        return too_large;
    *out = (uint64_t)value;
    return NULL;
}

struct suffix {
    const char *text;
    uint64_t unit;
};

static const struct suffix size_suffixes[] = {
    {"", 1},
    {"K", UINT64_C(1) << 10},
    {"KiB", UINT64_C(1) << 10},
    {"M", UINT64_C(1) << 20},
    {"MiB", UINT64_C(1) << 20},
    {"G", UINT64_C(1) << 30},
    {"GiB", UINT64_C(1) << 30},
    {"T", UINT64_C(1) << 40},
    {"TiB", UINT64_C(1) << 40},
};

const char *units_parse_size(const char *text, uint64_t *bytes)
{
    uint64_t whole, billionths, value = 0;
    const char *why = parse_decimal(&text, &whole, &billionths);
    if (why)
        return why;
    for (size_t i = 0; i < sizeof size_suffixes / sizeof *size_suffixes; i++) {
        if (strcasecmp(text, size_suffixes[i].text) != 0)
            continue;
        why = scale(whole, billionths, size_suffixes[i].unit, &value);
        if (why)
            return why;
        if (value == 0)
            return zero;
        if (value > INT64_MAX)
            return too_large; /* the kernel's counters are signed */
        *bytes = value;
        return NULL;
    }
    return "is not a size (a number with K, M, G or T)";
}

static const struct suffix duration_suffixes[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", NS_PER_MS},
    {"s", NS_PER_S},
    {"m", 60 * NS_PER_S},
    {"h", 3600 * NS_PER_S},
    {"d", 86400 * NS_PER_S},
};

static uint64_t take_duration_suffix(const char **text)
{
    for (size_t i = 0; i < sizeof duration_suffixes / sizeof *duration_suffixes; i++) {
        size_t len = strlen(duration_suffixes[i].text);
        char next = strncmp(*text, duration_suffixes[i].text, len) == 0 ? (*text)[len] : 'x';
        if (next == 0 || (next >= '0' && next <= '9')) {
            *text += len;
            return duration_suffixes[i].unit;
        }
    }
    return 0;
}

const char *units_parse_duration(const char *text, uint64_t *ns)
{
    uint64_t total = 0, last_unit = UINT64_MAX;
    do {
        uint64_t whole, billionths, part = 0;
        const char *why = parse_decimal(&text, &whole, &billionths);
        if (why)
            return why;
        uint64_t unit =
            *text == 0 && last_unit == UINT64_MAX ? NS_PER_S : take_duration_suffix(&text);
        if (unit == 0 || unit >= last_unit)
            return "is not a duration (500ms, 30s, 5m, 1h30m; bare: seconds)";
        last_unit = unit;
        why = scale(whole, billionths, unit, &part);
        if (why || __builtin_add_overflow(total, part, &total))
            return too_large;
    } while (*text);
    if (total == 0)
        return zero;
    if (total > UINT64_C(100) * 365 * 86400 * NS_PER_S)
        return too_large; /* a hundred years: no deadline can overflow */
    *ns = total;
    return NULL;
}

const char *units_parse_count(const char *text, uint64_t *count)
{
    uint64_t value = 0;
    if (*text == '-')
        return negative;
    if (!*text)
        return not_number;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return "is not a whole number";
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return too_large;
    }
    if (value == 0)
        return zero;
    if (value > INT32_MAX)
        return too_large;
    *count = value;
    return NULL;
}

const char *units_parse_cpus(const char *text, uint64_t *milli_cpus)
{
    uint64_t whole, billionths, value = 0;
    const char *why = parse_decimal(&text, &whole, &billionths);
    if (why)
        return why;
    if (*text)
        return not_number;
    if (whole == 0 && billionths == 0)
        return zero;
    why = scale(whole, billionths, 1000, &value);
    if (why || value > UINT64_C(1000) * 65536)
        return too_large;
    if (value < 10)
        return "is below 0.01, the least the kernel enforces";
    *milli_cpus = value;
    return NULL;
}

/* "1.5" from 1500 thousandths: at most three decimal places, without trailing zeros. */
static void format_thousandths(uint64_t value, char *out, size_t size)
{
    int n = snprintf(out, size, "%llu.%03llu", (unsigned long long)(value / 1000),
                     (unsigned long long)(value % 1000));
    while (n > 0 && out[n - 1] == '0')
        out[--n] = 0;
    if (n > 0 && out[n - 1] == '.')
        out[n - 1] = 0;
}

void units_format_size(uint64_t bytes, char out[UNITS_TEXT_SIZE])
{
    static const char *const names[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t i = 0;
    uint64_t unit = 1;
    while (i + 1 < sizeof names / sizeof *names && bytes / unit >= 1024) {
        unit <<= 10;
        i++;
    }
    /* One decimal place is enough to read; a whole number of units shows none. */
    uint64_t tenths = (uint64_t)((unsigned __int128)bytes * 10 / unit);
    char number[24];
    format_thousandths(tenths * 100, number, sizeof number);
    snprintf(out, UNITS_TEXT_SIZE, "%s %s", number, names[i]);
}

void units_format_duration(uint64_t ns, char out[UNITS_TEXT_SIZE])
{
    uint64_t ms = ns / NS_PER_MS, s = ms / 1000;
    char number[24];
    if (ms < 1000) {
        format_thousandths(ns / 1000, number, sizeof number);
        snprintf(out, UNITS_TEXT_SIZE, "%sms", number);
    } else if (s < 60) {
        format_thousandths(ms, number, sizeof number);
        snprintf(out, UNITS_TEXT_SIZE, "%ss", number);
    } else {
        int n = 0;
        if (s >= 3600)
            n = snprintf(out, UNITS_TEXT_SIZE, "%lluh", (unsigned long long)(s / 3600));
        if (s % 3600 >= 60)
            n += snprintf(out + n, UNITS_TEXT_SIZE - (size_t)n, "%dm", (int)(s % 3600 / 60));
        if (s % 60)
            snprintf(out + n, UNITS_TEXT_SIZE - (size_t)n, "%ds", (int)(s % 60));
    }
}

void units_format_cpus(uint64_t milli_cpus, char out[UNITS_TEXT_SIZE])
{
    format_thousandths(milli_cpus, out, UNITS_TEXT_SIZE);
}
