/* SPDX-License-Identifier: MIT */
/* base/jsonw.c: another library's parser reads back any bytes unchanged. */
#include "base/jsonw.h"

#include <jansson.h>

#include "target.h"

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* RFC 4648 read strictly: no other characters, exact padding, no bits left over. */
static size_t decode(const char *text, size_t len, uint8_t *out)
{
    size_t n = 0;
    ensure(len % 4 == 0);
    for (size_t i = 0; i < len; i += 4) {
        size_t padding = text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
        uint32_t group = 0;
        ensure(!padding || i + 4 == len);
        for (size_t j = 0; j < 4; j++) {
            int digit = j < 4 - padding ? digit_of(text[i + j]) : 0;
            ensure(digit >= 0);
            group = group << 6 | (uint32_t)digit;
        }
        ensure((group & (padding == 0 ? 0 : padding == 1 ? 0xff : 0xffff)) == 0);
        for (size_t j = 0; j < 3 - padding; j++)
            out[n++] = (uint8_t)(group >> (16 - 8 * j));
    }
    return n;
}

static void check_bytes(const json_t *value, bool utf8, const uint8_t *data, size_t size)
{
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);
    ensure(text);
    if (utf8) {
        ensure(len == size && memcmp(text, data, size) == 0);
        return;
    }
    uint8_t *bytes = malloc(len + 1);
    ensure(bytes);
    ensure(decode(text, len, bytes) == size && memcmp(bytes, data, size) == 0);
    free(bytes);
}

/* The output contains nothing that a terminal interprets. */
static void check_quiet(const struct buf *buf)
{
    for (size_t i = 0; i < buf->len; i++) {
        uint8_t c = (uint8_t)buf->data[i];
        ensure(c >= 0x20 && c != 0x7f);
        ensure(c != 0xc2 || i + 1 == buf->len || (uint8_t)buf->data[i + 1] >= 0xa0);
    }
}

static void check_failing(const uint8_t *data, size_t size, const char *text, size_t max)
{
    struct buf buf;
    struct jsonw w;
    bool utf8;
    buf_init(&buf, max);
    jsonw_init(&w, &buf);
    jsonw_bytes(&w, NULL, data, size, &utf8);
    jsonw_text(&w, NULL, text);
    ensure(buf.len <= max);
    buf_done(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf buf;
    struct jsonw w;
    struct input input = {data, size};
    bool utf8 = false;
    char *text = target_text(data, size);
    buf_init(&buf, size * 16 + 100);
    jsonw_init(&w, &buf);
    jsonw_open(&w, NULL, '[');
    jsonw_bytes(&w, NULL, data, size, &utf8);
    jsonw_text(&w, NULL, text);
    jsonw_decimal(&w, NULL, input_number(&input, 8), UINT64_C(1000000000));
    jsonw_close(&w, ']');
    ensure(buf_failed(&buf) == 0);
    check_quiet(&buf);
    json_t *root = json_loadb(buf.data, buf.len, JSON_ALLOW_NUL, NULL);
    ensure(root && json_array_size(root) == 3);
    check_bytes(json_array_get(root, 0), utf8, data, size);
    ensure(!utf8 || strcmp(json_string_value(json_array_get(root, 1)), text) == 0);
    check_failing(data, size, text, size ? data[0] : 0);
    json_decref(root);
    buf_done(&buf);
    free(text);
    return 0;
}
