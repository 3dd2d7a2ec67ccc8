/* SPDX-License-Identifier: MIT */
/* Redaction of JSON that is passed on: the result is JSON again. */
#ifndef LIB_REDACT_JSON_H
#define LIB_REDACT_JSON_H

#include "redact.h"

/* `json` is one value that jsonscan() accepts. Appends the redacted value. Returns 0 or -errno. */
int redact_json(const struct redact_rules *rules, const char *json, size_t len, struct buf *out,
                uint64_t *count);

#endif
