/* Bytes of unknown origin: UTF-8 checks and escaping. Pure; touches no descriptor. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the valid UTF-8 sequence at the start of s (1 to 4); 0 if it is not one; -1 if it is
 * the beginning of one that the end of the bytes cuts off. */
int text_utf8_sequence(const unsigned char *s, size_t len);

bool text_is_utf8(const unsigned char *s, size_t len);

/* How many bytes at the end of s are the beginning of a character that is not complete (0 to 3). */
size_t text_utf8_tail(const unsigned char *s, size_t len);

/* How much of a text fits into `max` bytes without cutting a character. */
size_t text_cut(const char *s, size_t max);

/* Control characters (C1 too) and bytes that are not UTF-8 become \xNN. Always NUL-terminated,
 * never cut in the middle of a character or an escape. */
void text_escape(const char *s, size_t len, char *out, size_t size);

#endif
