/* Hiding secrets in JSON that is passed on: what comes out is JSON again. */
#ifndef LIB_REDACT_JSON_H
#define LIB_REDACT_JSON_H

#include "redact.h"

/* `json` is one value, as jsonscan() takes it. Appends what may be shown. 0 or -errno. */
int redact_json(const struct redact_rules *rules, const char *json, size_t len, struct buf *out,
                uint64_t *count);

#endif
