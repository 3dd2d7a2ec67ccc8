/* SPDX-License-Identifier: MIT */
/* base/text.c against the definition of UTF-8 itself: every code point is encoded here and judged
 * there. */
#include "base/text.h"

#include "check.h"
#include "random.h"

/* Encode without asking whether the code point may be encoded, in the length that is asked for. */
static void encode(uint32_t code, size_t len, unsigned char out[4])
{
    static const unsigned char leads[] = {0, 0x00, 0xc0, 0xe0, 0xf0};
    for (size_t i = len; i-- > 1; code >>= 6)
        out[i] = (unsigned char)(0x80 | (code & 0x3f));
    out[0] = (unsigned char)(leads[len] | code);
}

static size_t shortest(uint32_t code)
{
    return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

static bool is_surrogate(uint32_t code)
{
    return code >= 0xd800 && code <= 0xdfff;
}

/* ---- sequences ----------------------------------------------------------------------------- */

static void test_every_character_is_a_sequence_and_each_beginning_is_cut_off(void **state)
{
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        unsigned char s[4];
        size_t len = shortest(code);
        if (is_surrogate(code))
            continue;
        encode(code, len, s);
        assert_int_equal(text_utf8_sequence(s, len), len);
        for (size_t cut = 1; cut < len; cut++)
            assert_int_equal(text_utf8_sequence(s, cut), -1);
    }
}

static void test_surrogates_are_refused_from_their_second_byte_on(void **state)
{
    for (uint32_t code = 0xd800; code <= 0xdfff; code++) {
        unsigned char s[4];
        encode(code, 3, s);
        assert_int_equal(text_utf8_sequence(s, 3), 0);
        assert_int_equal(text_utf8_sequence(s, 2), 0);
    }
}

static void test_overlong_forms_are_refused_from_their_second_byte_on(void **state)
{
    for (uint32_t code = 0; code < 0x10000; code++) {
        for (size_t len = shortest(code) + 1; len <= 4; len++) {
            unsigned char s[4];
            encode(code, len, s);
            assert_int_equal(text_utf8_sequence(s, len), 0);
            assert_int_equal(text_utf8_sequence(s, 2), 0);
        }
    }
}

static void test_beyond_the_last_character_is_refused(void **state)
{
    for (uint32_t code = 0x110000; code <= 0x1fffff; code += 61) {
        unsigned char s[4];
        encode(code, 4, s);
        assert_int_equal(text_utf8_sequence(s, 4), 0);
        assert_int_equal(text_utf8_sequence(s, 2), 0);
    }
}

static void test_bytes_that_begin_nothing_are_refused(void **state)
{
    for (unsigned lead = 0x80; lead <= 0xff; lead++) {
        unsigned char s[4] = {(unsigned char)lead, 0x80, 0x80, 0x80};
        bool begins = lead >= 0xc2 && lead <= 0xf4;
        assert_int_equal(text_utf8_sequence(s, 1), begins ? -1 : 0);
        if (!begins)
            assert_int_equal(text_utf8_sequence(s, 4), 0);
    }
    assert_int_equal(text_utf8_sequence((const unsigned char *)"", 0), 0);
}

static void test_a_missing_continuation_is_refused_not_waited_for(void **state)
{
    static const char *const broken[] = {"\xc3"
                                         "A",
                                         "\xe2\x82"
                                         "A",
                                         "\xf0\x9f\x98"
                                         "A",
                                         "\xe2\x82\xe2", "\xc3\xc3"};
    for (size_t i = 0; i < COUNT(broken); i++)
        assert_int_equal(text_utf8_sequence((const unsigned char *)broken[i], strlen(broken[i])),
                         0);
}

/* ---- whole texts --------------------------------------------------------------------------- */

/* Eight bytes are looked at at a time: a bad one must be seen at every place among them. */
static void test_one_bad_byte_is_found_at_every_place(void **state)
{
    unsigned char s[40];
    for (size_t len = 1; len <= sizeof s; len++) {
        memset(s, 'a', sizeof s);
        assert_true(text_is_utf8(s, len));
        for (size_t at = 0; at < len; at++) {
            s[at] = 0xff;
            assert_false(text_is_utf8(s, len));
            s[at] = 'a';
        }
    }
    assert_true(text_is_utf8(s, 0));
}

static void test_characters_are_whole_across_every_boundary(void **state)
{
    static const char *const characters[] = {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    unsigned char s[40];
    for (size_t i = 0; i < COUNT(characters); i++) {
        size_t len = strlen(characters[i]);
        for (size_t at = 0; at + len <= sizeof s; at++) {
            memset(s, 'a', sizeof s);
            memcpy(s + at, characters[i], len);
            assert_true(text_is_utf8(s, sizeof s));
            for (size_t cut = 1; cut < len; cut++)
                assert_false(text_is_utf8(s, at + cut));
        }
    }
}

/* ---- tails --------------------------------------------------------------------------------- */

static void test_tail_is_the_cut_character_at_every_split(void **state)
{
    static const char text[] = "a\xc3\xa9 b\xe2\x82\xac\xe2\x82\xac c\xf0\x9f\x98\x80 "
                               "\xf4\x8f\xbf\xbf\xed\x9f\xbfz";
    const unsigned char *s = (const unsigned char *)text;
    size_t whole = 0; /* the end of the last complete character */
    for (size_t len = 0; len < sizeof text; len++) {
        if (text_is_utf8(s, len))
            whole = len;
        assert_int_equal(text_utf8_tail(s, len), len - whole);
    }
}

static void test_tail_ignores_what_can_never_become_a_character(void **state)
{
    static const char *const rows[] = {"\xff",
                                       "a\x80",
                                       "\x80\x80\x80",
                                       "\xc0",
                                       "\xe0\x80",
                                       "\xed\xa0",
                                       "\xf4\x90\x80",
                                       "\xf0\x80\x80",
                                       "\xf5\x80",
                                       "\xc3\xa9\x80",
                                       "a",
                                       "",
                                       "\x80\x80\x80\x80",
                                       "\xc3\xa9\x80\x80\x80"};
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(text_utf8_tail((const unsigned char *)rows[i], strlen(rows[i])), 0);
}

/* ---- escaping ------------------------------------------------------------------------------ */

static void check_escape(const char *bytes, size_t len, const char *expected)
{
    char out[256];
    text_escape(bytes, len, out, sizeof out);
    assert_string_equal(out, expected);
}

static void test_printable_text_is_left_alone(void **state)
{
    static const char text[] = " ~azAZ09\\\"'\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc2\xa0";
    check_escape(text, sizeof text - 1, text);
    check_escape("", 0, "");
}

static void test_every_control_character_is_escaped(void **state)
{
    for (unsigned c = 0; c <= 0x7f; c++) {
        char byte = (char)c, expected[8];
        if (c >= 0x20 && c != 0x7f)
            continue;
        snprintf(expected, sizeof expected, "\\x%02x", c);
        check_escape(&byte, 1, expected);
    }
}

static void test_every_c1_control_is_escaped(void **state)
{
    for (unsigned c = 0x80; c <= 0xbf; c++) {
        char bytes[3] = {'\xc2', (char)c, 0}, expected[16];
        snprintf(expected, sizeof expected, "\\xc2\\x%02x", c);
        check_escape(bytes, 2, c < 0xa0 ? expected : bytes);
    }
}

static void test_bytes_that_are_not_utf8_are_escaped_one_by_one(void **state)
{
    check_escape("\xff", 1, "\\xff");
    check_escape("a\x80z", 3, "a\\x80z");
    check_escape("\xed\xa0\x80", 3, "\\xed\\xa0\\x80");
    check_escape("\xc0\xaf", 2, "\\xc0\\xaf");
    check_escape("\xe2\x82", 2, "\\xe2\\x82");
    check_escape("\xe2\x82\xc3\xa9", 4, "\\xe2\\x82\xc3\xa9");
    check_escape("a\0b", 3, "a\\x00b");
}

static void test_a_terminal_sequence_loses_its_power(void **state)
{
    check_escape("\x1b[2J\x1b]0;title\x07", 14, "\\x1b[2J\\x1b]0;title\\x07");
    check_escape("\xc2\x9b"
                 "2J",
                 4, "\\xc2\\x9b2J");
}

/* The places where the full output may be cut: between characters and between escapes. */
static bool is_cut_well(const char *full, size_t at)
{
    const unsigned char *s = (const unsigned char *)full;
    size_t i = 0;
    while (i < at) {
        bool escape = s[i] == '\\';
        i += escape ? 4 : (size_t)text_utf8_sequence(s + i, strlen(full + i));
    }
    return i == at;
}

static void test_escape_is_never_cut_in_a_character_and_always_ended(void **state)
{
    static const char bytes[] = "ab\x01\xc3\xa9\xff\xe2\x82\xac\x1b\xf0\x9f\x98\x80\xc2\x85z";
    char full[128];
    text_escape(bytes, sizeof bytes - 1, full, sizeof full);
    for (size_t size = 1; size <= strlen(full) + 2; size++) {
        char out[128];
        memset(out, '#', sizeof out);
        text_escape(bytes, sizeof bytes - 1, out, size);
        size_t len = strlen(out);
        assert_true(len < size);
        assert_memory_equal(out, full, len);
        assert_true(is_cut_well(full, len));
        assert_true(len + 4 >= size - 1 || len == strlen(full)); /* and not cut too early */
        for (size_t i = size; i < sizeof out; i++)
            assert_int_equal(out[i], '#');
    }
}

static void test_escape_into_nothing_writes_nothing(void **state)
{
    char out = '#';
    text_escape("abc", 3, &out, 0);
    assert_int_equal(out, '#');
}

static void test_whatever_comes_in_printable_utf8_comes_out(void **state)
{
    struct random random = {3};
    for (int round = 0; round < 20000; round++) {
        unsigned char in[32];
        char out[160];
        size_t len = random_below(&random, sizeof in);
        random_fill(&random, in, len);
        text_escape((const char *)in, len, out, sizeof out);
        assert_true(text_is_utf8((const unsigned char *)out, strlen(out)));
        for (const unsigned char *p = (const unsigned char *)out; *p; p++) {
            assert_true(*p >= 0x20 && *p != 0x7f);
            assert_false(*p == 0xc2 && p[1] < 0xa0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_character_is_a_sequence_and_each_beginning_is_cut_off),
        cmocka_unit_test(test_surrogates_are_refused_from_their_second_byte_on),
        cmocka_unit_test(test_overlong_forms_are_refused_from_their_second_byte_on),
        cmocka_unit_test(test_beyond_the_last_character_is_refused),
        cmocka_unit_test(test_bytes_that_begin_nothing_are_refused),
        cmocka_unit_test(test_a_missing_continuation_is_refused_not_waited_for),
        cmocka_unit_test(test_one_bad_byte_is_found_at_every_place),
        cmocka_unit_test(test_characters_are_whole_across_every_boundary),
        cmocka_unit_test(test_tail_is_the_cut_character_at_every_split),
        cmocka_unit_test(test_tail_ignores_what_can_never_become_a_character),
        cmocka_unit_test(test_printable_text_is_left_alone),
        cmocka_unit_test(test_every_control_character_is_escaped),
        cmocka_unit_test(test_every_c1_control_is_escaped),
        cmocka_unit_test(test_bytes_that_are_not_utf8_are_escaped_one_by_one),
        cmocka_unit_test(test_a_terminal_sequence_loses_its_power),
        cmocka_unit_test(test_escape_is_never_cut_in_a_character_and_always_ended),
        cmocka_unit_test(test_escape_into_nothing_writes_nothing),
        cmocka_unit_test(test_whatever_comes_in_printable_utf8_comes_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
