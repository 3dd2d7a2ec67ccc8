/* Regular expressions as JSON Schema has them: of ECMAScript (with its flag u), found anywhere in
 * the text. They are translated for PCRE2, which has a syntax of its own where the two differ; what
 * ECMAScript does not have is refused. The work of matching is counted and bounded. Pure. */
#ifndef LIB_PATTERN_H
#define LIB_PATTERN_H

#include <stddef.h>
#include <stdint.h>

struct pattern;

#define PATTERN_MAX      4096 /* bytes of an expression */
#define PATTERN_REPEAT   1000 /* the most in {n,m} */
#define PATTERN_WHY_SIZE 160

/* -EINVAL with the reason in `why`, or -ENOMEM. */
int pattern_new(struct pattern **out, const char *text, char why[PATTERN_WHY_SIZE]);
void pattern_free(struct pattern *pattern);

/* What a number of matches may cost together: one unit is an item of an expression tried, or a
 * character passed. Begin with {.left = ...}. */
struct pattern_work {
    int64_t left;
    size_t last;
    void *data, *context;
};
void pattern_work_done(struct pattern_work *work);

/* 1 or 0; -E2BIG: too much work; -EILSEQ: not UTF-8; -ENOMEM. */
int pattern_match(const struct pattern *pattern, const char *text, size_t len,
                  struct pattern_work *work);

#endif
