/* SPDX-License-Identifier: MIT */
/* Included by every fuzz target: the entry point for libFuzzer and replay.c, and a check that is
 * never compiled out. */
#ifndef FUZZ_TARGET_H
#define FUZZ_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ensure(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The input as a string in its own memory, so that a read past its end is detected; the caller
 * frees it. */
static inline char *target_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    ensure(text);
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    return text;
}

/* Takes values from the front of the input; zeros when it is used up. */
struct input {
    const uint8_t *data;
    size_t size;
};

static inline uint64_t input_number(struct input *input, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        value = value << 8 | (input->size ? input->data[0] : 0);
        input->data += input->size > 0;
        input->size -= input->size > 0;
    }
    return value;
}

/* Take at most len bytes; returns their number. */
static inline size_t input_bytes(struct input *input, const uint8_t **bytes, size_t len)
{
    len = len < input->size ? len : input->size;
    *bytes = input->data;
    input->data += len;
    input->size -= len;
    return len;
}

/* The length of the character at the start of s by RFC 3629; 0 if there is none. Written
 * independently of base/text.c, to be compared with it. */
static inline size_t reference_character(const uint8_t *s, size_t len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = len == 0              ? 0
               : s[0] < 0x80         ? 1
               : (s[0] >> 5) == 0x6  ? 2
               : (s[0] >> 4) == 0xe  ? 3
               : (s[0] >> 3) == 0x1e ? 4
                                     : 0;
    if (n < 2 || n > len)
        return n > len ? 0 : n;
    uint32_t code = s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    bool good = code >= least[n] && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    return good ? n : 0;
}

/* UTF-8 without control characters, including C1. */
static inline bool is_printable(const char *text)
{
    const uint8_t *s = (const uint8_t *)text;
    size_t left = strlen(text);
    while (left) {
        size_t n = reference_character(s, left);
        if (n == 0 || *s < 0x20 || *s == 0x7f || (n == 2 && *s == 0xc2 && s[1] < 0xa0))
            return false;
        s += n;
        left -= n;
    }
    return true;
}

#endif
