/* SPDX-License-Identifier: MIT */
/* A reader for untrusted JSON: bounded in size and depth, refuses duplicate keys and NUL, and
 * reports errors with line and column. Numbers keep their written form, so the locale of the host
 * has no influence. */
#ifndef BASE_JSONR_H
#define BASE_JSONR_H

#include <stdbool.h>
#include <stddef.h>

#include "brig.h"

#define JSONR_DEPTH_MAX 2048

enum jsonr_type {
    JSONR_NULL,
    JSONR_FALSE,
    JSONR_TRUE,
    JSONR_NUMBER,
    JSONR_STRING,
    JSONR_ARRAY,
    JSONR_OBJECT,
};

struct jsonr {
    enum jsonr_type type;
    char *key;    /* name of a member of an object; otherwise NULL */
    char *text;   /* of a string, NUL-terminated; of a number, in its written form */
    size_t len;   /* length of `text` */
    size_t count; /* number of elements or members in the list that starts at `first` */
    struct jsonr *first, *next;
    struct jsonr *last, *parent;
    size_t at; /* offset of the value in the parsed text */
};

/* Parse an object. Returns NULL with *err and errno set (fault: usage, or no memory). `name`
 * denotes the text in messages. The caller releases the object with jsonr_free(). */
struct jsonr *jsonr_object(const char *text, size_t len, size_t max, const char *name,
                           const char *stage, struct brig_error *err);
void jsonr_free(struct jsonr *root);

/* The member with that name, or NULL. */
const struct jsonr *jsonr_get(const struct jsonr *object, const char *key);

/* Write the value as the member `key` of the open object, or without a key if it is NULL. */
struct jsonw;
void jsonr_write(struct jsonw *w, const char *key, const struct jsonr *value);

/* A scalar as text: a string unchanged, a number without an exponent and with at most 15
 * significant digits. Returns false for any other type. */
#define JSONR_NUMBER_SIZE 64
bool jsonr_scalar(const struct jsonr *value, const char **text, char number[JSONR_NUMBER_SIZE]);

#endif
