/* SPDX-License-Identifier: MIT */
/* Chains the stages of redaction: the built-in rules, then the patterns of the user. */
#include "redact.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "redact_stage.h"

/* PIECE bytes at a time go from one stage to the next. A secret of a few bytes grows to about
 * thirty. */
#define PIECE   65536
#define BETWEEN (32u * 65536)

struct redact_rules {
    struct redact_catalog *catalog; /* NULL if no built-in rule is chosen */
    size_t count;
    struct redact_pattern patterns[];
};

struct redactor {
    const struct redact_rules *rules;
    struct redact_scan scan;
    struct buf between[2];
    uint64_t taken, given; /* bytes taken from the caller and given out */
    struct redact_search searches[];
};

/* ---- the rules ----------------------------------------------------------------------------- */

static int choose_set(const char *name, size_t len, uint64_t *chosen, struct brig_error *err)
{
    bool known = false;
    for (size_t i = 0; i < redact_table_len; i++)
        if (strlen(redact_table[i].set) == len && memcmp(redact_table[i].set, name, len) == 0) {
            *chosen |= UINT64_C(1) << i;
            known = true;
        }
    return known ? 0
                 : error_usage(err, "redact",
                               "redact_set: no set is called \"%.*s\"; there are tokens, "
                               "assignments, headers, urls and private-keys",
                               (int)len, name);
}

static int choose_sets(const char *sets, uint64_t *chosen, struct brig_error *err)
{
    int ret = 0;
    *chosen = 0;
    if (!sets)
        *chosen = (UINT64_C(1) << redact_table_len) - 1;
    while (sets && *sets && ret == 0) {
        size_t len = strcspn(sets, ",");
        ret = choose_set(sets, len, chosen, err);
        sets += len + (sets[len] == ',');
    }
    return ret;
}

int redact_rules_new(struct redact_rules **out, const char *sets, const char *const *patterns,
                     struct brig_error *err)
{
    uint64_t chosen;
    size_t count = 0;
    int ret = choose_sets(sets, &chosen, err);
    if (ret < 0)
        return ret;
    while (patterns && patterns[count])
        count++;
    struct redact_rules *rules = calloc(1, sizeof *rules + count * sizeof *rules->patterns);
    if (!rules)
        return error_memory(err, "redact");
    if (chosen && redact_catalog_new(&rules->catalog, chosen) < 0)
        ret = error_memory(err, "redact");
    for (; ret == 0 && rules->count < count; rules->count++)
        ret = redact_pattern_init(&rules->patterns[rules->count], patterns[rules->count],
                                  rules->count + 1, err);
    if (ret < 0)
        redact_rules_free(rules);
    else
        *out = rules;
    return ret;
}

void redact_rules_free(struct redact_rules *rules)
{
    if (!rules)
        return;
    redact_catalog_free(rules->catalog);
    for (size_t i = 0; i < rules->count; i++)
        redact_pattern_done(&rules->patterns[i]);
    free(rules);
}

/* ---- a stream ------------------------------------------------------------------------------ */

int redactor_new(struct redactor **out, const struct redact_rules *rules)
{
    struct redactor *r = calloc(1, sizeof *r + rules->count * sizeof *r->searches);
    if (!r)
        return -ENOMEM;
    r->rules = rules;
    r->scan.catalog = rules->catalog;
    for (size_t i = 0; i < rules->count; i++)
        redact_search_init(&r->searches[i], &rules->patterns[i]);
    for (size_t i = 0; i < 2; i++)
        buf_init(&r->between[i], BETWEEN);
    *out = r;
    return 0;
}

void redactor_free(struct redactor *r)
{
    if (!r)
        return;
    redact_scan_done(&r->scan);
    for (size_t i = 0; i < r->rules->count; i++)
        redact_search_done(&r->searches[i]);
    for (size_t i = 0; i < 2; i++)
        buf_done(&r->between[i]);
    free(r);
}

static int feed_piece(struct redactor *r, const char *bytes, size_t len, bool final,
                      struct buf *out)
{
    size_t last = r->rules->count, before = out->len;
    struct buf *to = last ? &r->between[0] : out;
    to->len = last ? 0 : to->len;
    int ret = redact_scan_feed(&r->scan, bytes, len, final, to);
    for (size_t i = 0; i < last && ret == 0; i++) {
        const struct buf *from = to;
        to = i + 1 < last ? &r->between[(i + 1) % 2] : out;
        to->len = i + 1 < last ? 0 : to->len;
        ret = redact_search_feed(&r->searches[i], from->data, from->len, final, to);
    }
    r->taken += len;
    r->given += out->len - before;
    return ret;
}

int redactor_feed(struct redactor *r, const char *bytes, size_t len, struct buf *out)
{
    /* Without patterns there is no buffer between stages, so no need for pieces. */
    size_t most = r->rules->count ? PIECE : len;
    int ret = 0;
    while (len && ret == 0) {
        size_t n = len < most ? len : most;
        ret = feed_piece(r, bytes, n, false, out);
        bytes += n;
        len -= n;
    }
    return ret;
}

int redactor_end(struct redactor *r, struct buf *out)
{
    return feed_piece(r, "", 0, true, out);
}

size_t redactor_held(const struct redactor *r)
{
    size_t held = r->scan.window.len - r->scan.window.start;
    for (size_t i = 0; i < r->rules->count; i++)
        held += r->searches[i].window.len - r->searches[i].window.start;
    return held;
}

uint64_t redactor_count(const struct redactor *r)
{
    uint64_t count = r->scan.count;
    for (size_t i = 0; i < r->rules->count; i++)
        count += r->searches[i].count;
    return count;
}

uint64_t redactor_swallowed(const struct redactor *r)
{
    uint64_t there = r->given + redactor_held(r);
    return r->taken > there ? r->taken - there : 0;
}

const char *redactor_failure(const struct redactor *r)
{
    for (size_t i = 0; i < r->rules->count; i++)
        if (r->searches[i].stopped)
            return r->rules->patterns[i].name;
    return NULL;
}

int redact_text(const struct redact_rules *rules, const char *text, size_t len, struct buf *out,
                uint64_t *count)
{
    struct redactor *r;
    int ret = redactor_new(&r, rules);
    if (ret < 0)
        return ret;
    ret = redactor_feed(r, text, len, out);
    if (ret == 0)
        ret = redactor_end(r, out);
    if (ret == 0 && redactor_failure(r))
        ret = -ETIMEDOUT;
    if (ret == 0 && count)
        *count = redactor_count(r);
    redactor_free(r);
    return ret;
}
