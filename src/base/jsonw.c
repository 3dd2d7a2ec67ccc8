/* SPDX-License-Identifier: MIT */
/* The JSON writer of jsonw.h. */
#include "jsonw.h"

#include <string.h>

#include "text.h"

#define SHORT 4096 /* output up to this many bytes is always shown as text too */

void jsonw_init(struct jsonw *w, struct buf *buf)
{
    *w = (struct jsonw){.buf = buf};
}

/* Add UTF-8 to an open string, with escapes. */
static void add_characters(struct buf *buf, const unsigned char *s, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    size_t plain = 0; /* the start of the run of bytes that need no escape */
    for (size_t i = 0; i < len; i++) {
        unsigned char c = s[i];
        /* DEL and the C1 controls are escaped as well, because the result may be shown on a
         * terminal. */
        bool c1 = c == 0xc2 && i + 1 < len && s[i + 1] >= 0x80 && s[i + 1] < 0xa0;
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f && !c1)
            continue;
        buf_add(buf, s + plain, i - plain);
        if (c1)
            c = s[++i];
        plain = i + 1;
        char escape[6] = {'\\', (char)c, 0, 0, 0, 0};
        size_t n = 2;
        switch (c) {
        case '"':
        case '\\':
            break;
        case '\n':
            escape[1] = 'n';
            break;
        case '\r':
            escape[1] = 'r';
            break;
        case '\t':
            escape[1] = 't';
            break;
        default:
            memcpy(escape, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
            n = 6;
        }
        buf_add(buf, escape, n);
    }
    if (plain < len)
        buf_add(buf, s + plain, len - plain);
}

static void add_string(struct buf *buf, const unsigned char *s, size_t len)
{
    buf_add(buf, "\"", 1);
    add_characters(buf, s, len);
    buf_add(buf, "\"", 1);
}

/* Add text of brig itself, or a name that the caller chose. Bytes that are not UTF-8 are replaced.
 */
static void add_text(struct buf *buf, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t len = strlen(text);
    if (text_is_utf8(s, len)) {
        add_string(buf, s, len);
        return;
    }
    struct buf clean;
    buf_init(&clean, len * 3);
    for (size_t i = 0; i < len;) {
        int n = text_utf8_sequence(s + i, len - i);
        if (n > 0)
            buf_add(&clean, s + i, (size_t)n);
        else
            buf_add(&clean, "\xef\xbf\xbd", 3);
        i += n > 0 ? (size_t)n : 1;
    }
    if (clean.failed)
        buf->failed = clean.failed;
    add_string(buf, (const unsigned char *)clean.data, clean.len);
    buf_done(&clean);
}

static void add_key(struct jsonw *w, const char *key)
{
    if (w->comma)
        buf_add(w->buf, ",", 1);
    w->comma = true;
    if (key) {
        add_text(w->buf, key);
        buf_add(w->buf, ":", 1);
    }
}

void jsonw_open(struct jsonw *w, const char *key, char bracket)
{
    add_key(w, key);
    buf_add(w->buf, &bracket, 1);
    w->comma = false;
}

void jsonw_close(struct jsonw *w, char bracket)
{
    buf_add(w->buf, &bracket, 1);
    w->comma = true;
}

void jsonw_null(struct jsonw *w, const char *key)
{
    add_key(w, key);
    buf_text(w->buf, "null");
}

void jsonw_bool(struct jsonw *w, const char *key, bool value)
{
    add_key(w, key);
    buf_text(w->buf, value ? "true" : "false");
}

void jsonw_int(struct jsonw *w, const char *key, int64_t value)
{
    add_key(w, key);
    buf_printf(w->buf, "%lld", (long long)value);
}

void jsonw_uint(struct jsonw *w, const char *key, uint64_t value)
{
    add_key(w, key);
    buf_printf(w->buf, "%llu", (unsigned long long)value);
}

void jsonw_decimal(struct jsonw *w, const char *key, uint64_t value, uint64_t scale)
{
    char places[16];
    size_t n = 0;
    uint64_t rest = value % scale;
    for (uint64_t unit = scale / 10; unit > 0 && rest > 0; unit /= 10) {
        /* cppcheck-suppress zerodivcond ; unit > 0 is the other half of the condition */
        places[n++] = (char)('0' + rest / unit);
        rest %= unit;
    }
    add_key(w, key);
    buf_printf(w->buf, "%llu", (unsigned long long)(value / scale));
    if (n) {
        buf_add(w->buf, ".", 1);
        buf_add(w->buf, places, n);
    }
}

void jsonw_counter(struct jsonw *w, const char *key, uint64_t value, uint64_t scale)
{
    if (value == UINT64_MAX)
        jsonw_null(w, key);
    else
        jsonw_decimal(w, key, value, scale);
}

void jsonw_text(struct jsonw *w, const char *key, const char *text)
{
    if (!text) {
        jsonw_null(w, key);
        return;
    }
    add_key(w, key);
    add_text(w->buf, text);
}

/* The length of a DEL or C1 control at s, or 0. */
static size_t control_at(const char *s, size_t left)
{
    if ((unsigned char)s[0] == 0x7f)
        return 1;
    return left > 1 && (unsigned char)s[0] == 0xc2 && (unsigned char)s[1] < 0xa0 ? 2 : 0;
}

void jsonw_raw(struct jsonw *w, const char *key, const char *json, size_t len)
{
    size_t plain = 0; /* start of the bytes that are copied unchanged */
    bool quoted = false;
    add_key(w, key);
    for (size_t i = 0; i < len; i++) {
        char c = json[i];
        size_t control = quoted ? control_at(json + i, len - i) : 0;
        bool space = !quoted && (c == ' ' || c == '\n' || c == '\r' || c == '\t');
        if (control || space) {
            buf_add(w->buf, json + plain, i - plain);
            if (control)
                buf_printf(w->buf, "\\u00%02x", (unsigned char)json[i + control - 1]);
            i += control ? control - 1 : 0;
            plain = i + 1;
        } else if (c == '"') {
            quoted = !quoted;
        } else if (c == '\\') {
            i++;
        }
    }
    if (plain < len)
        buf_add(w->buf, json + plain, len - plain);
}

static void add_base64(struct buf *buf, const unsigned char *s, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t total = (len + 2) / 3 * 4;
    char *out = total ? buf_reserve(buf, total) : NULL;
    if (!out)
        return;
    for (size_t i = 0; i < len; i += 3, out += 4) {
        size_t left = len - i;
        unsigned group = (unsigned)s[i] << 16;
        group |= left > 1 ? (unsigned)s[i + 1] << 8 : 0;
        group |= left > 2 ? (unsigned)s[i + 2] : 0;
        out[0] = digits[group >> 18];
        out[1] = digits[group >> 12 & 63];
        out[2] = left > 1 ? digits[group >> 6 & 63] : '=';
        out[3] = left > 2 ? digits[group & 63] : '=';
    }
    buf->len += total;
}

void jsonw_bytes(struct jsonw *w, const char *key, const unsigned char *bytes, size_t len,
                 bool *utf8)
{
    *utf8 = text_is_utf8(bytes, len);
    add_key(w, key);
    if (*utf8) {
        add_string(w->buf, bytes, len);
        return;
    }
    buf_add(w->buf, "\"", 1);
    add_base64(w->buf, bytes, len);
    buf_add(w->buf, "\"", 1);
}

/* Pictures and archives are not text, even if they begin like it: in output longer than SHORT, at
 * most a tenth of the bytes may be invalid UTF-8. */
static bool is_mostly_text(const unsigned char *s, size_t len)
{
    size_t others = 0;
    for (size_t i = 0; i < len;) {
        int n = text_utf8_sequence(s + i, len - i);
        others += n <= 0;
        i += n > 0 ? (size_t)n : 1;
    }
    return len <= SHORT || others <= len / 10;
}

/* Add UTF-8 unchanged and every other byte as \xNN. */
static void add_shown(struct buf *buf, const unsigned char *s, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    size_t plain = 0;
    for (size_t i = 0; i < len;) {
        int n = text_utf8_sequence(s + i, len - i);
        if (n > 0) {
            i += (size_t)n;
            continue;
        }
        const char escape[] = {'\\', '\\', 'x', hex[s[i] >> 4], hex[s[i] & 15]};
        add_characters(buf, s + plain, i - plain);
        buf_add(buf, escape, sizeof escape);
        plain = ++i;
    }
    add_characters(buf, s + plain, len - plain);
}

void jsonw_output(struct jsonw *w, const char *const names[3], const unsigned char *bytes,
                  size_t len)
{
    bool utf8;
    jsonw_bytes(w, names[0], bytes, len, &utf8);
    jsonw_text(w, names[1], utf8 ? "utf-8" : "base64");
    if (utf8 || !is_mostly_text(bytes, len))
        return;
    add_key(w, names[2]);
    buf_add(w->buf, "\"", 1);
    add_shown(w->buf, bytes, len);
    buf_add(w->buf, "\"", 1);
}
