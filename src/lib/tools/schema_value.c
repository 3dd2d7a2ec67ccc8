/* SPDX-License-Identifier: MIT */
/* JSON values: equality, hashes to find equal elements, and a short text for messages. */
#include "schema_value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/text.h"
#include "decimal.h"

#define TEXT_PER_STEP 16 /* bytes compared for one unit of work */

static bool spend(int64_t *left, size_t steps)
{
    *left -= (int64_t)steps;
    return *left >= 0;
}

/* ---- equality ------------------------------------------------------------------------------ */

/* Find a member by name. `guess` is at the same position as in the other object, where it mostly
 * is. */
static const struct jsonr *find_member(const struct jsonr *object, const struct jsonr *guess,
                                       const char *key, int64_t *left)
{
    if (guess && strcmp(guess->key, key) == 0)
        return guess;
    return spend(left, object->count) ? jsonr_get(object, key) : NULL;
}

static int equal_members(const struct jsonr *a, const struct jsonr *b, int64_t *left)
{
    const struct jsonr *guess = b->first;
    int ret = 1;
    for (const struct jsonr *x = a->first; x && ret == 1; x = x->next) {
        const struct jsonr *y = find_member(b, guess, x->key, left);
        ret = y ? schema_equal(x, y, left) : 0;
        guess = guess ? guess->next : NULL;
    }
    return *left < 0 ? -E2BIG : ret;
}

static int equal_elements(const struct jsonr *a, const struct jsonr *b, int64_t *left)
{
    const struct jsonr *y = b->first;
    int ret = 1;
    for (const struct jsonr *x = a->first; x && ret == 1; x = x->next, y = y->next)
        ret = schema_equal(x, y, left);
    return ret;
}

int schema_equal(const struct jsonr *a, const struct jsonr *b, int64_t *left)
{
    struct decimal x, y;
    if (!spend(left, 1))
        return -E2BIG;
    if (a->type != b->type)
        return 0;
    switch (a->type) {
    case JSONR_NUMBER:
        if (!spend(left, (a->len + b->len) / TEXT_PER_STEP))
            return -E2BIG;
        x = decimal_read(a->text);
        y = decimal_read(b->text);
        return decimal_compare(&x, &y) == 0;
    case JSONR_STRING:
        if (a->len != b->len)
            return 0;
        if (!spend(left, a->len / TEXT_PER_STEP))
            return -E2BIG;
        return memcmp(a->text, b->text, a->len) == 0;
    case JSONR_ARRAY:
        return a->count == b->count ? equal_elements(a, b, left) : 0;
    case JSONR_OBJECT:
        return a->count == b->count ? equal_members(a, b, left) : 0;
    default:
        return 1;
    }
}

/* ---- equals in an array -------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t hash_text(const char *text, size_t len)
{
    uint64_t hash = len;
    for (size_t i = 0; i < len; i++)
        hash = mix(hash, (unsigned char)text[i]);
    return hash;
}

/* Values crafted to have the same hash cost comparisons, which are deducted from *left. */
static uint64_t hash_value(const struct jsonr *value, int64_t *left)
{
    uint64_t hash = value->type;
    struct decimal number;
    if (!spend(left, 1 + value->len / TEXT_PER_STEP))
        return 0;
    if (value->type == JSONR_NUMBER) {
        number = decimal_read(value->text);
        return mix(hash, decimal_hash(&number));
    }
    if (value->type == JSONR_STRING)
        return mix(hash, hash_text(value->text, value->len));
    for (const struct jsonr *item = value->first; item && *left >= 0; item = item->next) {
        uint64_t part = hash_value(item, left);
        if (item->key) /* a sum, which does not depend on the order */
            hash += mix(hash_text(item->key, strlen(item->key)), part);
        else
            hash = mix(hash, part);
    }
    return hash;
}

struct hashed {
    uint64_t hash;
    size_t at;
    const struct jsonr *value;
};

static int by_hash(const void *a, const void *b)
{
    const struct hashed *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

int schema_unique(const struct jsonr *array, int64_t *left, size_t twice[2])
{
    size_t n = 0;
    int ret = 0;
    if (array->count < 2)
        return 1;
    autofree struct hashed *items = malloc(array->count * sizeof *items);
    if (!items)
        return -ENOMEM;
    for (const struct jsonr *item = array->first; item; item = item->next, n++)
        items[n] = (struct hashed){hash_value(item, left), n, item};
    if (*left < 0)
        return -E2BIG;
    qsort(items, n, sizeof *items, by_hash);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n && items[k].hash == items[i].hash && ret == 0; k++) {
            ret = schema_equal(items[i].value, items[k].value, left);
            twice[0] = items[i].at;
            twice[1] = items[k].at;
        }
        if (ret)
            return ret < 0 ? ret : 0;
    }
    return 1;
}

/* ---- depth and words ----------------------------------------------------------------------- */

size_t schema_depth(const struct jsonr *value, size_t max)
{
    size_t depth = 1, deepest = 1;
    for (const struct jsonr *at = value;;) {
        if (at->first) {
            at = at->first;
            if (++depth > max)
                return SIZE_MAX;
            deepest = depth > deepest ? depth : deepest;
            continue;
        }
        while (at != value && !at->next) {
            at = at->parent;
            depth--;
        }
        if (at == value)
            return deepest;
        at = at->next;
    }
}

const char *schema_show(const struct jsonr *value, char out[SCHEMA_SHOWN_SIZE])
{
    static const char *const words[] = {"null", "false", "true"};
    size_t len;
    switch (value->type) {
    case JSONR_NUMBER:
        snprintf(out, SCHEMA_SHOWN_SIZE, "%.40s%s", value->text, value->len > 40 ? "..." : "");
        return out;
    case JSONR_STRING:
        len = text_cut(value->text, 60);
        snprintf(out, SCHEMA_SHOWN_SIZE, "\"%.*s\"%s", (int)len, value->text,
                 len < value->len ? "..." : "");
        return out;
    case JSONR_ARRAY:
        snprintf(out, SCHEMA_SHOWN_SIZE, "an array of %zu", value->count);
        return out;
    case JSONR_OBJECT:
        return "an object";
    default:
        return words[value->type];
    }
}
