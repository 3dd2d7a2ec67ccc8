/* SPDX-License-Identifier: MIT */
/* base/nearest.c: slips of the fingers are recognized, words that have nothing in common are not,
 * and no length of a word does harm. */
#include "base/nearest.h"

#include "check.h"

static const char *nearest_of(const char *word)
{
    static const char *const names[] = {"memory", "cpus", "pids", "pid", "kill-after", "ro", "rw"};
    static char hint[NEAREST_HINT_SIZE];
    struct nearest nearest;
    nearest_init(&nearest, word, strlen(word));
    for (size_t i = 0; i < COUNT(names); i++)
        nearest_try(&nearest, names[i]);
    return nearest_hint(&nearest, "", hint);
}

static void test_review_u10_slips_are_recognized(void **state)
{
    static const char *const rows[][2] = {
        {"memroy", "memory"},
        {"memry", "memory"},
        {"MEMORY", "memory"},
        {"mem", "memory"},
        {"cpu", "cpus"},
        {"kill_after", "kill-after"},
        {"killafter", "kill-after"},
        {"memmorry", "memory"},
        {"or", "ro"},
        {"pdi", "pid"},
        {"kill-aftre", "kill-after"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char expected[NEAREST_HINT_SIZE];
        snprintf(expected, sizeof expected, " (did you mean %s?)", rows[i][1]);
        assert_string_equal(nearest_of(rows[i][0]), expected);
    }
}

static void test_review_u10_strangers_have_no_nearest_name(void **state)
{
    static const char *const words[] = {"", "x", "colour", "frobnicate", "zz", "--"};
    for (size_t i = 0; i < COUNT(words); i++)
        assert_string_equal(nearest_of(words[i]), "");
}

static void test_words_and_names_of_every_length(void **state)
{
    char word[3 * NEAREST_MAX], hint[NEAREST_HINT_SIZE];
    for (size_t len = 0; len < sizeof word; len++) {
        struct nearest nearest;
        memset(word, 'a', sizeof word);
        word[len] = 0;
        nearest_init(&nearest, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 48);
        nearest_try(&nearest, word);
        assert_true(strlen(nearest_hint(&nearest, "--", hint)) < sizeof hint);
        nearest_init(&nearest, word, len);
        nearest_try(&nearest, "aaaaaaaa");
        nearest_try(&nearest, word);
        assert_true(strlen(nearest_hint(&nearest, "--", hint)) < sizeof hint);
    }
}

static void test_names_of_a_list(void **state)
{
    char hint[NEAREST_HINT_SIZE];
    struct nearest nearest;
    nearest_init(&nearest, "hots,more", 4);
    nearest_try_list(&nearest, "none|host|hostess");
    assert_string_equal(nearest_hint(&nearest, "", hint), " (did you mean host?)");
    nearest_init(&nearest, "last", 4);
    nearest_try_list(&nearest, "none|lats");
    assert_string_equal(nearest_hint(&nearest, "", hint), " (did you mean lats?)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_review_u10_slips_are_recognized),
        cmocka_unit_test(test_review_u10_strangers_have_no_nearest_name),
        cmocka_unit_test(test_words_and_names_of_every_length),
        cmocka_unit_test(test_names_of_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
