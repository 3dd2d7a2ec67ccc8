/* SPDX-License-Identifier: MIT */
/* The two kinds of stage that redact.c chains: the scan for the built-in rules, and the search for
 * a pattern of the user. */
#ifndef LIB_REDACT_STAGE_H
#define LIB_REDACT_STAGE_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "brig.h"
#include "redact_table.h"

/* The bytes that a stage holds. Those before `start` are kept only for looking back. */
struct redact_window {
    char *data;
    size_t len, start, size;
};

int redact_window_add(struct redact_window *window, const char *bytes, size_t len);
/* Drop all bytes before `start`, except for the `back` bytes in front of it. */
void redact_window_drop(struct redact_window *window, size_t start, size_t back);

/* ---- the built-in rules, prepared on first use ---- */
struct redact_catalog;
int redact_catalog_new(struct redact_catalog **out, uint64_t rules); /* bit i: row i of the table */
void redact_catalog_free(struct redact_catalog *catalog);

struct redact_set { /* a set of bytes */
    uint32_t bits[8];
};
static inline bool redact_set_has(const struct redact_set *set, char c)
{
    return set->bits[(unsigned char)c / 32] >> ((unsigned char)c % 32) & 1;
}
/* A leading ^ adds all bytes except these. */
void redact_set_add(struct redact_set *set, const char *bytes);

struct redact_scan {
    struct redact_catalog *catalog; /* NULL if everything passes */
    struct redact_window window;
    const struct redact_rule *inside; /* the rule whose secret continues, or NULL */
    struct redact_set stop;           /* the bytes that end it */
    unsigned backslashes;             /* number of backslashes just before */
    struct {
        unsigned dashes, letters, run, longest, misses;
        bool blank, ending;
    } key; /* state of REDACT_TAIL_KEY */
    uint64_t count;
};
/* redact_tail_begin() starts the tail of a secret of this rule. redact_tail_swallow() consumes it
 * from `at` on: it returns the position where the tail ended, with scan->inside set to NULL, or
 * `end`. */
void redact_tail_begin(struct redact_scan *scan, const struct redact_rule *rule);
size_t redact_tail_swallow(struct redact_scan *scan, const char *bytes, size_t at, size_t end,
                           struct buf *out);

void redact_scan_done(struct redact_scan *scan);
int redact_scan_feed(struct redact_scan *scan, const char *bytes, size_t len, bool final,
                     struct buf *out);

/* ---- a pattern of the user ---- */
struct redact_pattern {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    char name[40];
    uint32_t group; /* the group that is the secret; 0 for the whole match */
    size_t back;    /* bytes that it may look back at, at least 1 */
};
int redact_pattern_init(struct redact_pattern *pattern, const char *regex, size_t number,
                        struct brig_error *err);
void redact_pattern_done(struct redact_pattern *pattern);

struct redact_search {
    const struct redact_pattern *pattern;
    struct redact_window window;
    size_t again;    /* number of held bytes at which the next try is worth it */
    uint64_t credit; /* CPU time that it may still use, in ns */
    size_t slab;     /* number of positions tried in one call */
    bool stopped;
    uint64_t count;
};
void redact_search_init(struct redact_search *search, const struct redact_pattern *pattern);
void redact_search_done(struct redact_search *search);
int redact_search_feed(struct redact_search *search, const char *bytes, size_t len, bool final,
                       struct buf *out);

#endif
