/* SPDX-License-Identifier: MIT */
/* The search for a pattern of the user.
 *
 * The pattern is untrusted: it may look at the whole text, and may run without end. Up to
 * REDACT_HOLD bytes are held for it. A decision at one position never depends on bytes further away
 * than that; otherwise it would depend on how the text was cut into pieces. Time is measured as CPU
 * time of the thread, so that a busy machine does not stop a pattern. */
#include "redact_stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "redact.h"

/* The largest single lookbehind. PCRE2 reports the longest lookbehind of a pattern, but not the sum
 * of nested ones, so a pattern with any lookbehind keeps LOOK_BACK bytes. */
#define LOOK_BACK_MAX 255u
#define LOOK_BACK     4096u

/* For one position of the text: about a millisecond in JIT code, ten in the interpreter. It exceeds
 * REDACT_HOLD, so that a .*? over all held bytes succeeds. */
#define STEPS_MAX     200000u
#define JIT_STACK_MAX (512u << 10)
#define HEAP_MAX      4096u /* KiB */

/* The work that a pattern may do: up to CREDIT_MAX ns at once, earned per byte and per try. */
#define CREDIT_MAX      UINT64_C(30000000)
#define CREDIT_PER_BYTE UINT64_C(1000)
#define CREDIT_PER_TRY  UINT64_C(20000)

/* Number of positions tried in one call, between two reads of the clock. */
#define SLAB_MAX  2048u
#define SLAB_MIN  16u
#define SLAB_SLOW UINT64_C(2000000) /* ns */

#define ALWAYS_AGAIN 4096u /* number of held bytes up to which every feed is worth a try */

/* ---- the pattern --------------------------------------------------------------------------- */

/* Find escapes and verbs that refer to the start of the search or the end of the text: a stream has
 * many of both. */
static const char *depends_on_pieces(const char *regex)
{
    bool set = false;
    for (const char *c = regex; *c; c++) {
        if (*c == '\\' && c[1]) {
            c++;
            if (!set && (*c == 'G' || *c == 'Z'))
                return *c == 'G' ? "\\G" : "\\Z";
        } else if (set) {
            set = *c != ']';
        } else if (*c == '[') {
            set = true;
            c += c[1] == '^';
            c += c[1] == ']'; /* a ] in first place is a member of the set */
        } else if (*c == '(' && c[1] == '*') {
            return "(*";
        }
    }
    return NULL;
}

/* Choose the first named group as the secret. */
static void find_group(struct redact_pattern *pattern, size_t number)
{
    uint32_t count = 0, size = 0;
    PCRE2_SPTR entry = NULL;
    pcre2_pattern_info(pattern->code, PCRE2_INFO_NAMECOUNT, &count);
    pcre2_pattern_info(pattern->code, PCRE2_INFO_NAMEENTRYSIZE, &size);
    pcre2_pattern_info(pattern->code, PCRE2_INFO_NAMETABLE, &entry);
    snprintf(pattern->name, sizeof pattern->name, "pattern-%zu", number);
    for (; count; count--, entry += size) {
        uint32_t group = (uint32_t)entry[0] << 8 | entry[1];
        if (pattern->group && pattern->group < group)
            continue;
        pattern->group = group;
        snprintf(pattern->name, sizeof pattern->name, "%s", (const char *)entry + 2);
    }
}

static int check_pattern(struct redact_pattern *pattern, size_t number, struct brig_error *err)
{
    uint32_t empty = 0, back = 0;
    pcre2_pattern_info(pattern->code, PCRE2_INFO_MATCHEMPTY, &empty);
    pcre2_pattern_info(pattern->code, PCRE2_INFO_MAXLOOKBEHIND, &back);
    if (empty)
        return error_usage(err, "redact", "redact_pattern: number %zu matches the empty text",
                           number);
    if (back > LOOK_BACK_MAX)
        return error_usage(err, "redact",
                           "redact_pattern: number %zu looks back over more than %u bytes", number,
                           LOOK_BACK_MAX);
    /* A byte in front of the position keeps PCRE2 from taking it for the start of the text. */
    pattern->back = back ? LOOK_BACK : 1;
    find_group(pattern, number);
    return 0;
}

static int prepare_match(struct redact_pattern *pattern)
{
    pattern->match = pcre2_match_data_create_from_pattern(pattern->code, NULL);
    pattern->context = pcre2_match_context_create(NULL);
    pattern->stack = pcre2_jit_stack_create(32u << 10, JIT_STACK_MAX, NULL);
    if (!pattern->match || !pattern->context || !pattern->stack)
        return -ENOMEM;
    pcre2_set_match_limit(pattern->context, STEPS_MAX);
    pcre2_set_depth_limit(pattern->context, STEPS_MAX);
    pcre2_set_heap_limit(pattern->context, HEAP_MAX);
    pcre2_jit_stack_assign(pattern->context, NULL, pattern->stack);
    /* Best effort: without JIT the interpreter is used. */
    pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    return 0;
}

int redact_pattern_init(struct redact_pattern *pattern, const char *regex, size_t number,
                        struct brig_error *err)
{
    int error = 0, ret;
    PCRE2_SIZE offset = 0;
    const char *piecewise = depends_on_pieces(regex);
    if (piecewise)
        return error_usage(err, "redact",
                           "redact_pattern: number %zu: %s has no meaning in a stream", number,
                           piecewise);
    pattern->code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED,
                                  PCRE2_MULTILINE | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_UTF |
                                      PCRE2_USE_OFFSET_LIMIT,
                                  &error, &offset, NULL);
    if (!pattern->code && error == PCRE2_ERROR_NOMEMORY)
        return error_memory(err, "redact");
    if (!pattern->code) {
        PCRE2_UCHAR text[256] = "";
        pcre2_get_error_message(error, text, sizeof text);
        return error_usage(err, "redact", "redact_pattern: number %zu: %s, at offset %zu of \"%s\"",
                           number, (const char *)text, (size_t)offset, regex);
    }
    ret = check_pattern(pattern, number, err);
    if (ret == 0 && prepare_match(pattern) < 0)
        ret = error_memory(err, "redact");
    if (ret < 0)
        redact_pattern_done(pattern);
    return ret;
}

void redact_pattern_done(struct redact_pattern *pattern)
{
    pcre2_match_data_free(pattern->match);
    pcre2_match_context_free(pattern->context);
    pcre2_jit_stack_free(pattern->stack);
    pcre2_code_free(pattern->code);
    *pattern = (struct redact_pattern){0};
}

/* ---- a stream ------------------------------------------------------------------------------ */

static uint64_t now(void)
{
    struct timespec ts = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

void redact_search_init(struct redact_search *search, const struct redact_pattern *pattern)
{
    *search = (struct redact_search){pattern, .credit = CREDIT_MAX, .slab = SLAB_MAX};
}

void redact_search_done(struct redact_search *search)
{
    free(search->window.data);
    search->window = (struct redact_window){0};
}

static void earn(struct redact_search *search, uint64_t credit)
{
    search->credit += credit;
    if (search->credit > CREDIT_MAX)
        search->credit = CREDIT_MAX;
}

/* Call PCRE2 once, from `at` on, for at most one slab of positions. Returns its result, or
 * PCRE2_ERROR_MATCHLIMIT if the pattern used up its credit. */
static int try_slab(struct redact_search *search, size_t at, size_t end, bool partial)
{
    const struct redact_pattern *pattern = search->pattern;
    uint64_t start = now();
    pcre2_set_offset_limit(pattern->context, at + search->slab - 1);
    int rc = pcre2_match(pattern->code, (PCRE2_SPTR)search->window.data, end, at,
                         PCRE2_NOTEMPTY | (partial ? PCRE2_PARTIAL_HARD : 0), pattern->match,
                         pattern->context);
    uint64_t took = now() - start;
    if (took > SLAB_SLOW && search->slab > SLAB_MIN)
        search->slab = SLAB_MIN;
    if (took > search->credit && end > at)
        return PCRE2_ERROR_MATCHLIMIT;
    search->credit -= took;
    return rc;
}

/* Call PCRE2 for all positions of [at, end), slab by slab. */
static int try_all(struct redact_search *search, size_t *at, size_t end, bool partial)
{
    for (;;) {
        int rc = try_slab(search, *at, end, partial);
        if (rc != PCRE2_ERROR_NOMATCH || end - *at <= search->slab)
            return rc;
        *at += search->slab;
    }
}

static void show_secret(struct redact_search *search, struct buf *out)
{
    buf_printf(out, "[redacted:%s]", search->pattern->name);
    search->count++;
}

static void stop_showing(struct redact_search *search, struct buf *out)
{
    buf_printf(out, "[redacted: %s took too long]", search->pattern->name);
    search->stopped = true;
    redact_search_done(search);
}

/* Show the bytes from `from` to the secret, and a placeholder for it. Returns the end of the match.
 */
static size_t show_match(struct redact_search *search, size_t from, struct buf *out)
{
    const char *data = search->window.data;
    const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(search->pattern->match);
    size_t group = search->pattern->group, first = offsets[0], last = offsets[1];
    if (group && offsets[2 * group] != PCRE2_UNSET && offsets[2 * group] >= first &&
        offsets[2 * group + 1] <= last) {
        first = offsets[2 * group];
        last = offsets[2 * group + 1];
    }
    buf_add(out, data + from, first - from);
    if (last > first)
        show_secret(search, out);
    buf_add(out, data + last, offsets[1] - last);
    return offsets[1];
}

/* Show all bytes that are decided. The window then begins with the first byte that has to wait. */
static void search_window(struct redact_search *search, bool final, struct buf *out)
{
    struct redact_window *window = &search->window;
    size_t shown = window->start, at = shown;
    while (at < window->len) {
        size_t end = window->len - at > REDACT_HOLD ? at + REDACT_HOLD : window->len;
        bool partial = !final || end < window->len;
        size_t from = at;
        int rc = try_all(search, &at, end, partial);
        const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(search->pattern->match);
        if (rc >= 0) {
            at = shown = show_match(search, shown, out);
        } else if (rc == PCRE2_ERROR_NOMATCH) {
            at = end;
        } else if (rc == PCRE2_ERROR_PARTIAL && offsets[0] == from && end == from + REDACT_HOLD) {
            buf_add(out, window->data + shown, from - shown);
            show_secret(search, out);
            at = shown = end;
        } else if (rc == PCRE2_ERROR_PARTIAL) {
            at = offsets[0];
            if (end == window->len)
                break;
        } else {
            buf_add(out, window->data + shown, from - shown);
            stop_showing(search, out);
            return;
        }
    }
    buf_add(out, window->data + shown, at - shown);
    redact_window_drop(window, at, search->pattern->back);
}

int redact_search_feed(struct redact_search *search, const char *bytes, size_t len, bool final,
                       struct buf *out)
{
    struct redact_window *window = &search->window;
    if (search->stopped)
        return 0;
    int ret = redact_window_add(window, bytes, len);
    if (ret < 0)
        return ret;
    earn(search, len * CREDIT_PER_BYTE + CREDIT_PER_TRY);
    size_t held = window->len - window->start;
    if (held == 0 || (!final && held < search->again && held < REDACT_HOLD))
        return 0;
    search_window(search, final, out);
    held = window->len - window->start;
    search->again = held <= ALWAYS_AGAIN ? 0 : held + held / 16;
    return buf_failed(out);
}
