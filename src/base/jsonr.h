/* Reading JSON of unknown origin, with jansson: bounded in size and depth, duplicates refused, and
 * errors that name the place. */
#ifndef BASE_JSONR_H
#define BASE_JSONR_H

#include <jansson.h>

#include "brig.h"

/* An object, or NULL with *err set (fault: usage). `name` stands for the text in messages. The
 * caller releases it with json_decref(). */
json_t *jsonr_object(const char *text, size_t len, size_t max, const char *name, const char *stage,
                     struct brig_error *err);

#endif
