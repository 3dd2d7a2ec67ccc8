/* SPDX-License-Identifier: MIT */
/* lib/keys.c: the table holds together, because the command line, the manual and the completions
 * are all made from it without a second look. */
#include "lib/spec/keys.h"

#include <ctype.h>

#include "check.h"

static void test_the_public_table_is_the_table(void **state)
{
    size_t count = 0;
    assert_ptr_equal(brig_keys(&count), key_table);
    assert_int_equal(count, KEY_COUNT);
}

static void test_every_row_is_filled(void **state)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        const struct brig_key *key = &key_table[i];
        assert_non_null(key->name);
        assert_non_null(key->option);
        assert_non_null(key->argument);
        assert_non_null(key->help);
        if (key->type == BRIG_TYPE_CHOICE)
            assert_non_null(key->choices);
        else if (key->choices) /* the words that a list is made of */
            assert_true(key->type == BRIG_TYPE_LIST || key->type == BRIG_TYPE_TEXT);
    }
}

static void test_names_options_and_letters_are_unique(void **state)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(key_table[i].name, key_table[j].name);
            assert_string_not_equal(key_table[i].option, key_table[j].option);
            assert_false(key_table[i].letter && key_table[i].letter == key_table[j].letter);
        }
    }
}

/* A list is named in the plural in JSON and given one at a time on the command line. */
static void test_the_option_is_the_name_with_dashes(void **state)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "%s", i == KEY_LABELS ? "label" : key_table[i].name);
        for (char *p = expected; *p; p++) {
            assert_true(islower((unsigned char)*p) || *p == '_');
            *p = *p == '_' ? '-' : *p;
        }
        assert_string_equal(key_table[i].option, expected);
    }
}

static void test_help_is_one_short_line_without_a_dot(void **state)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        const char *help = key_table[i].help;
        size_t len = strlen(help);
        assert_true(len > 0 && len < 60);
        assert_int_not_equal(help[len - 1], '.');
        assert_false(isupper((unsigned char)help[0]));
        for (const char *p = help; *p; p++)
            assert_true(isprint((unsigned char)*p));
    }
}

/* The completions put the help between quotes and brackets as it is. */
static void test_help_holds_nothing_that_a_shell_takes_for_its_own(void **state)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        if (strpbrk(key_table[i].help, "\"`[]\\$"))
            fail_msg("%s: %s", key_table[i].name, key_table[i].help);
    }
}

static void test_details_are_sentences(void **state)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        const char *detail = key_table[i].detail;
        if (!detail)
            continue;
        assert_int_equal(detail[strlen(detail) - 1], '.');
        assert_null(strchr(detail, '\n'));
    }
}

static void test_every_default_parses_and_none_is_for_a_list(void **state)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        const struct brig_key *key = &key_table[i];
        uint64_t value;
        if (!key->initial)
            continue;
        assert_true(key_is_number(key));
        assert_null(key_parse_number(key, key->initial, &value));
    }
}

static void test_limits_are_numbers_and_only_they_can_be_unlimited(void **state)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        const struct brig_key *key = &key_table[i];
        if (key->limit)
            assert_true(key_is_number(key) && key->type != BRIG_TYPE_CHOICE);
        if (key->unlimited)
            assert_true(key->limit);
    }
}

static void test_the_defaults_are_those_of_the_design(void **state)
{
    static const struct {
        enum key key;
        uint64_t value;
    } rows[] = {
        {KEY_MEMORY, UINT64_C(2) << 30},
        {KEY_CPUS, 1000},
        {KEY_CPU_PRIORITY, CPU_PRIORITY_NORMAL},
        {KEY_PIDS, 100},
        {KEY_TIMEOUT, UINT64_C(1800000000000)},
        {KEY_KILL_AFTER, UINT64_C(3000000000)},
        {KEY_CPU_TIME, BRIG_UNLIMITED},
        {KEY_OUTPUT, 10 << 20},
        {KEY_ON_OUTPUT_LIMIT, ON_LIMIT_KILL},
        {KEY_ON_PIDS_LIMIT, ON_LIMIT_KILL},
        {KEY_NETWORK, NETWORK_NONE},
        {KEY_REDACT, REDACT_OFF},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t value = 0;
        const struct brig_key *key = &key_table[rows[i].key];
        assert_null(key_parse_number(key, key->initial, &value));
        assert_int_equal(value, rows[i].value);
    }
    uint64_t shared = 7;
    assert_null(key_parse_number(&key_table[KEY_REDACT], key_table[KEY_REDACT].shared, &shared));
    assert_int_equal(shared, REDACT_ON);
}

static void test_find_knows_every_name_and_no_other(void **state)
{
    for (int i = 0; i < KEY_COUNT; i++)
        assert_int_equal(key_find(key_table[i].name), i);
    assert_int_equal(key_find(""), -1);
    assert_int_equal(key_find("Memory"), -1);
    assert_int_equal(key_find("memor"), -1);
    assert_int_equal(key_find("memory "), -1);
    assert_int_equal(key_find("kill-after"), -1);
}

static void test_unlimited_is_taken_only_where_the_table_says_so(void **state)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        const struct brig_key *key = &key_table[i];
        uint64_t value = 7;
        if (!key_is_number(key))
            continue;
        const char *why = key_parse_number(key, "unlimited", &value);
        assert_true((why == NULL) == key->unlimited);
        assert_int_equal(value, key->unlimited ? BRIG_UNLIMITED : 7);
        assert_non_null(key_parse_number(key, "Unlimited", &value));
    }
}

static void test_a_choice_is_one_of_its_words_exactly(void **state)
{
    const struct brig_key *key = &key_table[KEY_ON_OUTPUT_LIMIT];
    static const char *const bad[] = {"",     "kil",   "kill|",   "kill|truncate", "|",
                                      "Kill", "kill ", "truncat", "unlimited",     "0"};
    uint64_t value = 7;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_non_null(key_parse_number(key, bad[i], &value));
        assert_int_equal(value, 7);
    }
    assert_null(key_parse_number(key, "kill", &value));
    assert_int_equal(value, ON_LIMIT_KILL);
    assert_null(key_parse_number(key, "truncate", &value));
    assert_int_equal(value, ON_OUTPUT_TRUNCATE);
    assert_null(key_parse_number(&key_table[KEY_ON_PIDS_LIMIT], "fail", &value));
    assert_int_equal(value, ON_PIDS_FAIL);
    assert_null(key_parse_number(&key_table[KEY_NETWORK], "host", &value));
    assert_int_equal(value, NETWORK_HOST);
    assert_null(key_parse_number(&key_table[KEY_REDACT], "off", &value));
    assert_int_equal(value, REDACT_OFF);
}

static void test_a_key_that_is_not_a_number_does_not_parse_as_one(void **state)
{
    uint64_t value = 7;
    assert_non_null(key_parse_number(&key_table[KEY_WORKDIR], "1", &value));
    assert_non_null(key_parse_number(&key_table[KEY_ENV], "1", &value));
    assert_int_equal(value, 7);
}

static void test_defaults_are_written_as_a_person_would(void **state)
{
    static const struct {
        enum key key;
        const char *text, *written;
    } rows[] = {
        {KEY_MEMORY, "2G", "2 GiB"},
        {KEY_MEMORY, "unlimited", "unlimited"},
        {KEY_CPUS, "0.5", "0.5"},
        {KEY_PIDS, "100", "100"},
        {KEY_TIMEOUT, "90m", "1h30m"},
        {KEY_ON_OUTPUT_LIMIT, "kill", "kill"},
        {KEY_ON_OUTPUT_LIMIT, "truncate", "truncate"},
        {KEY_VIEW, "host", "host"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[KEY_TEXT_SIZE];
        uint64_t value = 0;
        assert_null(key_parse_number(&key_table[rows[i].key], rows[i].text, &value));
        key_format_number(&key_table[rows[i].key], value, text);
        assert_string_equal(text, rows[i].written);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_public_table_is_the_table),
        cmocka_unit_test(test_every_row_is_filled),
        cmocka_unit_test(test_names_options_and_letters_are_unique),
        cmocka_unit_test(test_the_option_is_the_name_with_dashes),
        cmocka_unit_test(test_help_is_one_short_line_without_a_dot),
        cmocka_unit_test(test_help_holds_nothing_that_a_shell_takes_for_its_own),
        cmocka_unit_test(test_details_are_sentences),
        cmocka_unit_test(test_every_default_parses_and_none_is_for_a_list),
        cmocka_unit_test(test_limits_are_numbers_and_only_they_can_be_unlimited),
        cmocka_unit_test(test_the_defaults_are_those_of_the_design),
        cmocka_unit_test(test_find_knows_every_name_and_no_other),
        cmocka_unit_test(test_unlimited_is_taken_only_where_the_table_says_so),
        cmocka_unit_test(test_a_choice_is_one_of_its_words_exactly),
        cmocka_unit_test(test_a_key_that_is_not_a_number_does_not_parse_as_one),
        cmocka_unit_test(test_defaults_are_written_as_a_person_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
