/* Reading JSON of unknown origin, with jansson: bounded in size and depth, duplicates refused, and
 * errors that name the place. */
#ifndef BASE_JSONR_H
#define BASE_JSONR_H

#include <jansson.h>

#include "brig.h"

/* An object, or NULL with *err and errno set (fault: usage, or no memory). `name` stands for the
 * text in messages. The caller releases it with json_decref(). */
json_t *jsonr_object(const char *text, size_t len, size_t max, const char *name, const char *stage,
                     struct brig_error *err);

/* A scalar as text: a string as it is, a number as it would stand in JSON, whatever the locale of
 * the host is. False for any other type. */
#define JSONR_NUMBER_SIZE 64
bool jsonr_scalar(const json_t *value, const char **text, char number[JSONR_NUMBER_SIZE]);

#endif
