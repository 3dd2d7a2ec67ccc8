/* SPDX-License-Identifier: MIT */
/* Compiles a JSON schema, with one row of a table for each known keyword. */
#include "schema_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "decimal.h"
#include "schema.h"

#define STAGE        "schema"
#define DIGITS_MAX   400  /* of a number in a schema, and of its exponent */
#define REQUIRED_MAX 1000 /* names in one list */

const char *const schema_types[SCHEMA_TYPES] = {"null",   "boolean", "integer", "number",
                                                "string", "array",   "object"};

struct compiler {
    struct schema *schema;
    const char *place;
    struct brig_error *err;
    unsigned depth;
    const struct jsonr *at; /* the schema being compiled, for messages */
    const char *keyword;
};

/* One row of the table. `offset` is the offset of the node's field that the row fills. */
struct keyword {
    const char *name;
    int (*take)(struct compiler *c, const struct jsonr *value, void *field);
    size_t offset;
    const char *hint; /* advice for a refused keyword */
};

static int compile_node(struct compiler *c, const struct jsonr *source, struct schema_node **out);

static int malformed(const struct compiler *c, const char *why)
{
    return schema_malformed(c->schema, c->at, c->keyword, c->place, why, c->err);
}

static int no_memory(const struct compiler *c)
{
    return error_memory(c->err, STAGE);
}

/* ---- values -------------------------------------------------------------------------------- */

static int take_nothing(struct compiler *c, const struct jsonr *value, void *field)
{
    return 0;
}

static int take_id(struct compiler *c, const struct jsonr *value, void *field)
{
    return c->at == c->schema->source ? 0 : malformed(c, "is supported at the root only");
}

static int take_any(struct compiler *c, const struct jsonr *value, void *field)
{
    *(const struct jsonr **)field = value;
    return 0;
}

static int take_enum(struct compiler *c, const struct jsonr *value, void *field)
{
    if (value->type != JSONR_ARRAY || value->count == 0)
        return malformed(c, "must be an array with at least one value");
    return take_any(c, value, field);
}

static int take_boolean(struct compiler *c, const struct jsonr *value, void *field)
{
    if (value->type != JSONR_TRUE && value->type != JSONR_FALSE)
        return malformed(c, "must be true or false");
    *(const struct jsonr **)field = value->type == JSONR_TRUE ? value : NULL;
    return 0;
}

static int take_string(struct compiler *c, const struct jsonr *value, void *field)
{
    if (value->type != JSONR_STRING)
        return malformed(c, "must be a string");
    return take_any(c, value, field);
}

static int take_number(struct compiler *c, const struct jsonr *value, void *field)
{
    if (value->type != JSONR_NUMBER)
        return malformed(c, "must be a number");
    struct decimal number = decimal_read(value->text);
    if (number.count > DIGITS_MAX || number.point > DIGITS_MAX || number.point < -DIGITS_MAX)
        return malformed(c, "has too many digits");
    return take_any(c, value, field);
}

static int take_unit(struct compiler *c, const struct jsonr *value, void *field)
{
    int ret = take_number(c, value, field);
    if (ret < 0)
        return ret;
    struct decimal number = decimal_read(value->text);
    if (number.negative || number.count == 0)
        return malformed(c, "must be above 0");
    if (number.count > DECIMAL_UNIT_DIGITS)
        return malformed(c, "has more than 30 digits");
    return 0;
}

static int take_count(struct compiler *c, const struct jsonr *value, void *field)
{
    struct decimal number = {.count = 0};
    if (value->type == JSONR_NUMBER)
        number = decimal_read(value->text);
    if (value->type != JSONR_NUMBER || number.negative || !decimal_is_integer(&number))
        return malformed(c, "must be an integer of at least 0");
    *(size_t *)field = decimal_size(&number);
    return 0;
}

static int take_min_contains(struct compiler *c, const struct jsonr *value, void *field)
{
    struct schema_node *node = field;
    node->min_contains_source = value;
    return take_count(c, value, &node->min_contains);
}

static int take_max_contains(struct compiler *c, const struct jsonr *value, void *field)
{
    struct schema_node *node = field;
    node->max_contains_source = value;
    return take_count(c, value, &node->max_contains);
}

/* ---- types and names ----------------------------------------------------------------------- */

static int add_type(struct compiler *c, const struct jsonr *value, unsigned *types)
{
    for (unsigned i = 0; value->type == JSONR_STRING && i < SCHEMA_TYPES; i++) {
        if (strcmp(value->text, schema_types[i]) != 0)
            continue;
        if (*types & 1u << i)
            return malformed(c, "has a type twice");
        *types |= 1u << i;
        return 0;
    }
    return malformed(c, "must be null, boolean, integer, number, string, array or object, or an "
                        "array of these");
}

static int take_type(struct compiler *c, const struct jsonr *value, void *field)
{
    if (value->type != JSONR_ARRAY)
        return add_type(c, value, field);
    if (value->count == 0)
        return malformed(c, "must not be empty");
    int ret = 0;
    for (const struct jsonr *item = value->first; item && ret == 0; item = item->next)
        ret = add_type(c, item, field);
    return ret;
}

static bool is_twice(const struct jsonr *list, const struct jsonr *name)
{
    for (const struct jsonr *item = list->first; item != name; item = item->next) {
        if (strcmp(item->text, name->text) == 0)
            return true;
    }
    return false;
}

static int take_names(struct compiler *c, const struct jsonr *value, void *field)
{
    if (value->type != JSONR_ARRAY)
        return malformed(c, "must be an array of strings");
    if (value->count > REQUIRED_MAX)
        return malformed(c, "has more than 1000 names");
    for (const struct jsonr *item = value->first; item; item = item->next) {
        if (item->type != JSONR_STRING)
            return malformed(c, "must be an array of strings");
        if (is_twice(value, item))
            return malformed(c, "has a name twice");
    }
    return take_any(c, value, field);
}

static int take_dependent(struct compiler *c, const struct jsonr *value, void *field)
{
    if (value->type != JSONR_OBJECT)
        return malformed(c, "must be an object of arrays of strings");
    const struct jsonr *unused;
    int ret = 0;
    for (const struct jsonr *member = value->first; member && ret == 0; member = member->next)
        ret = take_names(c, member, &unused);
    return ret ? ret : take_any(c, value, field);
}

/* ---- expressions --------------------------------------------------------------------------- */

static int compile_pattern(struct compiler *c, const char *text, struct pattern **out)
{
    char why[PATTERN_WHY_SIZE] = "", message[PATTERN_WHY_SIZE + 96];
    int ret = pattern_new(out, text, why);
    if (ret == -ENOMEM)
        return no_memory(c);
    if (ret == 0)
        return 0;
    snprintf(message, sizeof message, "\"%.*s\" is not a regular expression of ECMAScript: %s",
             (int)text_cut(text, 40), text, why);
    return malformed(c, message);
}

static int take_pattern(struct compiler *c, const struct jsonr *value, void *field)
{
    struct schema_node *node = field;
    int ret = take_string(c, value, &node->pattern_source);
    return ret ? ret : compile_pattern(c, value->text, &node->pattern);
}

/* ---- schemas in schemas -------------------------------------------------------------------- */

static int take_schema(struct compiler *c, const struct jsonr *value, void *field)
{
    return compile_node(c, value, field);
}

static int take_items(struct compiler *c, const struct jsonr *value, void *field)
{
    if (value->type == JSONR_ARRAY)
        return malformed(c, "an array is the form of older drafts; use prefixItems");
    return compile_node(c, value, field);
}

static int take_schemas(struct compiler *c, const struct jsonr *value, void *field)
{
    struct schema_list *list = field;
    if (value->type != JSONR_ARRAY || value->count == 0)
        return malformed(c, "must be an array with at least one schema");
    list->items = calloc(value->count, sizeof *list->items);
    if (!list->items)
        return no_memory(c);
    int ret = 0;
    for (const struct jsonr *item = value->first; item && ret == 0; item = item->next)
        ret = compile_node(c, item, &list->items[list->count++]);
    return ret;
}

static int by_key(const void *a, const void *b)
{
    const struct schema_member *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static int take_members(struct compiler *c, const struct jsonr *value,
                        struct schema_members *members)
{
    if (value->type != JSONR_OBJECT)
        return malformed(c, "must be an object of schemas");
    if (value->count == 0)
        return 0;
    members->items = calloc(value->count, sizeof *members->items);
    if (!members->items)
        return no_memory(c);
    int ret = 0;
    for (const struct jsonr *item = value->first; item && ret == 0; item = item->next) {
        struct schema_member *member = &members->items[members->count++];
        member->key = item->key;
        ret = compile_node(c, item, &member->node);
    }
    return ret;
}

static int take_properties(struct compiler *c, const struct jsonr *value, void *field)
{
    struct schema_node *node = field;
    int ret = take_members(c, value, &node->properties);
    if (ret == 0 && node->properties.count)
        qsort(node->properties.items, node->properties.count, sizeof *node->properties.items,
              by_key);
    node->properties_source = value;
    return ret;
}

static int take_patterns(struct compiler *c, const struct jsonr *value, void *field)
{
    struct schema_members *members = field;
    int ret = take_members(c, value, members);
    for (size_t i = 0; i < members->count && ret == 0; i++)
        ret = compile_pattern(c, members->items[i].key, &members->items[i].pattern);
    return ret;
}

/* Definitions are only compiled, for $ref to find. */
static int take_definitions(struct compiler *c, const struct jsonr *value, void *field)
{
    if (value->type != JSONR_OBJECT)
        return malformed(c, "must be an object of schemas");
    struct schema_node *unused;
    int ret = 0;
    for (const struct jsonr *item = value->first; item && ret == 0; item = item->next)
        ret = compile_node(c, item, &unused);
    return ret;
}

/* ---- the table ----------------------------------------------------------------------------- */

#define FIELD(take, field) take, offsetof(struct schema_node, field)

static const struct keyword keywords[] = {
    {"$comment", take_nothing},
    {"$defs", take_definitions},
    {"$id", take_id},
    {"$ref", FIELD(take_string, ref_source)},
    {"$schema", take_nothing},
    {"additionalItems", .hint = "use items with prefixItems"},
    {"additionalProperties", FIELD(take_schema, additional)},
    {"allOf", FIELD(take_schemas, all)},
    {"anyOf", FIELD(take_schemas, any)},
    {"const", FIELD(take_any, constant)},
    {"contains", FIELD(take_schema, contains)},
    {"contentEncoding", take_nothing},
    {"contentMediaType", take_nothing},
    {"default", take_nothing},
    {"definitions", take_definitions},
    {"dependencies", .hint = "use dependentRequired"},
    {"dependentRequired", FIELD(take_dependent, dependent)},
    {"deprecated", take_nothing},
    {"description", take_nothing},
    {"else", FIELD(take_schema, otherwise)},
    {"enum", FIELD(take_enum, enumeration)},
    {"examples", take_nothing},
    {"exclusiveMaximum", FIELD(take_number, below)},
    {"exclusiveMinimum", FIELD(take_number, above)},
    {"format", take_nothing},
    {"if", FIELD(take_schema, condition)},
    {"items", FIELD(take_items, items)},
    {"maxContains", take_max_contains},
    {"maxItems", FIELD(take_count, max_items)},
    {"maxLength", FIELD(take_count, max_length)},
    {"maxProperties", FIELD(take_count, max_properties)},
    {"maximum", FIELD(take_number, maximum)},
    {"minContains", take_min_contains},
    {"minItems", FIELD(take_count, min_items)},
    {"minLength", FIELD(take_count, min_length)},
    {"minProperties", FIELD(take_count, min_properties)},
    {"minimum", FIELD(take_number, minimum)},
    {"multipleOf", FIELD(take_unit, multiple)},
    {"not", FIELD(take_schema, forbidden)},
    {"oneOf", FIELD(take_schemas, one)},
    {"pattern", take_pattern},
    {"patternProperties", FIELD(take_patterns, patterns)},
    {"prefixItems", FIELD(take_schemas, prefix)},
    {"properties", take_properties},
    {"propertyNames", FIELD(take_schema, names)},
    {"readOnly", take_nothing},
    {"required", FIELD(take_names, required)},
    {"then", FIELD(take_schema, then)},
    {"title", take_nothing},
    {"type", FIELD(take_type, types)},
    {"uniqueItems", FIELD(take_boolean, unique)},
    {"writeOnly", take_nothing},
};

static int compare_keyword(const void *name, const void *row)
{
    return strcmp(name, ((const struct keyword *)row)->name);
}

static int take_keyword(struct compiler *c, const struct jsonr *member, struct schema_node *node)
{
    const struct keyword *row = bsearch(member->key, keywords, sizeof keywords / sizeof *keywords,
                                        sizeof *keywords, compare_keyword);
    const char *outer = c->keyword;
    char why[96];
    if (!row && strncmp(member->key, "x-", 2) == 0)
        return 0;
    c->keyword = member->key;
    if (!row)
        return malformed(c, "no such keyword, or not supported");
    if (!row->take) {
        snprintf(why, sizeof why, "not supported; %s", row->hint);
        return malformed(c, why);
    }
    int ret = row->take(c, member, (char *)node + row->offset);
    c->keyword = outer;
    return ret;
}

/* Refuse keywords that have no effect without another one. */
static int check_company(struct compiler *c, const struct schema_node *node)
{
    const char *lonely = NULL, *needs = "without if";
    if (node->then && !node->condition)
        lonely = "then";
    else if (node->otherwise && !node->condition)
        lonely = "else";
    else if (node->condition && !node->then && !node->otherwise)
        lonely = "if", needs = "without then and else";
    else if (node->min_contains_source && !node->contains)
        lonely = "minContains", needs = "without contains";
    else if (node->max_contains_source && !node->contains)
        lonely = "maxContains", needs = "without contains";
    if (!lonely)
        return 0;
    c->keyword = lonely;
    return malformed(c, needs);
}

static struct schema_node *add_node(struct schema *schema, const struct jsonr *source)
{
    struct schema_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->source = source;
    node->next = schema->nodes;
    node->max_length = node->max_items = node->max_properties = node->max_contains = SIZE_MAX;
    node->min_contains = 1;
    schema->nodes = node;
    schema->root = schema->root ? schema->root : node;
    schema->count++;
    return node;
}

static int compile_members(struct compiler *c, const struct jsonr *source, struct schema_node *node)
{
    int ret = 0;
    for (const struct jsonr *member = source->first; member && ret == 0; member = member->next)
        ret = take_keyword(c, member, node);
    return ret ? ret : check_company(c, node);
}

static int compile_node(struct compiler *c, const struct jsonr *source, struct schema_node **out)
{
    const struct jsonr *outer = c->at;
    const char *outer_keyword = c->keyword;
    c->at = source;
    c->keyword = NULL;
    if (source->type != JSONR_OBJECT && source->type != JSONR_TRUE && source->type != JSONR_FALSE)
        return malformed(c, "is not a schema (an object, true or false)");
    if (c->depth >= SCHEMA_DEPTH_MAX)
        return malformed(c, "schemas are nested deeper than 64");
    if (c->schema->count >= SCHEMA_COUNT_MAX)
        return malformed(c, "more than 10000 schemas in one");
    struct schema_node *node = add_node(c->schema, source);
    if (!node)
        return no_memory(c);
    node->never = source->type == JSONR_FALSE;
    c->depth++;
    int ret = compile_members(c, source, node);
    c->depth--;
    c->at = outer;
    c->keyword = outer_keyword;
    *out = node;
    return ret;
}

/* ---- new and free -------------------------------------------------------------------------- */

int schema_new(struct schema **out, const struct jsonr *root, const char *place,
               struct brig_error *err)
{
    struct schema *schema = calloc(1, sizeof *schema);
    struct schema_node *node;
    if (!schema)
        return error_memory(err, STAGE);
    schema->source = root;
    struct compiler c = {.schema = schema, .place = place, .err = err};
    int ret = compile_node(&c, root, &node);
    if (ret == 0)
        ret = schema_connect(schema, place, err);
    if (ret < 0) {
        schema_free(schema);
        return ret;
    }
    *out = schema;
    return 0;
}

static void free_node(struct schema_node *node)
{
    for (size_t i = 0; i < node->patterns.count; i++)
        pattern_free(node->patterns.items[i].pattern);
    pattern_free(node->pattern);
    free(node->patterns.items);
    free(node->properties.items);
    free(node->prefix.items);
    free(node->all.items);
    free(node->any.items);
    free(node->one.items);
    free(node);
}

void schema_free(struct schema *schema)
{
    for (struct schema_node *node = schema ? schema->nodes : NULL, *next; node; node = next) {
        next = node->next;
        free_node(node);
    }
    free(schema);
}
