/* SPDX-License-Identifier: MIT */
/* JSON Schema for the arguments of tools: checks a value against a schema before anything is
 * started. Both are untrusted. Pure.
 *
 * The dialect is 2020-12, as far as tools use it; json-schema.org documents each keyword.
 * Checked: type enum const · properties required additionalProperties patternProperties
 * propertyNames minProperties maxProperties dependentRequired · items prefixItems contains
 * minContains maxContains minItems maxItems uniqueItems · minimum maximum exclusiveMinimum
 * exclusiveMaximum multipleOf · minLength maxLength pattern · allOf anyOf oneOf not if then else ·
 * $ref (to a schema in the same text: "#", "#/$defs/x") $defs definitions.
 * Without effect: title description default examples format deprecated readOnly writeOnly
 * contentEncoding contentMediaType $schema $comment, $id at the root, and names that begin with x-.
 * Any other keyword is refused, because a caller would rely on a check that is not made. Keywords
 * without effect in their place are refused too (then without if, minContains without contains). */
#ifndef LIB_SCHEMA_H
#define LIB_SCHEMA_H

#include "base/jsonr.h"

struct schema;

#define SCHEMA_DEPTH_MAX       64      /* nesting of schemas, and number of schemas for one value */
#define SCHEMA_COUNT_MAX       10000   /* schemas within a schema */
#define SCHEMA_VALUE_DEPTH_MAX 128     /* nesting of a checked value */
#define SCHEMA_VISITS_MAX      1000000 /* visits of a schema to a value, in one check */

/* `root` must outlive the schema, which refers to it. `place` names it in messages. An invalid or
 * unsupported schema is refused (-EINVAL, a usage fault): the message has the place, the JSON
 * pointer, the keyword and the reason. */
int schema_new(struct schema **out, const struct jsonr *root, const char *place,
               struct brig_error *err);
void schema_free(struct schema *schema);

/* Check a value. Returns 0, -ENOMEM, or -EINVAL (a usage fault) with a message that has the JSON
 * pointer of the value, the expectation and the value found: "arguments: /depth: must be <= 10, is
 * 12". A check that would take too much work, or is nested too deeply, fails in the same way.
 * `value` may be part of a larger value; pointers begin at it. Several threads may use one schema
 * at once. */
int schema_check(const struct schema *schema, const struct jsonr *value, const char *place,
                 struct brig_error *err);

#endif
