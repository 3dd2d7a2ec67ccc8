/* SPDX-License-Identifier: MIT */
/* base/text.c compared with RFC 3629: the same bytes are UTF-8, a tail is a beginning that more
 * bytes could complete, and escaped text is always printable. */
#include "base/text.h"

#include "target.h"

static size_t reference_valid(const uint8_t *s, size_t len)
{
    size_t at = 0;
    for (size_t n; at < len && (n = reference_character(s + at, len - at)); at += n) {
    }
    return at;
}

/* True if up to three more bytes can make a character of these. */
static bool is_beginning(const uint8_t *s, size_t len)
{
    uint8_t whole[4];
    if (len == 0 || len > 3)
        return false;
    memcpy(whole, s, len);
    for (unsigned second = 0x80; second <= 0xbf; second++) {
        memset(whole + len, 0x80, sizeof whole - len);
        if (len == 1)
            whole[1] = (uint8_t)second;
        if (reference_character(whole, sizeof whole) > len)
            return true;
    }
    return false;
}

static void check_sequences(const uint8_t *s, size_t len)
{
    for (size_t at = 0; at < len; at++) {
        size_t left = len - at;
        int n = text_utf8_sequence(s + at, left);
        size_t expected = reference_character(s + at, left);
        if (n >= 0)
            ensure((size_t)n == expected);
        else
            ensure(expected == 0 && is_beginning(s + at, left));
    }
}

static void check_tail(const uint8_t *s, size_t len)
{
    size_t tail = text_utf8_tail(s, len);
    ensure(tail <= 3 && tail <= len);
    if (tail)
        ensure(is_beginning(s + len - tail, tail));
    for (size_t longer = tail + 1; longer <= 3 && longer <= len; longer++)
        ensure(!is_beginning(s + len - longer, longer) || (s[len - longer] & 0xc0) == 0x80);
    /* Text that is cut anywhere is valid without its tail. */
    if (reference_valid(s, len) == len) {
        for (size_t cut = 0; cut < len; cut++)
            ensure(reference_valid(s, cut - text_utf8_tail(s, cut)) ==
                   cut - text_utf8_tail(s, cut));
    }
}

static void check_escape(const uint8_t *s, size_t len, size_t size)
{
    char *full = malloc(len * 4 + 1), *out = malloc(size ? size : 1);
    ensure(full && out);
    text_escape((const char *)s, len, full, len * 4 + 1);
    ensure(is_printable(full));
    text_escape((const char *)s, len, out, size);
    if (size) {
        size_t n = strlen(out);
        ensure(n < size && is_printable(out) && memcmp(out, full, n) == 0);
        ensure(n == strlen(full) || n + 4 >= size - 1);
    }
    free(full);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    size_t room = (size_t)input_number(&input, 1);
    if (size > 4096)
        return 0;
    check_sequences(input.data, input.size);
    ensure(text_is_utf8(input.data, input.size) ==
           (reference_valid(input.data, input.size) == input.size));
    check_tail(input.data, input.size);
    check_escape(input.data, input.size, room);
    return 0;
}
