/* SPDX-License-Identifier: MIT */
/* The JSON Schema of a tools file, made from the table of keys. */
#ifndef CLI_TOOLS_SCHEMA_H
#define CLI_TOOLS_SCHEMA_H

#include "base/buf.h"

void tools_schema_write(struct buf *out);

#endif
