/* SPDX-License-Identifier: MIT */
/* base/units.c: what is accepted, what is refused and why, and that values survive the way to text
 * and back. */
#include "base/units.h"

#include "base/clock.h"
#include "check.h"
#include "random.h"

typedef const char *parse_function(const char *, uint64_t *);

struct good {
    const char *text;
    uint64_t value;
};

struct bad {
    const char *text, *why;
};

#define UNTOUCHED UINT64_C(0x5ca1ab1e)

static void check_good(parse_function *parse, const struct good *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = UNTOUCHED;
        const char *why = parse(rows[i].text, &value);
        if (why || value != rows[i].value)
            fail_msg("\"%s\" is %llu (%s), expected %llu", rows[i].text, (unsigned long long)value,
                     why ? why : "accepted", (unsigned long long)rows[i].value);
    }
}

static void check_bad(parse_function *parse, const struct bad *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = UNTOUCHED;
        const char *why = parse(rows[i].text, &value);
        if (!why || !strstr(why, rows[i].why))
            fail_msg("\"%s\" is refused with \"%s\", expected \"%s\"", rows[i].text,
                     why ? why : "nothing", rows[i].why);
        assert_int_equal(value, UNTOUCHED);
    }
}

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (MIB * KIB)
#define TIB (GIB * KIB)

/* ---- parsing ------------------------------------------------------------------------------- */

static void test_size_accepts_numbers_with_their_units(void **state)
{
    static const struct good rows[] = {
        {"1", 1},          {"4096", 4096},
        {"00010", 10},     {"512M", 512 * MIB},
        {"2G", 2 * GIB},   {"2g", 2 * GIB},
        {"3K", 3 * KIB},   {"3KiB", 3 * KIB},
        {"3kib", 3 * KIB}, {"3MiB", 3 * MIB},
        {"3GiB", 3 * GIB}, {"1T", TIB},
        {"1TiB", TIB},     {"1.5G", GIB + GIB / 2},
        {"0.5K", 512},     {"0.1G", 107374182}, /* exactly a tenth, rounded down */
        {"1.9", 1},        {"1.99999999999999999999", 1},
    };
    check_good(units_parse_size, rows, COUNT(rows));
}

static void test_size_accepts_what_the_kernel_can_count_and_no_more(void **state)
{
    static const struct good rows[] = {
        {"9223372036854775807", INT64_MAX},
        {"8388607T", 8388607 * TIB},
    };
    static const struct bad over[] = {
        {"9223372036854775808", "is too large"},
        {"8388608T", "is too large"},
        {"18446744073709551614", "is too large"},
        {"18446744073709551615", "is too large"}, /* the value that means unlimited */
        {"18446744073709551616", "is too large"},
        {"16777216T", "is too large"}, /* 2^64 exactly */
        {"999999999999999999999999999999999", "is too large"},
        {"18446744073709551615.999999999T", "is too large"},
    };
    check_good(units_parse_size, rows, COUNT(rows));
    check_bad(units_parse_size, over, COUNT(over));
}

static void test_size_refuses_zero_and_what_rounds_to_it(void **state)
{
    static const struct bad rows[] = {
        {"0", "is zero"},   {"0K", "is zero"},  {"0.0G", "is zero"},
        {"0.4", "is zero"}, {"000", "is zero"}, {"0.000000000001T", "is zero"},
        {"0", "unlimited"}, /* the sentence says what to write instead */
    };
    check_bad(units_parse_size, rows, COUNT(rows));
}

static void test_size_refuses_negative_numbers(void **state)
{
    static const struct bad rows[] = {
        {"-1", "is negative"}, {"-0", "is negative"}, {"-1G", "is negative"}, {"-", "is negative"}};
    check_bad(units_parse_size, rows, COUNT(rows));
}

static void test_size_refuses_what_is_not_all_of_it_a_size(void **state)
{
    static const struct bad rows[] = {
        {"", "is not a number"},          {" 1", "is not a number"},  {"G", "is not a number"},
        {"+1", "is not a number"},        {".5", "is not a number"},  {"1.", "is not a number"},
        {"1.G", "is not a number"},       {"nan", "is not a number"}, {"inf", "is not a number"},
        {"\xd9\xa1", "is not a number"}, /* a digit, in Arabic */
        {"unlimited", "is not a number"}, {"1 G", "is not a size"},   {"1G ", "is not a size"},
        {"1GB", "is not a size"},         {"1Gi", "is not a size"},   {"1X", "is not a size"},
        {"1P", "is not a size"},          {"1e3", "is not a size"},   {"0x10", "is not a size"},
        {"1,5G", "is not a size"},        {"1.5.5", "is not a size"}, {"1G1", "is not a size"},
        {"1\n", "is not a size"},         {"1KK", "is not a size"},
    };
    check_bad(units_parse_size, rows, COUNT(rows));
}

static void test_duration_accepts_units_from_large_to_small(void **state)
{
    static const struct good rows[] = {
        {"90", 90 * NS_PER_S},
        {"1.5", NS_PER_S + NS_PER_S / 2},
        {"500ms", 500 * NS_PER_MS},
        {"30s", 30 * NS_PER_S},
        {"5m", 300 * NS_PER_S},
        {"1h30m", 5400 * NS_PER_S},
        {"1h30m15s", 5415 * NS_PER_S},
        {"1d", 86400 * NS_PER_S},
        {"1d2h3m4s5ms6us7ns", 93784005006007},
        {"1.5h", 5400 * NS_PER_S},
        {"1h0.5m", 3630 * NS_PER_S},
        {"0h1s", NS_PER_S},
        {"0.1", NS_PER_S / 10},
        {"0.000000001", 1},
        {"1ns", 1},
        {"250us", 250000},
        {"1s500ms", NS_PER_S + NS_PER_S / 2},
    };
    check_good(units_parse_duration, rows, COUNT(rows));
}

static void test_duration_ends_at_a_hundred_years(void **state)
{
    static const struct good most[] = {{"36500d", UINT64_C(36500) * 86400 * NS_PER_S}};
    static const struct bad over[] = {
        {"36500d1ns", "is too large"},
        {"36501d", "is too large"},
        {"213503d", "is too large"}, /* 2^64 ns are 213,503.98 days */
        {"213504d", "is too large"},
        {"213503d213503h", "is too large"}, /* only the sum is too large */
        {"18446744073709551615ns", "is too large"},
        {"18446744073709551616", "is too large"},
        {"99999999999999999999d", "is too large"},
    };
    check_good(units_parse_duration, most, COUNT(most));
    check_bad(units_parse_duration, over, COUNT(over));
}

static void test_duration_refuses_zero_and_negative(void **state)
{
    static const struct bad rows[] = {
        {"0", "is zero"},
        {"0s", "is zero"},
        {"0h0m0s", "is zero"},
        {"0.4ns", "is zero"},
        {"-1", "is negative"},
        {"-5m", "is negative"},
        {"0.0000000001s", "is zero"},
    };
    check_bad(units_parse_duration, rows, COUNT(rows));
}

static void test_duration_refuses_units_out_of_order_twice_or_missing(void **state)
{
    static const struct bad rows[] = {
        {"30m1h", "is not a duration"},   {"1s1s", "is not a duration"},
        {"1h30", "is not a duration"},    {"1h-5m", "is not a duration"},
        {"1h 5m", "is not a duration"},   {"1H", "is not a duration"},
        {"1min", "is not a duration"},    {"1sec", "is not a duration"},
        {"1 s", "is not a duration"},     {"1s ", "is not a duration"},
        {"1w", "is not a duration"},      {"1M", "is not a duration"},
        {"1mss", "is not a duration"},    {"1.5.5", "is not a duration"},
        {"1e3", "is not a duration"},     {"", "is not a number"},
        {"s", "is not a number"},         {"1.", "is not a number"},
        {"1.s", "is not a number"},       {" 1s", "is not a number"},
        {"unlimited", "is not a number"}, {"1:30", "is not a duration"},
    };
    check_bad(units_parse_duration, rows, COUNT(rows));
}

static void test_count_accepts_whole_numbers_up_to_what_a_pid_can_be(void **state)
{
    static const struct good rows[] = {
        {"1", 1}, {"100", 100}, {"007", 7}, {"2147483647", INT32_MAX}};
    static const struct bad over[] = {
        {"2147483648", "is too large"},
        {"18446744073709551615", "is too large"},
        {"18446744073709551616", "is too large"},
        {"184467440737095516160", "is too large"},
    };
    check_good(units_parse_count, rows, COUNT(rows));
    check_bad(units_parse_count, over, COUNT(over));
}

static void test_count_refuses_everything_else(void **state)
{
    static const struct bad rows[] = {
        {"0", "is zero"},
        {"00", "is zero"},
        {"-1", "is negative"},
        {"", "is not a number"},
        {"1.5", "is not a whole number"},
        {"1K", "is not a whole number"},
        {" 1", "is not a whole number"},
        {"1 ", "is not a whole number"},
        {"+1", "is not a whole number"},
        {"many", "is not a whole number"},
    };
    check_bad(units_parse_count, rows, COUNT(rows));
}

static void test_cpus_accepts_hundredths_of_one_up_to_65536(void **state)
{
    static const struct good rows[] = {
        {"0.01", 10},        {"0.5", 500},   {"1", 1000},      {"2.25", 2250},
        {"65536", 65536000}, {"0.0109", 10}, {"1.0009", 1000},
    };
    static const struct bad bad[] = {
        {"0", "is zero"},
        {"0.000", "is zero"},
        {"0.009", "is below 0.01"},
        {"0.000000001", "is below 0.01"},
        {"65536.001", "is too large"},
        {"65537", "is too large"},
        {"18446744073709551615", "is too large"},
        {"18446744073709551616", "is too large"},
        {"-1", "is negative"},
        {"", "is not a number"},
        {"1x", "is not a number"},
        {"1.", "is not a number"},
        {"1 ", "is not a number"},
        {"1,5", "is not a number"},
        {"50%", "is not a number"},
    };
    check_good(units_parse_cpus, rows, COUNT(rows));
    check_bad(units_parse_cpus, bad, COUNT(bad));
}

/* ---- formatting ---------------------------------------------------------------------------- */

static void check_format(void (*format)(uint64_t, char *), const struct good *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char text[UNITS_TEXT_SIZE];
        format(rows[i].value, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void test_size_is_written_in_the_largest_unit_with_one_place(void **state)
{
    static const struct good rows[] = {
        {"0 bytes", 0},           {"1 bytes", 1},       {"1023 bytes", 1023},
        {"1 KiB", KIB},           {"1.5 KiB", 1536},    {"1023.9 KiB", MIB - 1},
        {"512 MiB", 512 * MIB},   {"2 GiB", 2 * GIB},   {"10 GiB", 10 * GIB},
        {"1 TiB", TIB},           {"1 PiB", TIB * KIB}, {"8 EiB", UINT64_C(1) << 63},
        {"15.9 EiB", UINT64_MAX},
    };
    check_format(units_format_size, rows, COUNT(rows));
}

static void test_duration_is_written_as_people_do(void **state)
{
    static const struct good rows[] = {
        {"0ms", 0},
        {"0ms", 999},
        {"0.001ms", 1000},
        {"0.25ms", 250000},
        {"20ms", 20 * NS_PER_MS},
        {"999.999ms", NS_PER_S - 1},
        {"1s", NS_PER_S},
        {"1.5s", NS_PER_S + NS_PER_S / 2},
        {"10s", 10 * NS_PER_S},
        {"59.999s", 60 * NS_PER_S - 1},
        {"1m", 60 * NS_PER_S},
        {"1m30s", 90 * NS_PER_S},
        {"30m", 1800 * NS_PER_S},
        {"1h", 3600 * NS_PER_S},
        {"1h30m", 5400 * NS_PER_S},
        {"1h5s", 3605 * NS_PER_S},
        {"36h", 36 * 3600 * NS_PER_S},
        {"5124095h34m33s", UINT64_MAX},
    };
    check_format(units_format_duration, rows, COUNT(rows));
}

static void test_cpus_are_written_without_trailing_zeros(void **state)
{
    static const struct good rows[] = {
        {"0.01", 10}, {"0.5", 500}, {"1", 1000}, {"2.25", 2250}, {"10", 10000}, {"65536", 65536000},
    };
    check_format(units_format_cpus, rows, COUNT(rows));
}

/* ---- there and back ------------------------------------------------------------------------ */

static void test_cpus_survive_the_way_to_text_and_back(void **state)
{
    for (uint64_t value = 10; value <= 65536000; value += value < 100000 ? 1 : 997) {
        char text[UNITS_TEXT_SIZE];
        uint64_t back = 0;
        units_format_cpus(value, text);
        assert_null(units_parse_cpus(text, &back));
        assert_int_equal(back, value);
    }
}

static void check_duration_survives(uint64_t value)
{
    char text[UNITS_TEXT_SIZE];
    uint64_t back = 0;
    units_format_duration(value, text);
    assert_null(units_parse_duration(text, &back));
    assert_int_equal(back, value);
}

static void test_durations_survive_the_way_to_text_and_back(void **state)
{
    struct random random = {1};
    for (int i = 0; i < 20000; i++) {
        check_duration_survives((1 + random_below(&random, 999999)) * 1000); /* below a second */
        check_duration_survives((1000 + random_below(&random, 59000)) * NS_PER_MS);
        check_duration_survives((60 + random_below(&random, 3153600000 - 60)) * NS_PER_S);
    }
}

/* "1.5 GiB" as "1.5GiB", which is what the parser takes. */
static uint64_t parse_written_size(const char *text)
{
    char joined[UNITS_TEXT_SIZE];
    uint64_t value = 0;
    size_t digits = strspn(text, "0123456789.");
    const char *unit = strcmp(text + digits, " bytes") == 0 ? "" : text + digits + 1;
    snprintf(joined, sizeof joined, "%.*s%s", (int)digits, text, unit);
    const char *why = units_parse_size(joined, &value);
    if (why)
        fail_msg("\"%s\" %s", joined, why);
    return value;
}

static void test_sizes_survive_but_for_less_than_a_tenth_of_their_unit(void **state)
{
    struct random random = {2};
    for (int i = 0; i < 50000; i++) {
        uint64_t value = 1 + random_next(&random) % (1024 * TIB - 1) /
                                 (UINT64_C(1) << random_below(&random, 50));
        uint64_t unit = value >= TIB   ? TIB
                        : value >= GIB ? GIB
                        : value >= MIB ? MIB
                        : value >= KIB ? KIB
                                       : 1;
        char text[UNITS_TEXT_SIZE];
        units_format_size(value, text);
        uint64_t back = parse_written_size(text);
        assert_true(back <= value);
        assert_true(value - back <= unit / 10 + 1);
    }
}

static void test_whole_units_survive_exactly(void **state)
{
    for (uint64_t unit = 1; unit <= TIB; unit *= 1024) {
        for (uint64_t n = 1; n < 1024; n++) {
            char text[UNITS_TEXT_SIZE];
            units_format_size(n * unit, text);
            assert_int_equal(parse_written_size(text), n * unit);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_accepts_numbers_with_their_units),
        cmocka_unit_test(test_size_accepts_what_the_kernel_can_count_and_no_more),
        cmocka_unit_test(test_size_refuses_zero_and_what_rounds_to_it),
        cmocka_unit_test(test_size_refuses_negative_numbers),
        cmocka_unit_test(test_size_refuses_what_is_not_all_of_it_a_size),
        cmocka_unit_test(test_duration_accepts_units_from_large_to_small),
        cmocka_unit_test(test_duration_ends_at_a_hundred_years),
        cmocka_unit_test(test_duration_refuses_zero_and_negative),
        cmocka_unit_test(test_duration_refuses_units_out_of_order_twice_or_missing),
        cmocka_unit_test(test_count_accepts_whole_numbers_up_to_what_a_pid_can_be),
        cmocka_unit_test(test_count_refuses_everything_else),
        cmocka_unit_test(test_cpus_accepts_hundredths_of_one_up_to_65536),
        cmocka_unit_test(test_size_is_written_in_the_largest_unit_with_one_place),
        cmocka_unit_test(test_duration_is_written_as_people_do),
        cmocka_unit_test(test_cpus_are_written_without_trailing_zeros),
        cmocka_unit_test(test_cpus_survive_the_way_to_text_and_back),
        cmocka_unit_test(test_durations_survive_the_way_to_text_and_back),
        cmocka_unit_test(test_sizes_survive_but_for_less_than_a_tenth_of_their_unit),
        cmocka_unit_test(test_whole_units_survive_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
