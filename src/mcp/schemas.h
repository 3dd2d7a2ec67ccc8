/* The schemas of the tools that the server has itself. */
#ifndef MCP_SCHEMAS_H
#define MCP_SCHEMAS_H

#include "base/jsonw.h"

/* JSON, with ' for " so that people can read it; a %s stands for something that is not known here.
 */
extern const char schema_command[];
extern const char schema_code[]; /* %s: the languages there are, as strings */
extern const char schema_poll[];
extern const char schema_write[];
extern const char schema_cancel[];
extern const char schema_output[]; /* of all of them */

void schema_put(struct jsonw *w, const char *key, const char *schema, const char *what);

#endif
