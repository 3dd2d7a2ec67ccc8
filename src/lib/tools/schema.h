/* JSON Schema for the arguments of tools: whether a value is as a schema says, asked before
 * anything is started. Both are of unknown origin. Pure.
 *
 * The dialect is that of 2020-12, as far as tools use it; docs of each keyword: json-schema.org.
 * Checked: type enum const · properties required additionalProperties patternProperties
 * propertyNames minProperties maxProperties dependentRequired · items prefixItems contains
 * minContains maxContains minItems maxItems uniqueItems · minimum maximum exclusiveMinimum
 * exclusiveMaximum multipleOf · minLength maxLength pattern · allOf anyOf oneOf not if then else ·
 * $ref (to a schema in the same text: "#", "#/$defs/x") $defs definitions.
 * Of no effect: title description default examples format deprecated readOnly writeOnly
 * contentEncoding contentMediaType $schema $comment, $id at the root, and names that begin with x-.
 * Any other keyword is refused: a check that is asked for and not made would be a lie. So are
 * keywords that do nothing where they stand (then without if, minContains without contains). */
#ifndef LIB_SCHEMA_H
#define LIB_SCHEMA_H

#include "base/jsonr.h"

struct schema;

#define SCHEMA_DEPTH_MAX       64      /* of schemas in schemas, and of those for one value */
#define SCHEMA_COUNT_MAX       10000   /* of schemas in a schema */
#define SCHEMA_VALUE_DEPTH_MAX 128     /* of a value that is checked */
#define SCHEMA_VISITS_MAX      1000000 /* of a schema to a value, in one check */

/* `root` must outlive the schema, which refers to it. `place` names it in messages. A schema that
 * is not one, or has what is not supported, is refused (-EINVAL, a fault of usage): the message has
 * the place, the JSON pointer, the keyword and why. */
int schema_new(struct schema **out, const struct jsonr *root, const char *place,
               struct brig_error *err);
void schema_free(struct schema *schema);

/* 0, or -EINVAL (a fault of usage) with a message that names the value by its JSON pointer, what
 * was expected and what was found: "arguments: /depth: must be <= 10, is 12". A check that would
 * take too much work or is nested too deep fails in the same way. -ENOMEM. `value` may be part of a
 * larger one; pointers begin at it. One schema may be used by several threads at once. */
int schema_check(const struct schema *schema, const struct jsonr *value, const char *place,
                 struct brig_error *err);

#endif
