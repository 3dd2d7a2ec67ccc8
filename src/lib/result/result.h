/* What a JSON object that is given to a caller is taken from: result.c writes results, call.c
 * answers of calls. */
#ifndef LIB_RESULT_H
#define LIB_RESULT_H

#include "base/buf.h"
#include "brig.h"

/* The text in new memory, or the error that kept it from being written. */
int result_take(struct buf *buf, const char *stage, char **out, size_t *len,
                struct brig_error *err);

#endif
