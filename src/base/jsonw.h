/* Writing JSON into a buffer. The caller opens and closes; commas come by themselves. */
#ifndef BASE_JSONW_H
#define BASE_JSONW_H

#include <stdbool.h>
#include <stdint.h>

#include "buf.h"

struct jsonw {
    struct buf *buf;
    bool comma; /* a value stands before the next one */
};

void jsonw_init(struct jsonw *w, struct buf *buf);

void jsonw_open(struct jsonw *w, const char *key,
                char bracket);                   /* '{' or '['; key NULL in arrays */
void jsonw_close(struct jsonw *w, char bracket); /* '}' or ']' */

void jsonw_null(struct jsonw *w, const char *key);
void jsonw_bool(struct jsonw *w, const char *key, bool value);
void jsonw_int(struct jsonw *w, const char *key, int64_t value);
void jsonw_uint(struct jsonw *w, const char *key, uint64_t value);
/* value / scale as an exact decimal number: 1500000000 of scale 1000000000 is
 * 1.5. The scale is a power of ten. */
void jsonw_decimal(struct jsonw *w, const char *key, uint64_t value, uint64_t scale);
/* The same for a counter or limit, of which UINT64_MAX says that there is none: null. */
void jsonw_counter(struct jsonw *w, const char *key, uint64_t value, uint64_t scale);
/* UTF-8 text; NULL is null. Bytes that are not UTF-8 become U+FFFD: use it for our own text only.
 */
void jsonw_text(struct jsonw *w, const char *key, const char *text);
/* JSON that somebody else wrote, which the caller has checked to be one value: on one line, and
 * what a terminal takes for a command escaped; else as it is. */
void jsonw_raw(struct jsonw *w, const char *key, const char *json, size_t len);
/* Bytes of any kind: a string if they are UTF-8, else base64. *utf8 tells which. */
void jsonw_bytes(struct jsonw *w, const char *key, const unsigned char *bytes, size_t len,
                 bool *utf8);

#endif
