/* SPDX-License-Identifier: MIT */
/* base/clock.c: calendar time as text, in UTC and to the millisecond. */
#include "base/clock.h"

#include "check.h"

static void check_text(int64_t ns, const char *expected)
{
    char text[CLOCK_TEXT_SIZE];
    clock_format(ns, text);
    assert_string_equal(text, expected);
}

static void test_known_moments(void **state)
{
    check_text(0, "1970-01-01T00:00:00.000Z");
    check_text(INT64_C(999999999), "1970-01-01T00:00:00.999Z");
    check_text(INT64_C(1709210096001000000), "2024-02-29T12:34:56.001Z");
    check_text(INT64_C(4102444799123456789), "2099-12-31T23:59:59.123Z");
    check_text(INT64_MAX, "2262-04-11T23:47:16.854Z");
}

static void test_the_time_zone_does_not_matter(void **state)
{
    setenv("TZ", "Asia/Tokyo", 1);
    tzset();
    check_text(0, "1970-01-01T00:00:00.000Z");
    unsetenv("TZ");
    tzset();
}

static void test_the_monotonic_clock_does_not_go_back(void **state)
{
    uint64_t last = clock_now();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = clock_now();
        assert_true(now >= last);
        last = now;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_moments),
        cmocka_unit_test(test_the_time_zone_does_not_matter),
        cmocka_unit_test(test_the_monotonic_clock_does_not_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
