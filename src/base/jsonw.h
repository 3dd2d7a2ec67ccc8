/* SPDX-License-Identifier: MIT */
/* A JSON writer that appends to a buffer. The caller opens and closes arrays and objects; the
 * writer adds the commas. */
#ifndef BASE_JSONW_H
#define BASE_JSONW_H

#include <stdbool.h>
#include <stdint.h>

#include "buf.h"

struct jsonw {
    struct buf *buf;
    bool comma; /* the next value needs a comma in front of it */
};

void jsonw_init(struct jsonw *w, struct buf *buf);

void jsonw_open(struct jsonw *w, const char *key,
                char bracket);                   /* '{' or '['; key NULL in arrays */
void jsonw_close(struct jsonw *w, char bracket); /* '}' or ']' */

void jsonw_null(struct jsonw *w, const char *key);
void jsonw_bool(struct jsonw *w, const char *key, bool value);
void jsonw_int(struct jsonw *w, const char *key, int64_t value);
void jsonw_uint(struct jsonw *w, const char *key, uint64_t value);
/* Write value / scale as an exact decimal number: 1500000000 with scale 1000000000 is 1.5. The
 * scale is a power of ten. */
void jsonw_decimal(struct jsonw *w, const char *key, uint64_t value, uint64_t scale);
/* Like jsonw_decimal(), for a counter or limit: UINT64_MAX means "none" and is written as null. */
void jsonw_counter(struct jsonw *w, const char *key, uint64_t value, uint64_t scale);
/* Write UTF-8 text; NULL is written as null. Bytes that are not UTF-8 become U+FFFD, so use this
 * only for text of brig itself.
 */
void jsonw_text(struct jsonw *w, const char *key, const char *text);
/* Write JSON from another source that the caller has checked to be one value. It is put on one
 * line, and characters that control a terminal are escaped; the rest is unchanged. */
void jsonw_raw(struct jsonw *w, const char *key, const char *json, size_t len);
/* Write arbitrary bytes: as a string if they are UTF-8, otherwise as base64. *utf8 is set
 * accordingly. */
void jsonw_bytes(struct jsonw *w, const char *key, const unsigned char *bytes, size_t len,
                 bool *utf8);
/* Like jsonw_bytes(), with the encoding as a second member. Bytes written as base64 appear in a
 * third member as text for people, in which invalid UTF-8 is shown as \xNN. The third member is
 * left out for long output of which more than a tenth is not text. The result is at most
 * JSONW_OUTPUT_MAX times as long as the bytes. */
#define JSONW_OUTPUT_MAX 8
void jsonw_output(struct jsonw *w, const char *const names[3], const unsigned char *bytes,
                  size_t len);

#endif
