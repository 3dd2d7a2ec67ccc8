/* SPDX-License-Identifier: MIT */
/* Regular expressions of JSON Schema: those of ECMAScript (with its flag u), matching anywhere in
 * the text. They are translated to the syntax of PCRE2 where the two differ; syntax that ECMAScript
 * does not have is refused. The work of matching is counted and bounded. Pure. */
#ifndef LIB_PATTERN_H
#define LIB_PATTERN_H

#include <stddef.h>
#include <stdint.h>

struct pattern;

#define PATTERN_MAX      4096 /* bytes of an expression */
#define PATTERN_REPEAT   1000 /* the largest number in {n,m} */
#define PATTERN_WHY_SIZE 160

/* Returns 0, -EINVAL with the reason in `why`, or -ENOMEM. */
int pattern_new(struct pattern **out, const char *text, char why[PATTERN_WHY_SIZE]);
void pattern_free(struct pattern *pattern);

/* A budget shared by several matches. One unit is one item of an expression tried, or one character
 * passed. Initialize it with {.left = ...}. */
struct pattern_work {
    int64_t left;
    size_t last;
    void *data, *context;
};
void pattern_work_done(struct pattern_work *work);

/* Returns 1 or 0; -E2BIG if the budget is used up; -EILSEQ if the text is not UTF-8; -ENOMEM. */
int pattern_match(const struct pattern *pattern, const char *text, size_t len,
                  struct pattern_work *work);

#endif
