/* SPDX-License-Identifier: MIT */
/* $ref: parses and prints JSON pointers within a schema, and refuses references that form a cycle
 * without descending into the value. */
#include "schema_node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "schema.h"

#define STAGE "schema"

/* ---- pointers to be shown ------------------------------------------------------------------ */

#define NAME_SHOWN 48

static size_t index_of(const struct jsonr *value)
{
    size_t i = 0;
    for (const struct jsonr *item = value->parent->first; item && item != value; item = item->next)
        i++;
    return i;
}

/* Print "/name" or "/3", with ~ and / of the name escaped. Returns its length. */
static size_t print_step(const struct jsonr *value, char out[2 * NAME_SHOWN + 8])
{
    size_t n = 0;
    if (!value->key)
        return (size_t)snprintf(out, 2 * NAME_SHOWN + 8, "/%zu", index_of(value));
    out[n++] = '/';
    size_t len = text_cut(value->key, NAME_SHOWN);
    for (size_t i = 0; i < len; i++) {
        char c = value->key[i];
        if (c == '~' || c == '/')
            out[n++] = '~';
        out[n++] = c == '~' ? '0' : c == '/' ? '1' : c;
    }
    for (size_t i = 0; value->key[len] && i < 3; i++)
        out[n++] = '.';
    return n;
}

const char *schema_pointer(const struct jsonr *root, const struct jsonr *value,
                           char out[SCHEMA_POINTER_SIZE])
{
    char step[2 * NAME_SHOWN + 8], *at = &out[SCHEMA_POINTER_SIZE - 1];
    *at = 0;
    for (; value && value != root && value->parent; value = value->parent) {
        size_t len = print_step(value, step);
        if ((size_t)(at - out) < len + 3) { /* the end says more than the beginning */
            at -= 3;
            return memcpy(at, "...", 3);
        }
        at -= len;
        memcpy(at, step, len);
    }
    return at;
}

int schema_malformed(const struct schema *schema, const struct jsonr *at, const char *keyword,
                     const char *place, const char *why, struct brig_error *err)
{
    char pointer[SCHEMA_POINTER_SIZE];
    const char *where = schema_pointer(schema->source, at, pointer);
    return error_usage(err, STAGE, "%s: %s%s%.*s%s%s", place, where, *where ? ": " : "",
                       keyword ? (int)text_cut(keyword, 60) : 0, keyword ? keyword : "",
                       keyword ? ": " : "", why);
}

/* ---- pointers that are followed ------------------------------------------------------------ */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Decode %41 to A, in place. Returns false if an escape is invalid. */
static bool unescape_url(char *text)
{
    char *out = text;
    for (; *text; text++) {
        if (*text != '%') {
            *out++ = *text;
            continue;
        }
        int high = hex_digit(text[1]), low = high >= 0 ? hex_digit(text[2]) : -1;
        if (low < 0 || high + low == 0)
            return false;
        *out++ = (char)(high * 16 + low);
        text += 2;
    }
    *out = 0;
    return true;
}

/* Decode ~0 to ~ and ~1 to /, in place. Returns false if an escape is invalid. */
static bool unescape_step(char *text)
{
    char *out = text;
    for (; *text; text++) {
        char c = *text;
        if (c == '~') {
            c = *++text == '0' ? '~' : *text == '1' ? '/' : 0;
            if (!c)
                return false;
        }
        *out++ = c;
    }
    *out = 0;
    return true;
}

static const struct jsonr *follow_step(const struct jsonr *from, const char *step)
{
    if (from->type != JSONR_ARRAY)
        return jsonr_get(from, step);
    size_t digits = strspn(step, "0123456789"), i = 0;
    if (!digits || step[digits] || digits > 9 || (*step == '0' && digits > 1))
        return NULL;
    const struct jsonr *item = from->first;
    for (size_t n = strtoul(step, NULL, 10); item && i < n; i++)
        item = item->next;
    return item;
}

/* `pointer` starts after the # and is modified. */
static const struct jsonr *follow(const struct jsonr *root, char *pointer)
{
    const struct jsonr *at = root;
    while (at && *pointer) {
        char *step = pointer + 1, *end = step + strcspn(step, "/");
        bool last = *end == 0;
        *end = 0;
        at = unescape_step(step) ? follow_step(at, step) : NULL;
        if (last)
            break;
        *end = '/';
        pointer = end;
    }
    return at;
}

/* ---- connecting ---------------------------------------------------------------------------- */

static int by_source(const void *a, const void *b)
{
    const struct schema_node *const *x = a, *const *y = b;
    uintptr_t i = (uintptr_t)(*x)->source, j = (uintptr_t)(*y)->source;
    return (i > j) - (i < j);
}

static struct schema_node *find_node(struct schema_node **nodes, size_t count,
                                     const struct jsonr *source)
{
    const struct schema_node key = {.source = source}, *wanted = &key;
    struct schema_node **found = bsearch(&wanted, nodes, count, sizeof *nodes, by_source);
    return found ? *found : NULL;
}

struct connection {
    struct schema *schema;
    struct schema_node **nodes; /* all nodes, sorted by source */
    const char *place;
    struct brig_error *err;
};

static int refuse(const struct connection *c, const struct schema_node *node, const char *why)
{
    char message[128];
    const char *ref = node->ref_source->text;
    snprintf(message, sizeof message, "\"%.*s\" %s", (int)text_cut(ref, 48), ref, why);
    return schema_malformed(c->schema, node->source, "$ref", c->place, message, c->err);
}

static int connect_one(const struct connection *c, struct schema_node *node)
{
    const char *ref = node->ref_source->text;
    if (ref[0] != '#' || (ref[1] && ref[1] != '/' && ref[1] != '%'))
        return refuse(c, node, "is not a place in this schema, such as \"#/$defs/name\"");
    autofree char *pointer = strdup(ref + 1);
    if (!pointer)
        return error_memory(c->err, STAGE);
    const struct jsonr *source = NULL;
    if (unescape_url(pointer) && (!*pointer || *pointer == '/'))
        source = follow(c->schema->source, pointer);
    if (!source)
        return refuse(c, node, "leads nowhere");
    node->ref = find_node(c->nodes, c->schema->count, source);
    return node->ref ? 0 : refuse(c, node, "is not the place of a schema");
}

static int measure(const struct connection *c, struct schema_node *node, unsigned depth);

static int measure_below(const struct connection *c, struct schema_node *node,
                         struct schema_node *below, unsigned depth)
{
    int ret = below ? measure(c, below, depth + 1) : 0;
    if (below && ret == 0 && below->height >= node->height)
        node->height = below->height + 1;
    return ret;
}

static int measure_list(const struct connection *c, struct schema_node *node,
                        const struct schema_list *list, unsigned depth)
{
    int ret = 0;
    for (size_t i = 0; i < list->count && ret == 0; i++)
        ret = measure_below(c, node, list->items[i], depth);
    return ret;
}

/* Compute the largest number of nested schemas below this one that apply to one value. */
static int measure(const struct connection *c, struct schema_node *node, unsigned depth)
{
    if (node->open)
        return schema_malformed(c->schema, node->source, NULL, c->place,
                                "a $ref leads back here, for the same value", c->err);
    if (node->height && depth + node->height <= SCHEMA_DEPTH_MAX)
        return 0;
    if (depth >= SCHEMA_DEPTH_MAX || node->height)
        return schema_malformed(c->schema, node->source, NULL, c->place,
                                "more than 64 schemas for one value", c->err);
    node->open = true;
    node->height = 1;
    int ret = measure_below(c, node, node->ref, depth);
    struct schema_node *const single[] = {node->forbidden, node->condition, node->then,
                                          node->otherwise};
    for (size_t i = 0; i < sizeof single / sizeof *single && ret == 0; i++)
        ret = measure_below(c, node, single[i], depth);
    const struct schema_list *const lists[] = {&node->all, &node->any, &node->one};
    for (size_t i = 0; i < sizeof lists / sizeof *lists && ret == 0; i++)
        ret = measure_list(c, node, lists[i], depth);
    node->open = false;
    return ret;
}

int schema_connect(struct schema *schema, const char *place, struct brig_error *err)
{
    size_t n = 0;
    int ret = 0;
    autofree struct schema_node **nodes = malloc(schema->count * sizeof *nodes);
    if (!nodes)
        return error_memory(err, STAGE);
    for (struct schema_node *node = schema->nodes; node; node = node->next)
        nodes[n++] = node;
    qsort(nodes, n, sizeof *nodes, by_source);
    struct connection c = {.schema = schema, .nodes = nodes, .place = place, .err = err};
    for (struct schema_node *node = schema->nodes; node && ret == 0; node = node->next)
        ret = node->ref_source ? connect_one(&c, node) : 0;
    for (struct schema_node *node = schema->nodes; node && ret == 0; node = node->next)
        ret = measure(&c, node, 0);
    return ret;
}
