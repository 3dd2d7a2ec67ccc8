/* SPDX-License-Identifier: MIT */
/* A compiled schema: schema_compile.c creates it, schema_refs.c connects its references and
 * schema.c checks values with it. */
#ifndef LIB_SCHEMA_NODE_H
#define LIB_SCHEMA_NODE_H

#include <stdint.h>

#include "base/jsonr.h"
#include "pattern.h"

/* Bits of `types`, in the order of schema_types. */
enum schema_type {
    SCHEMA_NULL = 1,
    SCHEMA_BOOLEAN = 2,
    SCHEMA_INTEGER = 4,
    SCHEMA_NUMBER = 8,
    SCHEMA_STRING = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_OBJECT = 64,
};
#define SCHEMA_TYPES 7
extern const char *const schema_types[SCHEMA_TYPES];

struct schema_list {
    struct schema_node **items;
    size_t count;
};

/* A member of properties or patternProperties. */
struct schema_member {
    const char *key;
    struct pattern *pattern; /* NULL in properties */
    struct schema_node *node;
};

struct schema_members {
    struct schema_member *items; /* of properties: sorted by key */
    size_t count;
};

struct schema_node {
    struct schema_node *next; /* in the list of all nodes */
    const struct jsonr *source;
    unsigned height; /* number of nested schemas for the same value; 0 if not yet computed */
    bool open;       /* set while the height is being computed */
    bool never;      /* the schema "false" */
    unsigned types;  /* 0 for any type */

    /* Values in the source; NULL if absent. */
    const struct jsonr *enumeration, *constant, *properties_source, *required, *dependent;
    const struct jsonr *minimum, *maximum, *above, *below, *multiple, *unique;
    const struct jsonr *pattern_source, *ref_source, *min_contains_source, *max_contains_source;

    size_t min_length, max_length, min_items, max_items, min_properties, max_properties;
    size_t min_contains, max_contains;
    struct pattern *pattern;
    struct schema_members properties, patterns;
    struct schema_node *additional, *names, *items, *contains;
    struct schema_list prefix, all, any, one;
    struct schema_node *forbidden, *condition, *then, *otherwise, *ref;
};

struct schema {
    const struct jsonr *source;
    struct schema_node *root;  /* the first node created */
    struct schema_node *nodes; /* list of all nodes, the last one created first */
    size_t count;
};

/* The JSON pointer of a value within `root`, for a message. It always fits its buffer: long names
 * and the beginning of long pointers are cut. Empty for the root itself. */
#define SCHEMA_POINTER_SIZE 192
const char *schema_pointer(const struct jsonr *root, const struct jsonr *value,
                           char out[SCHEMA_POINTER_SIZE]);

/* Connect every $ref with its schema, and refuse endless ones. */
int schema_connect(struct schema *schema, const char *place, struct brig_error *err);

/* Report an error in a schema. Returns -EINVAL. `keyword` may be NULL. */
int schema_malformed(const struct schema *schema, const struct jsonr *at, const char *keyword,
                     const char *place, const char *why, struct brig_error *err);

#endif
