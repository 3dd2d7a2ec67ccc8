/* SPDX-License-Identifier: MIT */
/* The JSON scanner of jsonscan.h. */
#include "jsonscan.h"

#include <string.h>

#include "text.h"

struct scanner {
    const char *text, *at, *end;
    struct jsonscan *out;
    char open[JSONSCAN_DEPTH_MAX]; /* the brackets that are still open */
    size_t depth;
};

static bool wrong(struct scanner *s, const char *why)
{
    s->out->why = why;
    s->out->where = (size_t)(s->at - s->text);
    return false;
}

static int skip_space(struct scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
    return s->at < s->end ? (unsigned char)*s->at : -1;
}

static bool scan_escape(struct scanner *s)
{
    size_t left = (size_t)(s->end - s->at);
    if (left < 2)
        return wrong(s, "the text ends in a string");
    if (s->at[1] != 'u') {
        if (!strchr("\"\\/bfnrt", s->at[1]) || !s->at[1])
            return wrong(s, "invalid escape");
        s->at += 2;
        return true;
    }
    for (size_t i = 2; i < 6; i++) {
        char c = i < left ? s->at[i] : 0;
        if (!((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f')))
            return wrong(s, "invalid escape");
    }
    s->at += 6;
    return true;
}

static bool scan_string(struct scanner *s)
{
    s->at++;
    while (s->at < s->end) {
        unsigned char c = (unsigned char)*s->at;
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c == '\\') {
            if (!scan_escape(s))
                return false;
        } else if (c < 0x20) {
            return wrong(s, "control character in a string");
        } else if (c < 0x80) {
            s->at++;
        } else {
            int n = text_utf8_sequence((const unsigned char *)s->at, (size_t)(s->end - s->at));
            if (n <= 0)
                return wrong(s, "invalid UTF-8");
            s->at += n;
        }
    }
    return wrong(s, "the text ends in a string");
}

static bool scan_digits(struct scanner *s)
{
    const char *start = s->at;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
        s->at++;
    return s->at > start || wrong(s, "invalid number");
}

static bool scan_number(struct scanner *s)
{
    s->at += *s->at == '-';
    const char *start = s->at;
    if (!scan_digits(s))
        return false;
    if (*start == '0' && s->at - start > 1)
        return wrong(s, "invalid number");
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        if (!scan_digits(s))
            return false;
    }
    if (s->at < s->end && (*s->at | 32) == 'e') {
        s->at++;
        s->at += s->at < s->end && (*s->at == '+' || *s->at == '-');
        return scan_digits(s);
    }
    return true;
}

static bool scan_word(struct scanner *s)
{
    static const char *const words[] = {"null", "true", "false"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t len = strlen(words[i]);
        if ((size_t)(s->end - s->at) >= len && memcmp(s->at, words[i], len) == 0) {
            s->at += len;
            return true;
        }
    }
    return wrong(s, s->at == s->end ? "the text ends too early" : "not a value");
}

/* Scan a scalar, or the opening bracket of an array or object. */
static bool scan_value(struct scanner *s, char *kind)
{
    int c = skip_space(s);
    *kind = (char)c;
    if (c == '{' || c == '[') {
        if (s->depth == JSONSCAN_DEPTH_MAX)
            return wrong(s, "nested too deeply");
        s->open[s->depth++] = (char)c;
        if (s->depth > s->out->deepest)
            s->out->deepest = s->depth;
        s->at++;
        return true;
    }
    if (c == '"')
        return scan_string(s);
    if (c == '-' || (c >= '0' && c <= '9')) {
        *kind = '0';
        return scan_number(s);
    }
    return scan_word(s);
}

static bool scan_name(struct scanner *s)
{
    struct jsonscan *out = s->out;
    if (skip_space(s) != '"')
        return wrong(s, "a name in quotes expected");
    const char *start = s->at + 1;
    if (!scan_string(s))
        return false;
    if (s->depth == 1 && out->kind == '{') {
        if (out->members < JSONSCAN_MEMBERS_MAX)
            out->names[out->members] = (struct jsonscan_span){start, (size_t)(s->at - start) - 1};
        out->members++;
    }
    if (skip_space(s) != ':')
        return wrong(s, "':' expected");
    s->at++;
    skip_space(s);
    if (s->depth == 1 && out->members <= JSONSCAN_MEMBERS_MAX && out->members > 0)
        out->values[out->members - 1].at = s->at;
    return true;
}

/* Record the end of a member of the outermost object. */
static void end_member(struct scanner *s)
{
    struct jsonscan *out = s->out;
    if (s->depth == 1 && out->kind == '{' && out->members > 0 &&
        out->members <= JSONSCAN_MEMBERS_MAX) {
        struct jsonscan_span *value = &out->values[out->members - 1];
        value->len = (size_t)(s->at - value->at);
    }
}

/* After a value: close the arrays and objects that end here, up to the comma before the next value.
 */
static bool scan_behind(struct scanner *s)
{
    while (s->depth > 0) {
        end_member(s);
        bool object = s->open[s->depth - 1] == '{';
        int c = skip_space(s);
        if (c == ',') {
            s->at++;
            return !object || scan_name(s);
        }
        if (c != (object ? '}' : ']'))
            return wrong(s, object ? "',' or '}' expected" : "',' or ']' expected");
        s->at++;
        s->depth--;
    }
    return true;
}

/* After an opening bracket: scan the closing bracket of an empty array or object, or the first
 * name. */
static bool scan_first(struct scanner *s, bool object, bool *empty)
{
    *empty = skip_space(s) == (object ? '}' : ']');
    if (*empty) {
        s->at++;
        s->depth--;
        return true;
    }
    return !object || scan_name(s);
}

bool jsonscan(struct jsonscan *scan, const char *text, size_t len)
{
    struct scanner s = {.text = text, .at = text, .end = text + len, .out = scan};
    bool first = true;
    scan->members = scan->deepest = 0;
    scan->why = NULL;
    do {
        char kind;
        bool empty = true;
        if (first)
            skip_space(&s);
        const char *start = s.at;
        if (!scan_value(&s, &kind))
            return false;
        if (first) {
            scan->kind = kind;
            scan->value.at = start;
            first = false;
        }
        if ((kind == '{' || kind == '[') && !scan_first(&s, kind == '{', &empty))
            return false;
        if (empty && !scan_behind(&s))
            return false;
    } while (s.depth > 0);
    scan->value.len = (size_t)(s.at - scan->value.at);
    if (skip_space(&s) >= 0)
        return wrong(&s, "more than one value");
    return true;
}

bool jsonscan_get(const struct jsonscan *scan, const char *name, struct jsonscan_span *out)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < scan->members && i < JSONSCAN_MEMBERS_MAX; i++) {
        if (scan->names[i].len == len && memcmp(scan->names[i].at, name, len) == 0) {
            *out = scan->values[i];
            return true;
        }
    }
    return false;
}
