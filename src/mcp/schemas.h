/* SPDX-License-Identifier: MIT */
/* The schemas of the built-in tools. */
#ifndef MCP_SCHEMAS_H
#define MCP_SCHEMAS_H

#include "base/jsonw.h"

/* JSON with ' in place of ", for readability; %s stands for a value that is filled in later. */
extern const char schema_command[];
extern const char schema_code[]; /* %s: the available languages, as strings */
extern const char schema_poll[];
extern const char schema_write[];
extern const char schema_cancel[];
extern const char schema_output[]; /* of all built-in tools */

void schema_put(struct jsonw *w, const char *key, const char *schema, const char *what);

#endif
