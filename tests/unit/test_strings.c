/* SPDX-License-Identifier: MIT */
/* base/strings.c: the list is NULL-terminated at every moment and bounded, and an entry of a name
 * replaces only one of that name. */
#include "base/strings.h"

#include <errno.h>

#include "check.h"

static void check_list(const struct strings *list, const char *const *expected, size_t count)
{
    assert_int_equal(list->count, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(list->items[i], expected[i]);
    if (list->items)
        assert_null(list->items[count]);
}

static void test_list_is_terminated_after_every_addition(void **state)
{
    struct strings list = {0};
    for (size_t i = 0; i < 1000; i++) {
        char text[16];
        snprintf(text, sizeof text, "%zu", i);
        assert_int_equal(strings_add_text(&list, text), 0);
        assert_int_equal(list.count, i + 1);
        assert_string_equal(list.items[i], text);
        assert_null(list.items[i + 1]);
    }
    strings_done(&list);
    assert_null(list.items);
    assert_int_equal(list.count, 0);
}

static void test_add_copies_the_given_length_only(void **state)
{
    static const char *const expected[] = {"ab", "", "abc"};
    struct strings list = {0};
    char text[] = "abcdef";
    assert_int_equal(strings_add(&list, text, 2), 0);
    assert_int_equal(strings_add(&list, text, 0), 0);
    assert_int_equal(strings_add(&list, text, 3), 0);
    memset(text, 'x', sizeof text - 1);
    check_list(&list, expected, COUNT(expected));
    strings_done(&list);
}

static void test_put_replaces_the_entry_of_the_same_name_in_its_place(void **state)
{
    static const char *const expected[] = {"A=3", "AB=2", "B="};
    struct strings list = {0};
    assert_int_equal(strings_put(&list, "A", 1, "1"), 0);
    assert_int_equal(strings_put(&list, "AB", 2, "2"), 0);
    assert_int_equal(strings_put(&list, "B", 1, ""), 0);
    assert_int_equal(strings_put(&list, "A", 1, "3"), 0);
    check_list(&list, expected, COUNT(expected));
    strings_done(&list);
}

static void test_put_compares_the_whole_name(void **state)
{
    static const char *const expected[] = {"LONG=1", "LON=2", "LONGER=3", "long=4"};
    struct strings list = {0};
    assert_int_equal(strings_put(&list, "LONG", 4, "1"), 0);
    assert_int_equal(strings_put(&list, "LONG", 3, "2"), 0); /* the length decides */
    assert_int_equal(strings_put(&list, "LONGER", 6, "3"), 0);
    assert_int_equal(strings_put(&list, "long", 4, "4"), 0);
    check_list(&list, expected, COUNT(expected));
    strings_done(&list);
}

static void test_put_keeps_every_sign_of_equality_in_the_value(void **state)
{
    static const char *const expected[] = {"A=b=c=d"};
    struct strings list = {0};
    assert_int_equal(strings_put(&list, "A", 1, "b=c=d"), 0);
    check_list(&list, expected, COUNT(expected));
    strings_done(&list);
}

static void test_copy_adds_to_what_is_there(void **state)
{
    static const char *const expected[] = {"x", "a", "b"};
    struct strings from = {0}, to = {0};
    strings_add_text(&from, "a");
    strings_add_text(&from, "b");
    strings_add_text(&to, "x");
    assert_int_equal(strings_copy(&to, &from), 0);
    strings_done(&from);
    check_list(&to, expected, COUNT(expected));
    strings_done(&to);
}

static void test_list_ends_at_its_maximum(void **state)
{
    struct strings list = {0};
    for (size_t i = 0; i < STRINGS_MAX; i++)
        assert_int_equal(strings_add(&list, "", 0), 0);
    assert_int_equal(strings_add_text(&list, "one more"), -E2BIG);
    assert_int_equal(strings_put(&list, "A", 1, "1"), -E2BIG);
    assert_int_equal(list.count, STRINGS_MAX);
    assert_null(list.items[STRINGS_MAX]);
    strings_done(&list);
}

static void test_done_accepts_an_empty_list_and_a_second_call(void **state)
{
    struct strings list = {0};
    strings_done(&list);
    strings_add_text(&list, "a");
    strings_done(&list);
    strings_done(&list);
    assert_null(list.items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_is_terminated_after_every_addition),
        cmocka_unit_test(test_add_copies_the_given_length_only),
        cmocka_unit_test(test_put_replaces_the_entry_of_the_same_name_in_its_place),
        cmocka_unit_test(test_put_compares_the_whole_name),
        cmocka_unit_test(test_put_keeps_every_sign_of_equality_in_the_value),
        cmocka_unit_test(test_copy_adds_to_what_is_there),
        cmocka_unit_test(test_list_ends_at_its_maximum),
        cmocka_unit_test(test_done_accepts_an_empty_list_and_a_second_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
