/* SPDX-License-Identifier: MIT */
/* Checks a value with a compiled JSON schema.
 *
 * Inside, a check returns 1 (valid), 0 (invalid, with the reason in `text` unless `quiet`) or
 * -errno, which ends the whole check: a check that could not be made is not a failed one, and must
 * not make a "not" succeed. The recursion is bounded by the depth of the value and by the number of
 * schemas for one value, which schema_refs.c has computed. */
#include "schema.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "decimal.h"
#include "schema_node.h"
#include "schema_value.h"

#define STAGE        "schema"
#define VISIT        16 /* units of work for one visit; a comparison is one */
#define WORK_MAX     ((int64_t)SCHEMA_VISITS_MAX * VISIT)
#define PATTERN_WORK 20000000 /* about half a second */
#define FRAMES_MAX   512      /* less than half a MiB of stack */
#define WHY_SIZE     400
#define TEXT_SIZE    (SCHEMA_POINTER_SIZE + 32 + WHY_SIZE)

struct check {
    const struct jsonr *root; /* root of the value */
    int64_t left;
    struct pattern_work pattern_work;
    unsigned depth;
    unsigned quiet; /* above 0: the reason is not needed */
    const char *prefix;
    char text[TEXT_SIZE];
};

static int check_node(struct check *c, const struct schema_node *node, const struct jsonr *value);

/* ---- saying why ---------------------------------------------------------------------------- */

static int fails(struct check *c, const struct jsonr *value, const char *format, ...)
    __attribute__((format(printf, 3, 4), noinline)); /* uses more stack than a check */

static int fails(struct check *c, const struct jsonr *value, const char *format, ...)
{
    char pointer[SCHEMA_POINTER_SIZE], why[WHY_SIZE];
    va_list args;
    if (c->quiet)
        return 0;
    va_start(args, format);
    int len = vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (len >= (int)sizeof why) /* truncated: drop the incomplete character at the end */
        why[sizeof why - 1 - text_utf8_tail((const unsigned char *)why, sizeof why - 1)] = 0;
    const char *where = schema_pointer(c->root, value, pointer);
    snprintf(c->text, sizeof c->text, "%s%s%s%s", where, *where ? ": " : "",
             c->prefix ? c->prefix : "", why);
    return 0;
}

/* "a, b or c", or "a, b, c" */
struct words {
    char text[200];
    size_t len, count;
    bool full;
};

static void add_word(struct words *w, const char *separator, const char *word, size_t len)
{
    size_t cut = text_cut(word, len < 66 ? len : 66);
    if (!w->count++)
        separator = "";
    if (w->full || w->len + strlen(separator) + cut + sizeof ", ..." > sizeof w->text) {
        if (!w->full)
            w->len += (size_t)snprintf(w->text + w->len, sizeof w->text - w->len, ", ...");
        w->full = true;
        return;
    }
    w->len += (size_t)snprintf(w->text + w->len, sizeof w->text - w->len, "%s%.*s", separator,
                               (int)cut, word);
}

static int fails_type(struct check *c, const struct jsonr *value, unsigned types)
{
    struct words w = {.len = 0};
    char shown[SCHEMA_SHOWN_SIZE];
    for (unsigned i = 0; i < SCHEMA_TYPES; i++) {
        if (types & 1u << i)
            add_word(&w, types >> (i + 1) ? ", " : " or ", schema_types[i],
                     strlen(schema_types[i]));
    }
    return fails(c, value, "must be of type %s, is %s", w.text, schema_show(value, shown));
}

static int fails_enum(struct check *c, const struct jsonr *value, const struct jsonr *list)
{
    struct words w = {.len = 0};
    char shown[SCHEMA_SHOWN_SIZE];
    if (c->quiet)
        return 0;
    for (const struct jsonr *item = list->first; item && !w.full; item = item->next) {
        const char *word = schema_show(item, shown);
        add_word(&w, ", ", word, strlen(word));
    }
    return fails(c, value, "must be one of %s, is %s", w.text, schema_show(value, shown));
}

static int fails_unknown(struct check *c, const struct schema_node *node,
                         const struct jsonr *member)
{
    struct words w = {.text = "none"};
    if (c->quiet)
        return 0;
    const struct jsonr *known = node->properties_source ? node->properties_source->first : NULL;
    for (; known && !w.full; known = known->next)
        add_word(&w, ", ", known->key, strlen(known->key));
    return fails(c, member, "no such property (there are: %s%s)", w.text,
                 node->patterns.count ? ", and some by pattern" : "");
}

/* ---- scalars ------------------------------------------------------------------------------- */

static unsigned type_of(const struct jsonr *value)
{
    static const unsigned types[] = {
        [JSONR_NULL] = SCHEMA_NULL,     [JSONR_FALSE] = SCHEMA_BOOLEAN,
        [JSONR_TRUE] = SCHEMA_BOOLEAN,  [JSONR_NUMBER] = SCHEMA_NUMBER,
        [JSONR_STRING] = SCHEMA_STRING, [JSONR_ARRAY] = SCHEMA_ARRAY,
        [JSONR_OBJECT] = SCHEMA_OBJECT,
    };
    if (value->type != JSONR_NUMBER)
        return types[value->type];
    struct decimal number = decimal_read(value->text);
    return SCHEMA_NUMBER | (decimal_is_integer(&number) ? SCHEMA_INTEGER : 0u);
}

static int check_limit(struct check *c, const struct jsonr *value, const struct jsonr *limit,
                       const char *relation, bool above, bool equal)
{
    char shown[SCHEMA_SHOWN_SIZE], bound[SCHEMA_SHOWN_SIZE];
    if (!limit)
        return 1;
    struct decimal x = decimal_read(value->text), y = decimal_read(limit->text);
    int order = decimal_compare(&x, &y);
    if (order == 0 ? equal : (order > 0) == above)
        return 1;
    return fails(c, value, "must be %s %s, is %s", relation, schema_show(limit, bound),
                 schema_show(value, shown));
}

static int check_multiple(struct check *c, const struct jsonr *value, const struct jsonr *unit)
{
    char shown[SCHEMA_SHOWN_SIZE], bound[SCHEMA_SHOWN_SIZE];
    if (!unit)
        return 1;
    struct decimal x = decimal_read(value->text), y = decimal_read(unit->text);
    c->left -= (int64_t)value->len * 8;
    if (c->left < 0)
        return -E2BIG;
    if (decimal_is_multiple(&x, &y))
        return 1;
    return fails(c, value, "must be a multiple of %s, is %s", schema_show(unit, bound),
                 schema_show(value, shown));
}

static int check_number(struct check *c, const struct schema_node *n, const struct jsonr *value)
{
    int ret = check_limit(c, value, n->minimum, ">=", true, true);
    if (ret > 0)
        ret = check_limit(c, value, n->maximum, "<=", false, true);
    if (ret > 0)
        ret = check_limit(c, value, n->above, ">", true, false);
    if (ret > 0)
        ret = check_limit(c, value, n->below, "<", false, false);
    return ret > 0 ? check_multiple(c, value, n->multiple) : ret;
}

static int check_count(struct check *c, const struct jsonr *value, size_t count, size_t min,
                       size_t max, const char *what)
{
    if (count < min)
        return fails(c, value, "must have at least %zu %s, has %zu", min, what, count);
    if (count > max)
        return fails(c, value, "must have at most %zu %s, has %zu", max, what, count);
    return 1;
}

static size_t count_characters(const struct jsonr *value)
{
    size_t count = 0;
    for (size_t i = 0; i < value->len; i++)
        count += ((unsigned char)value->text[i] & 0xc0) != 0x80;
    return count;
}

static int check_string(struct check *c, const struct schema_node *n, const struct jsonr *value)
{
    char shown[SCHEMA_SHOWN_SIZE], wanted[SCHEMA_SHOWN_SIZE];
    int ret = 1;
    c->left -= (int64_t)value->len / VISIT;
    if (n->min_length > 0 || n->max_length < SIZE_MAX)
        ret = check_count(c, value, count_characters(value), n->min_length, n->max_length,
                          "characters");
    if (ret <= 0 || !n->pattern)
        return ret;
    ret = pattern_match(n->pattern, value->text, value->len, &c->pattern_work);
    if (ret == 0)
        return fails(c, value, "must match the pattern %s, is %s",
                     schema_show(n->pattern_source, wanted), schema_show(value, shown));
    return ret;
}

/* ---- arrays -------------------------------------------------------------------------------- */

static int check_elements(struct check *c, const struct schema_node *n, const struct jsonr *value)
{
    size_t i = 0;
    int ret = 1;
    for (const struct jsonr *item = value->first; item && ret > 0; item = item->next, i++) {
        const struct schema_node *with = i < n->prefix.count ? n->prefix.items[i] : n->items;
        if (!with)
            break;
        if (with->never)
            return fails(c, item, "no such element (there are at most %zu)", i);
        ret = check_node(c, with, item);
    }
    return ret;
}

static int check_contains(struct check *c, const struct schema_node *n, const struct jsonr *value)
{
    size_t count = 0;
    int ret = 0;
    if (!n->contains)
        return 1;
    c->quiet++;
    for (const struct jsonr *item = value->first; item && ret >= 0; item = item->next) {
        ret = check_node(c, n->contains, item);
        count += ret > 0;
    }
    c->quiet--;
    if (ret < 0)
        return ret;
    return check_count(c, value, count, n->min_contains, n->max_contains,
                       "elements that match \"contains\"");
}

static int check_array(struct check *c, const struct schema_node *n, const struct jsonr *value)
{
    size_t twice[2];
    int ret = check_count(c, value, value->count, n->min_items, n->max_items, "elements");
    if (ret > 0)
        ret = check_elements(c, n, value);
    if (ret > 0)
        ret = check_contains(c, n, value);
    if (ret <= 0 || !n->unique)
        return ret;
    ret = schema_unique(value, &c->left, twice);
    if (ret == 0)
        return fails(c, value, "must not have equal elements; %zu and %zu are", twice[0], twice[1]);
    return ret;
}

/* ---- objects ------------------------------------------------------------------------------- */

static int compare_member(const void *key, const void *member)
{
    return strcmp(key, ((const struct schema_member *)member)->key);
}

static int check_name(struct check *c, const struct schema_node *n, const struct jsonr *member)
{
    const char *outer = c->prefix;
    struct jsonr name = {.type = JSONR_STRING,
                         .key = member->key,
                         .text = member->key,
                         .len = strlen(member->key),
                         .parent = member->parent};
    c->prefix = "as a name: ";
    int ret = check_node(c, n->names, &name);
    c->prefix = outer;
    return ret;
}

/* Sets *known if a pattern matched. */
static int check_patterns(struct check *c, const struct schema_node *n, const struct jsonr *member,
                          bool *known)
{
    int ret = 1;
    for (size_t i = 0; i < n->patterns.count && ret > 0; i++) {
        const struct schema_member *row = &n->patterns.items[i];
        int match = pattern_match(row->pattern, member->key, strlen(member->key), &c->pattern_work);
        if (match < 0)
            return match;
        if (match) {
            *known = true;
            ret = check_node(c, row->node, member);
        }
    }
    return ret;
}

static int check_member(struct check *c, const struct schema_node *n, const struct jsonr *member)
{
    bool known = false;
    int ret = n->names ? check_name(c, n, member) : 1;
    const struct schema_member *row = NULL;
    if (n->properties.count)
        row = bsearch(member->key, n->properties.items, n->properties.count,
                      sizeof *n->properties.items, compare_member);
    if (ret > 0 && row) {
        known = true;
        ret = check_node(c, row->node, member);
    }
    if (ret > 0)
        ret = check_patterns(c, n, member, &known);
    if (ret <= 0 || known || !n->additional)
        return ret;
    return n->additional->never ? fails_unknown(c, n, member)
                                : check_node(c, n->additional, member);
}

static bool has_member(struct check *c, const struct jsonr *value, const char *key)
{
    c->left -= 1 + (int64_t)value->count / 4;
    /* Check_node() notices that the budget is used up. */
    return c->left < 0 || jsonr_get(value, key);
}

static int check_required(struct check *c, const struct jsonr *value, const struct jsonr *names,
                          const char *with)
{
    for (const struct jsonr *name = names ? names->first : NULL; name; name = name->next) {
        if (has_member(c, value, name->text))
            continue;
        return fails(c, value, "required property \"%.*s\" is missing%s%.*s%s",
                     (int)text_cut(name->text, 60), name->text, with ? " (there is \"" : "",
                     with ? (int)text_cut(with, 60) : 0, with ? with : "", with ? "\")" : "");
    }
    return 1;
}

static int check_object(struct check *c, const struct schema_node *n, const struct jsonr *value)
{
    int ret = 1;
    if (n->names || n->properties.count || n->patterns.count || n->additional) {
        for (const struct jsonr *m = value->first; m && ret > 0; m = m->next)
            ret = check_member(c, n, m);
    }
    if (ret > 0)
        ret = check_required(c, value, n->required, NULL);
    const struct jsonr *row = n->dependent ? n->dependent->first : NULL;
    for (; row && ret > 0; row = row->next) {
        if (row->count && has_member(c, value, row->key))
            ret = check_required(c, value, row, row->key);
    }
    if (ret > 0)
        ret =
            check_count(c, value, value->count, n->min_properties, n->max_properties, "properties");
    return ret;
}

/* ---- schemas of schemas -------------------------------------------------------------------- */

static int check_quietly(struct check *c, const struct schema_node *node, const struct jsonr *value)
{
    c->quiet++;
    int ret = check_node(c, node, value);
    c->quiet--;
    return ret;
}

/* The types that a schema requires at its top level; 0 if none. */
static unsigned types_said(const struct schema_node *node)
{
    for (unsigned i = 0; i < SCHEMA_DEPTH_MAX && !node->types && node->ref; i++)
        node = node->ref;
    return node->types;
}

/* Guess the intended alternative: the first one that accepts values of this type. */
static size_t find_nearest(const struct schema_list *list, const struct jsonr *value)
{
    unsigned type = type_of(value);
    for (size_t i = 0; i < list->count; i++) {
        unsigned types = types_said(list->items[i]);
        if (!types || types & type)
            return i;
    }
    return list->count;
}

/* Messages are built only after all alternatives have failed, because they cost more than checks.
 */
__attribute__((noinline)) static int fails_all(struct check *c, const struct schema_list *list,
                                               const struct jsonr *value, const char *keyword)
{
    char why[TEXT_SIZE];
    unsigned types = 0;
    size_t nearest = find_nearest(list, value);
    if (nearest == list->count) { /* every alternative requires a type, and none fits */
        for (size_t i = 0; i < list->count; i++)
            types |= types_said(list->items[i]);
        return fails_type(c, value,
                          types & SCHEMA_NUMBER ? types & ~(unsigned)SCHEMA_INTEGER : types);
    }
    int ret = check_node(c, list->items[nearest], value);
    if (ret || list->count == 1)
        return ret;
    snprintf(why, sizeof why, "%s", c->text);
    return fails(c, value, "matches none of the %zu schemas of %s; number %zu says: %s",
                 list->count, keyword, nearest + 1, why);
}

/* The number of alternatives that match, at most `max`. */
static int count_right(struct check *c, const struct schema_list *list, const struct jsonr *value,
                       int max)
{
    int right = 0;
    for (size_t i = 0; i < list->count && right < max; i++) {
        int ret = check_quietly(c, list->items[i], value);
        if (ret < 0)
            return ret;
        right += ret;
    }
    return right;
}

static int check_any(struct check *c, const struct schema_list *list, const struct jsonr *value,
                     int max, const char *keyword)
{
    if (list->count == 0)
        return 1;
    int right = count_right(c, list, value, max);
    if (right == 0)
        return c->quiet ? 0 : fails_all(c, list, value, keyword);
    if (right > 1)
        return fails(c, value, "matches more than one of the %zu schemas of %s", list->count,
                     keyword);
    return right;
}

static int check_not(struct check *c, const struct schema_node *n, const struct jsonr *value)
{
    char shown[SCHEMA_SHOWN_SIZE];
    int ret = n->forbidden ? check_quietly(c, n->forbidden, value) : 0;
    if (ret <= 0)
        return ret < 0 ? ret : 1;
    return fails(c, value, "must not match the schema of \"not\", is %s",
                 schema_show(value, shown));
}

static int check_condition(struct check *c, const struct schema_node *n, const struct jsonr *value)
{
    int ret = n->condition ? check_quietly(c, n->condition, value) : 1;
    if (ret < 0 || !n->condition)
        return ret;
    const struct schema_node *with = ret ? n->then : n->otherwise;
    return with ? check_node(c, with, value) : 1;
}

static int check_schemas(struct check *c, const struct schema_node *n, const struct jsonr *value)
{
    int ret = n->ref ? check_node(c, n->ref, value) : 1;
    for (size_t i = 0; i < n->all.count && ret > 0; i++)
        ret = check_node(c, n->all.items[i], value);
    if (ret > 0)
        ret = check_any(c, &n->any, value, 1, "anyOf");
    if (ret > 0)
        ret = check_any(c, &n->one, value, 2, "oneOf");
    if (ret > 0)
        ret = check_not(c, n, value);
    return ret > 0 ? check_condition(c, n, value) : ret;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int check_values(struct check *c, const struct schema_node *n, const struct jsonr *value)
{
    char shown[SCHEMA_SHOWN_SIZE], wanted[SCHEMA_SHOWN_SIZE];
    int ret = n->constant ? schema_equal(n->constant, value, &c->left) : 1;
    if (ret == 0)
        return fails(c, value, "must be %s, is %s", schema_show(n->constant, wanted),
                     schema_show(value, shown));
    if (ret < 0 || !n->enumeration)
        return ret;
    ret = 0;
    for (const struct jsonr *item = n->enumeration->first; item && ret == 0; item = item->next)
        ret = schema_equal(item, value, &c->left);
    return ret ? ret : fails_enum(c, value, n->enumeration);
}

static int check_by_type(struct check *c, const struct schema_node *n, const struct jsonr *value)
{
    switch (value->type) {
    case JSONR_NUMBER:
        return check_number(c, n, value);
    case JSONR_STRING:
        return check_string(c, n, value);
    case JSONR_ARRAY:
        return check_array(c, n, value);
    case JSONR_OBJECT:
        return check_object(c, n, value);
    default:
        return 1;
    }
}

static int check_node(struct check *c, const struct schema_node *n, const struct jsonr *value)
{
    c->left -= VISIT + (value->type == JSONR_NUMBER ? (int64_t)value->len / 4 : 0);
    if (c->left < 0)
        return -E2BIG;
    if (n->never)
        return fails(c, value, "nothing is allowed here");
    if (c->depth >= FRAMES_MAX)
        return -ELOOP;
    c->depth++;
    int ret = n->types && !(n->types & type_of(value)) ? fails_type(c, value, n->types) : 1;
    if (ret > 0 && (n->constant || n->enumeration))
        ret = check_values(c, n, value);
    if (ret > 0)
        ret = check_by_type(c, n, value);
    if (ret > 0)
        ret = check_schemas(c, n, value);
    c->depth--;
    return c->left < 0 && ret >= 0 ? -E2BIG : ret;
}

int schema_check(const struct schema *schema, const struct jsonr *value, const char *place,
                 struct brig_error *err)
{
    struct check c = {.root = value, .left = WORK_MAX, .pattern_work.left = PATTERN_WORK};
    if (schema_depth(value, SCHEMA_VALUE_DEPTH_MAX) > SCHEMA_VALUE_DEPTH_MAX)
        return error_usage(err, STAGE, "%s: nested deeper than %d", place, SCHEMA_VALUE_DEPTH_MAX);
    int ret = check_node(&c, schema->root, value);
    pattern_work_done(&c.pattern_work);
    if (ret > 0)
        return 0;
    if (ret == -ENOMEM)
        return error_memory(err, STAGE);
    const char *why = ret == 0         ? c.text
                      : ret == -ELOOP  ? "nested too deep, together with its schema"
                      : ret == -EILSEQ ? "has text that is not UTF-8"
                                       : "too much work to check it";
    return error_usage(err, STAGE, "%s: %s", place, why);
}
