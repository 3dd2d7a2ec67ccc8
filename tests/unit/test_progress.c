/* SPDX-License-Identifier: MIT */
/* cli/progress.c: what is shown of a batch, in every width. */
#include "batch/progress.h"

#include "base/clock.h"
#include "check.h"

static const struct progress half = {.total = 10000, .ok = 1200, .failed = 34, .running = 4};

#define AFTER_10_S (10 * NS_PER_S)

static void test_all_parts_where_there_is_room(void **state)
{
    char line[PROGRESS_SIZE];
    progress_format(&half, AFTER_10_S, 120, line);
    assert_string_equal(line, "brig: [###---------------------------] 1234/10000 12%, 34 failed, 4 "
                              "running, 123/s, 71 s left");
    progress_format(&half, AFTER_10_S, 68, line);
    assert_string_equal(line, "brig: 1234/10000 12%, 34 failed, 4 running, 123/s, 71 s left");
}

static void test_the_least_important_goes_first(void **state)
{
    char line[PROGRESS_SIZE];
    progress_format(&half, AFTER_10_S, 40, line);
    assert_string_equal(line, "1234/10000, 34 failed, 123/s, 71 s left");
    progress_format(&half, AFTER_10_S, 22, line);
    assert_string_equal(line, "1234/10000, 34 failed");
    progress_format(&half, AFTER_10_S, 20, line);
    assert_string_equal(line, "1234/10000");
}

static void test_it_fits_into_every_width(void **state)
{
    struct progress many = {.total = UINT64_C(1) << 40, .ok = UINT64_C(1) << 39, .failed = 7};
    for (unsigned columns = 0; columns < 1000; columns++) {
        char line[PROGRESS_SIZE];
        progress_format(&half, AFTER_10_S, columns, line);
        assert_true(strlen(line) < (columns ? columns : 1));
        progress_format(&many, AFTER_10_S, columns, line);
        assert_true(strlen(line) < (columns ? columns : 1));
    }
}

static void test_without_a_total_there_is_no_end_in_sight(void **state)
{
    struct progress pipe = {.ok = 5, .running = 2};
    char line[PROGRESS_SIZE];
    progress_format(&pipe, AFTER_10_S, 120, line);
    assert_string_equal(line, "brig: 5 done, 2 running, 0.5/s");
}

static void test_what_was_done_before_is_no_speed(void **state)
{
    struct progress resumed = {.total = 100, .ok = 60, .before = 50, .running = 1};
    char line[PROGRESS_SIZE];
    progress_format(&resumed, AFTER_10_S, 60, line);
    assert_contains(line, "60/100 60%, 1 running, 1.0/s, 40 s left");
}

static void test_the_summary(void **state)
{
    static const struct {
        struct progress progress;
        const char *text;
    } cases[] = {
        {{.ok = 9990, .failed = 10, .total = 10000}, "10000 jobs: 9990 ok, 10 failed, in 31 s"},
        {{.ok = 1}, "1 job: 1 ok, 0 failed, in 31 s"},
        {{.ok = 3, .failed = 1, .before = 2}, "4 jobs: 3 ok, 1 failed (2 of them before), in 31 s"},
        {{.ok = 3, .cancelled = 4, .total = 10},
         "7 jobs: 3 ok, 0 failed, 4 cancelled, 3 not started, in 31 s"},
    };
    char line[PROGRESS_SIZE];
    for (size_t i = 0; i < COUNT(cases); i++) {
        progress_summary(&cases[i].progress, 31 * NS_PER_S, line);
        assert_string_equal(line, cases[i].text);
    }
    progress_summary(&half, 1550 * NS_PER_MS, line);
    assert_contains(line, "in 1.5 s");
    progress_summary(&half, 7200 * NS_PER_S, line);
    assert_contains(line, "in 2 h");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_parts_where_there_is_room),
        cmocka_unit_test(test_the_least_important_goes_first),
        cmocka_unit_test(test_it_fits_into_every_width),
        cmocka_unit_test(test_without_a_total_there_is_no_end_in_sight),
        cmocka_unit_test(test_what_was_done_before_is_no_speed),
        cmocka_unit_test(test_the_summary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
