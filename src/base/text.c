/* SPDX-License-Identifier: MIT */
/* UTF-8 checks and escaping. */
#include "text.h"

#include <stdint.h>
#include <string.h>

static int sequence_length(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    if (lead >= 0xf0 && lead <= 0xf4)
        return 4;
    return 0;
}

/* The second byte alone excludes overlong forms, surrogates and code points past the end of the
 * range, so a truncated sequence can be judged without its last bytes. */
static bool second_byte_fits(unsigned char lead, unsigned char second)
{
    switch (lead) {
    case 0xe0:
        return second >= 0xa0 && second <= 0xbf;
    case 0xed:
        return second >= 0x80 && second <= 0x9f;
    case 0xf0:
        return second >= 0x90 && second <= 0xbf;
    case 0xf4:
        return second >= 0x80 && second <= 0x8f;
    default:
        return (second & 0xc0) == 0x80;
    }
}

int text_utf8_sequence(const unsigned char *s, size_t len)
{
    if (len == 0)
        return 0;
    int want = sequence_length(s[0]);
    if (want <= 1)
        return want;
    for (int i = 1; i < want; i++) {
        if ((size_t)i == len)
            return -1;
        bool fits = i == 1 ? second_byte_fits(s[0], s[1]) : (s[i] & 0xc0) == 0x80;
        if (!fits)
            return 0;
    }
    return want;
}

bool text_is_utf8(const unsigned char *s, size_t len)
{
    size_t i = 0;
    while (i < len) {
        /* Check eight ASCII bytes at a time: most output is ASCII, and all of it is checked here.
         */
        uint64_t word;
        if (len - i >= sizeof word) {
            memcpy(&word, s + i, sizeof word);
            if ((word & 0x8080808080808080u) == 0) {
                i += sizeof word;
                continue;
            }
        }
        int n = text_utf8_sequence(s + i, len - i);
        if (n <= 0)
            return false;
        i += (size_t)n;
    }
    return true;
}

size_t text_utf8_tail(const unsigned char *s, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char c = s[len - back];
        if ((c & 0xc0) == 0x80)
            continue;
        return text_utf8_sequence(s + len - back, back) == -1 ? back : 0;
    }
    return 0;
}

size_t text_cut(const char *s, size_t max)
{
    size_t len = strnlen(s, max + 1);
    return len <= max ? len : max - text_utf8_tail((const unsigned char *)s, max);
}

/* Characters that move the cursor, start a line, or change the direction of the text that follows.
 */
static bool is_control(const unsigned char *s, int n)
{
    if (n == 1)
        return s[0] < 0x20 || s[0] == 0x7f;
    if (n == 2)
        return (s[0] == 0xc2 && s[1] < 0xa0) || (s[0] == 0xd8 && s[1] == 0x9c); /* U+061C */
    if (n != 3 || s[0] != 0xe2)
        return false;
    return (s[1] == 0x80 && (s[2] == 0x8e || s[2] == 0x8f)) || /* U+200E, U+200F */
           (s[1] == 0x80 && s[2] >= 0xa8 && s[2] <= 0xae) ||   /* U+2028 to U+202E */
           (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9);     /* U+2066 to U+2069 */
}

void text_escape(const char *bytes, size_t len, char *out, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *s = (const unsigned char *)bytes;
    size_t used = 0;
    if (size == 0)
        return;
    for (size_t i = 0; i < len;) {
        int n = text_utf8_sequence(s + i, len - i);
        if (n > 0 && !is_control(s + i, n)) {
            if (used + (size_t)n >= size)
                break;
            memcpy(out + used, s + i, (size_t)n);
            used += (size_t)n;
            i += (size_t)n;
            continue;
        }
        if (used + 4 >= size)
            break;
        out[used++] = '\\';
        out[used++] = 'x';
        out[used++] = hex[s[i] >> 4];
        out[used++] = hex[s[i] & 15];
        i++;
    }
    out[used] = 0;
}
