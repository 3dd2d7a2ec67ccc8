/* Reading JSON of unknown origin: bounded in size and depth, duplicates and NUL refused, and errors
 * that name the place. Numbers are kept as they are written, whatever the locale of the host is. */
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
    char *key;    /* of a member of an object; else NULL */
    char *text;   /* of a string, NUL-terminated; of a number, as it was written */
    size_t len;   /* of the text */
    size_t count; /* of elements or members, in a list that begins with `first` */
    struct jsonr *first, *next;
    struct jsonr *last, *parent;
    size_t at; /* where it begins in what was read */
};

/* An object, or NULL with *err and errno set (fault: usage, or no memory). `name` stands for the
 * text in messages. The caller releases it with jsonr_free(). */
struct jsonr *jsonr_object(const char *text, size_t len, size_t max, const char *name,
                           const char *stage, struct brig_error *err);
void jsonr_free(struct jsonr *root);

/* The member of that name, or NULL. */
const struct jsonr *jsonr_get(const struct jsonr *object, const char *key);

/* Write it out again, as `key` of the object that is open, or without one. */
struct jsonw;
void jsonr_write(struct jsonw *w, const char *key, const struct jsonr *value);

/* A scalar as text: a string as it is, a number without an exponent and with at most 15 digits that
 * count. False for any other type. */
#define JSONR_NUMBER_SIZE 64
bool jsonr_scalar(const struct jsonr *value, const char **text, char number[JSONR_NUMBER_SIZE]);

#endif
