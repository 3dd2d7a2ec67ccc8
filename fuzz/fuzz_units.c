/* SPDX-License-Identifier: MIT */
/* base/units.c: an accepted value is in range and means the same in another notation; a refused one
 * leaves the output unchanged. */
#include <ctype.h>

#include "base/units.h"
#include "target.h"

#define UNTOUCHED UINT64_C(0x5ca1ab1e5ca1ab1e)

struct kind {
    const char *(*parse)(const char *, uint64_t *);
    void (*format)(uint64_t, char *);
    uint64_t least, most;
    bool lossy; /* the written form may be rounded */
};

static void format_count(uint64_t value, char *out)
{
    snprintf(out, UNITS_TEXT_SIZE, "%llu", (unsigned long long)value);
}

static const struct kind kinds[] = {
    {units_parse_size, units_format_size, 1, INT64_MAX, true},
    {units_parse_duration, units_format_duration, 1, UINT64_C(3153600000000000000), true},
    {units_parse_count, format_count, 1, INT32_MAX, false},
    {units_parse_cpus, units_format_cpus, 10, 65536000, false},
};

static bool is_same_with_a_zero_before(const struct kind *kind, const char *text, uint64_t value)
{
    char *other = NULL;
    uint64_t again = UNTOUCHED;
    ensure(asprintf(&other, "0%s", text) >= 0);
    const char *why = kind->parse(other, &again);
    free(other);
    return !why && again == value;
}

static bool is_refused(const struct kind *kind, const char *before, const char *text,
                       const char *after)
{
    char *other = NULL;
    uint64_t again = UNTOUCHED;
    ensure(asprintf(&other, "%s%s%s", before, text, after) >= 0);
    const char *why = kind->parse(other, &again);
    free(other);
    return why && again == UNTOUCHED;
}

/* The formatted value can be parsed again, except for the space and the large units of sizes. */
static void check_written(const struct kind *kind, uint64_t value)
{
    char text[UNITS_TEXT_SIZE];
    uint64_t again = UNTOUCHED;
    memset(text, '#', sizeof text);
    kind->format(value, text);
    ensure(memchr(text, 0, sizeof text));
    ensure(isdigit((unsigned char)text[0]) && is_printable(text));
    if (strchr(text, ' ') || (kind->lossy && strcmp(text, "0ms") == 0))
        return;
    ensure(!kind->parse(text, &again));
    ensure(kind->lossy ? again <= value : again == value);
}

static void check_kind(const struct kind *kind, const char *text)
{
    uint64_t value = UNTOUCHED;
    const char *why = kind->parse(text, &value);
    if (why) {
        ensure(value == UNTOUCHED && strncmp(why, "is ", 3) == 0 && is_printable(why));
        return;
    }
    ensure(value >= kind->least && value <= kind->most);
    ensure(isdigit((unsigned char)text[0]));
    for (const char *p = text; *p; p++)
        ensure(isalnum((unsigned char)*p) || *p == '.');
    ensure(is_same_with_a_zero_before(kind, text, value));
    ensure(is_refused(kind, "-", text, "") && is_refused(kind, "+", text, ""));
    ensure(is_refused(kind, " ", text, "") && is_refused(kind, "", text, " "));
    ensure(is_refused(kind, "", text, ".") && is_refused(kind, "", text, "\n"));
    check_written(kind, value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = target_text(data, size);
    struct input input = {data, size};
    uint64_t any = input_number(&input, 8);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char written[UNITS_TEXT_SIZE];
        check_kind(&kinds[i], text);
        kinds[i].format(any, written);
        ensure(memchr(written, 0, sizeof written) && is_printable(written));
    }
    free(text);
    return 0;
}
