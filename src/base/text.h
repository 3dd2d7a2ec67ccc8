/* SPDX-License-Identifier: MIT */
/* UTF-8 checks and escaping for bytes of unknown origin. Pure; touches no file descriptor. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the valid UTF-8 sequence at the start of s (1 to 4); 0 if there is none; -1 if the
 * bytes end within a sequence that is valid so far. */
int text_utf8_sequence(const unsigned char *s, size_t len);

bool text_is_utf8(const unsigned char *s, size_t len);

/* Number of bytes at the end of s that belong to an incomplete character (0 to 3). */
size_t text_utf8_tail(const unsigned char *s, size_t len);

/* Length of the longest part of a text that fits into `max` bytes without cutting a character. */
size_t text_cut(const char *s, size_t max);

/* Replace control characters (C1 included) and bytes that are not UTF-8 by \xNN. The result is
 * always NUL-terminated and never ends within a character or an escape. */
void text_escape(const char *s, size_t len, char *out, size_t size);

#endif
