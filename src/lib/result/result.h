/* SPDX-License-Identifier: MIT */
/* Shared by the files that write JSON objects for the caller: result.c writes results, and
 * src/lib/tools/call.c the replies of calls. */
#ifndef LIB_RESULT_H
#define LIB_RESULT_H

#include "base/buf.h"
#include "brig.h"

/* Returns the text in new memory in *out, or the error that prevented writing it. */
int result_take(struct buf *buf, const char *stage, char **out, size_t *len,
                struct brig_error *err);

/* Write the member "hints" of an object. */
struct jsonw;
void result_add_hints(struct jsonw *w, const char *const *hints);

#endif
