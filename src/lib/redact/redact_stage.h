/* The two kinds of filter that redact.c chains: the scan for the built-in rules, and the search for
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

/* Bytes at hand: those before `start` are only there to look back at. */
struct redact_window {
    char *data;
    size_t len, start, size;
};

int redact_window_add(struct redact_window *window, const char *bytes, size_t len);
/* Forget all but what comes from `start` on and `back` bytes before it. */
void redact_window_drop(struct redact_window *window, size_t start, size_t back);

/* ---- the built-in rules, made ready as far as they were needed ---- */
struct redact_catalog;
int redact_catalog_new(struct redact_catalog **out, uint64_t rules); /* bit i: row i of the table */
void redact_catalog_free(struct redact_catalog *catalog);

struct redact_set { /* of bytes */
    uint32_t bits[8];
};
static inline bool redact_set_has(const struct redact_set *set, char c)
{
    return set->bits[(unsigned char)c / 32] >> ((unsigned char)c % 32) & 1;
}
void redact_set_add(struct redact_set *set, const char *bytes); /* ^ before them: all but these */

struct redact_scan {
    struct redact_catalog *catalog; /* NULL: all passes */
    struct redact_window window;
    const struct redact_rule *inside; /* the rule whose secret goes on, or NULL */
    struct redact_set stop;           /* what ends it */
    unsigned backslashes;             /* how many there were just now */
    struct {
        unsigned dashes, letters, run, longest, misses;
        bool blank, ending;
    } key; /* of REDACT_TAIL_KEY */
    uint64_t count;
};
/* The secret of this rule begins; its tail, from `at` on as far as it goes: where it ended, then
 * scan->inside is NULL, or `end`. */
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
    uint32_t group; /* of the secret; 0: all of it */
    size_t back;    /* how far it looks back, at least 1 */
};
int redact_pattern_init(struct redact_pattern *pattern, const char *regex, size_t number,
                        struct brig_error *err);
void redact_pattern_done(struct redact_pattern *pattern);

struct redact_search {
    const struct redact_pattern *pattern;
    struct redact_window window;
    size_t again;    /* the length from which on it is worth another try */
    uint64_t credit; /* ns of work that it may still do */
    size_t slab;     /* how many places are tried at once */
    bool stopped;
    uint64_t count;
};
void redact_search_init(struct redact_search *search, const struct redact_pattern *pattern);
void redact_search_done(struct redact_search *search);
int redact_search_feed(struct redact_search *search, const char *bytes, size_t len, bool final,
                       struct buf *out);

#endif
