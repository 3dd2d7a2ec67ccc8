/* SPDX-License-Identifier: MIT */
/* base/jsonw.c: what is written is JSON by the judgement of another library, and says what it was
 * told to say. */
#include "base/jsonw.h"

#include <errno.h>
#include <jansson.h>

#include "base/text.h"
#include "check.h"
#include "random.h"

static struct buf buf;
static struct jsonw w;

static int start(void **state)
{
    buf_init(&buf, 1u << 20);
    jsonw_init(&w, &buf);
    return 0;
}

static int end(void **state)
{
    buf_done(&buf);
    return 0;
}

#define writer_test(test) cmocka_unit_test_setup_teardown(test, start, end)

static void check_written(const char *expected)
{
    assert_int_equal(buf_failed(&buf), 0);
    buf_add(&buf, "", 1);
    assert_string_equal(buf.data, expected);
}

static json_t *parse_written(void)
{
    json_error_t error;
    json_t *value = json_loadb(buf.data, buf.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!value)
        fail_msg("%s: %.*s", error.text, (int)buf.len, buf.data);
    return value;
}

/* ---- structure ----------------------------------------------------------------------------- */

static void test_commas_stand_between_values_only(void **state)
{
    jsonw_open(&w, NULL, '{');
    jsonw_open(&w, "empty", '{');
    jsonw_close(&w, '}');
    jsonw_open(&w, "list", '[');
    jsonw_int(&w, NULL, 1);
    jsonw_open(&w, NULL, '[');
    jsonw_close(&w, ']');
    jsonw_open(&w, NULL, '{');
    jsonw_bool(&w, "a", true);
    jsonw_bool(&w, "b", false);
    jsonw_close(&w, '}');
    jsonw_null(&w, NULL);
    jsonw_close(&w, ']');
    jsonw_text(&w, "last", "x");
    jsonw_close(&w, '}');
    check_written("{\"empty\":{},\"list\":[1,[],{\"a\":true,\"b\":false},null],\"last\":\"x\"}");
}

static void test_deep_nesting_stays_balanced(void **state)
{
    for (int i = 0; i < 500; i++)
        jsonw_open(&w, NULL, '[');
    for (int i = 0; i < 500; i++)
        jsonw_close(&w, ']');
    json_t *value = parse_written();
    for (int i = 1; i < 500; i++) {
        assert_true(json_is_array(value));
        json_t *inner = json_incref(json_array_get(value, 0));
        json_decref(value);
        value = inner;
    }
    json_decref(value);
}

static void test_keys_are_escaped_like_strings(void **state)
{
    jsonw_open(&w, NULL, '{');
    jsonw_int(&w, "a\"b\\\n\x01", 1);
    jsonw_close(&w, '}');
    check_written("{\"a\\\"b\\\\\\n\\u0001\":1}");
}

static void test_keys_that_are_not_utf8_do_not_spoil_the_json(void **state)
{
    jsonw_open(&w, NULL, '{');
    jsonw_int(&w, "a\xff", 1);
    jsonw_close(&w, '}');
    json_decref(parse_written());
}

/* ---- numbers ------------------------------------------------------------------------------- */

static void test_integers_are_written_to_their_last_digit(void **state)
{
    jsonw_open(&w, NULL, '[');
    jsonw_int(&w, NULL, 0);
    jsonw_int(&w, NULL, -1);
    jsonw_int(&w, NULL, INT64_MIN);
    jsonw_int(&w, NULL, INT64_MAX);
    jsonw_uint(&w, NULL, UINT64_MAX);
    jsonw_close(&w, ']');
    check_written("[0,-1,-9223372036854775808,9223372036854775807,18446744073709551615]");
}

static void test_decimals_are_exact_and_without_trailing_zeros(void **state)
{
    static const struct {
        uint64_t value, scale;
    } rows[] = {
        {0, 1000000000},
        {1, 1000000000},
        {1500000000, 1000000000},
        {1000000000, 1000000000},
        {123456789, 1000000000},
        {500, 1000},
        {2250, 1000},
        {7, 1},
        {UINT64_MAX - 1, 1000000000},
        {10, 1000},
        {100000000, 1000000000},
    };
    jsonw_open(&w, NULL, '[');
    for (size_t i = 0; i < COUNT(rows); i++)
        jsonw_decimal(&w, NULL, rows[i].value, rows[i].scale);
    jsonw_close(&w, ']');
    check_written("[0,0.000000001,1.5,1,0.123456789,0.5,2.25,7,18446744073.709551614,0.01,0.1]");
}

static void test_a_counter_that_is_not_known_is_null(void **state)
{
    jsonw_open(&w, NULL, '[');
    jsonw_counter(&w, NULL, UINT64_MAX, 1);
    jsonw_counter(&w, NULL, UINT64_MAX, 1000);
    jsonw_counter(&w, NULL, 0, 1);
    jsonw_counter(&w, NULL, 1500, 1000);
    jsonw_close(&w, ']');
    check_written("[null,null,0,1.5]");
}

/* ---- strings ------------------------------------------------------------------------------- */

static void test_strings_use_the_short_escapes(void **state)
{
    jsonw_text(&w, NULL, "a\"b\\c/d\n\r\t");
    check_written("\"a\\\"b\\\\c/d\\n\\r\\t\"");
}

static void test_controls_del_and_c1_are_escaped(void **state)
{
    jsonw_text(&w, NULL, "\x01\x1f\x7f\xc2\x80\xc2\x9f\xc2\xa0");
    check_written("\"\\u0001\\u001f\\u007f\\u0080\\u009f\xc2\xa0\"");
}

static void test_no_text_is_null(void **state)
{
    jsonw_text(&w, NULL, NULL);
    check_written("null");
}

static void test_text_that_is_not_utf8_gets_replacement_characters(void **state)
{
    jsonw_text(&w, NULL, "a\xff\xc3\xa9\xe2\x82z\xc3");
    check_written("\"a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\"");
}

static void test_text_of_bad_bytes_only_has_room_for_all_replacements(void **state)
{
    char bad[301];
    memset(bad, '\xff', sizeof bad - 1);
    bad[sizeof bad - 1] = 0;
    jsonw_text(&w, NULL, bad);
    json_t *value = parse_written();
    assert_int_equal(json_string_length(value), 900);
    json_decref(value);
}

static void test_every_character_comes_back_from_another_parser(void **state)
{
    unsigned char all[0x250 * 2];
    size_t len = 0;
    for (unsigned c = 0; c < 0x250; c++) {
        if (c < 0x80) {
            all[len++] = (unsigned char)c;
        } else {
            all[len++] = (unsigned char)(0xc0 | c >> 6);
            all[len++] = (unsigned char)(0x80 | (c & 0x3f));
        }
    }
    bool utf8 = false;
    jsonw_bytes(&w, NULL, all, len, &utf8);
    assert_true(utf8);
    json_t *value = parse_written();
    assert_int_equal(json_string_length(value), len);
    assert_memory_equal(json_string_value(value), all, len);
    json_decref(value);
}

/* ---- bytes --------------------------------------------------------------------------------- */

static void test_bytes_that_are_utf8_stay_text(void **state)
{
    bool utf8 = false;
    jsonw_bytes(&w, NULL, (const unsigned char *)"a\0b", 3, &utf8);
    assert_true(utf8);
    check_written("\"a\\u0000b\"");
}

static void test_no_bytes_are_an_empty_text(void **state)
{
    bool utf8 = false;
    jsonw_bytes(&w, NULL, NULL, 0, &utf8);
    assert_true(utf8);
    check_written("\"\"");
}

/* RFC 4648, section 9, and others of every length modulo three; none of them is UTF-8. */
static void test_other_bytes_are_base64_as_the_rfc_has_it(void **state)
{
    static const struct {
        const char *bytes, *base64;
        size_t len;
    } rows[] = {
        {"\x14\xfb\x9c\x03\xd9\x7e", "FPucA9l+", 6},
        {"\x14\xfb\x9c\x03\xd9", "FPucA9k=", 5},
        {"\x14\xfb\x9c\x03", "FPucAw==", 4},
        {"\xff", "/w==", 1},
        {"\xff\xfe", "//4=", 2},
        {"\xff\xfe\xfd", "//79", 3},
        {"\xfb\xef\xbe", "++++", 3},
        {"\x00\x10\x83\x10\x51\x87\x20\x92\x8b\x30\xd3\x8f\x41\x14\x93\x51\x55\x97\x61\x96\x9b\x71"
         "\xd7\x9f\x82\x18\xa3\x92\x59\xa7\xa2\x9a\xab\xb2\xdb\xaf\xc3\x1c\xb3\xd3\x5d\xb7\xe3\x9e"
         "\xbb\xf3\xdf\xbf",
         "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 48},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char expected[128];
        bool utf8 = true;
        end(state);
        start(state);
        jsonw_bytes(&w, NULL, (const unsigned char *)rows[i].bytes, rows[i].len, &utf8);
        assert_false(utf8);
        snprintf(expected, sizeof expected, "\"%s\"", rows[i].base64);
        check_written(expected);
    }
}

/* ---- the end of the buffer ----------------------------------------------------------------- */

static void write_one_of_each(void)
{
    bool utf8;
    jsonw_open(&w, NULL, '{');
    jsonw_text(&w, "text", "a\n\xff");
    jsonw_bytes(&w, "bytes", (const unsigned char *)"\xff\xfe", 2, &utf8);
    jsonw_decimal(&w, "decimal", 1234, 1000);
    jsonw_int(&w, "int", -5);
    jsonw_close(&w, '}');
}

static void test_a_full_buffer_fails_at_every_place_and_never_grows(void **state)
{
    write_one_of_each();
    size_t need = buf.len;
    for (size_t max = 0; max < need; max++) {
        buf_done(&buf);
        buf_init(&buf, max);
        jsonw_init(&w, &buf);
        write_one_of_each();
        assert_int_equal(buf_failed(&buf), -EFBIG);
        assert_true(buf.len <= max);
    }
    buf_done(&buf);
    buf_init(&buf, need);
    jsonw_init(&w, &buf);
    write_one_of_each();
    assert_int_equal(buf_failed(&buf), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        writer_test(test_commas_stand_between_values_only),
        writer_test(test_deep_nesting_stays_balanced),
        writer_test(test_keys_are_escaped_like_strings),
        writer_test(test_keys_that_are_not_utf8_do_not_spoil_the_json),
        writer_test(test_integers_are_written_to_their_last_digit),
        writer_test(test_decimals_are_exact_and_without_trailing_zeros),
        writer_test(test_a_counter_that_is_not_known_is_null),
        writer_test(test_strings_use_the_short_escapes),
        writer_test(test_controls_del_and_c1_are_escaped),
        writer_test(test_no_text_is_null),
        writer_test(test_text_that_is_not_utf8_gets_replacement_characters),
        writer_test(test_text_of_bad_bytes_only_has_room_for_all_replacements),
        writer_test(test_every_character_comes_back_from_another_parser),
        writer_test(test_bytes_that_are_utf8_stay_text),
        writer_test(test_no_bytes_are_an_empty_text),
        writer_test(test_other_bytes_are_base64_as_the_rfc_has_it),
        writer_test(test_a_full_buffer_fails_at_every_place_and_never_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
