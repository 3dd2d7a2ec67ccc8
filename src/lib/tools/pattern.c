/* SPDX-License-Identifier: MIT */
/* Translates regular expressions of ECMAScript to PCRE2, and matches them within bounds. */
#include "pattern.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/buf.h"

#define OPTIONS                                                                                    \
    (PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_MATCH_UNSET_BACKREF | PCRE2_NEVER_BACKSLASH_C |      \
     PCRE2_AUTO_CALLOUT)
#define GROUPS_DEEP 64
#define CALLS_MAX   1000000 /* from one position of the text */
#define HEAP_KIB    16384
#define MATCH_COST  16 /* units charged at the start of a match */

/* White space of ECMAScript and its complement, as members of a class; and all characters except
 * line terminators. */
#define SPACE "\\s\\x{a0}\\x{feff}\\p{Z}"
#define NO_SPACE                                                                                   \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"               \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"                 \
    "\\x{3001}-\\x{d7ff}\\x{e000}-\\x{fefe}\\x{ff00}-\\x{10ffff}"
#define NO_LINE "[^\\n\\r\\x{2028}\\x{2029}]"

struct translation {
    const char *at;
    struct buf out;
    bool repeated; /* the last item has a quantifier */
    char *why;
};

static int refuse(struct translation *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int refuse(struct translation *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(t->why, PATTERN_WHY_SIZE, format, args);
    va_end(args);
    return -EINVAL;
}

/* Copy bytes unchanged. */
static int keep(struct translation *t, size_t len)
{
    buf_add(&t->out, t->at, len);
    t->at += len;
    return 0;
}

/* Skip bytes and put a text in their place. */
static int instead(struct translation *t, size_t len, const char *text)
{
    buf_text(&t->out, text);
    t->at += len;
    return 0;
}

static int escape(struct translation *t)
{
    buf_text(&t->out, "\\");
    return keep(t, 1);
}

/* ---- escapes ------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

/* Read exactly `count` hexadecimal digits, or return -1. */
static int read_hex(const char *text, size_t count)
{
    int value = 0;
    for (size_t i = 0; i < count; i++) {
        char c = text[i];
        if (is_digit(c))
            value = value * 16 + (c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            value = value * 16 + ((c | 32) - 'a' + 10);
        else
            return -1;
    }
    return value;
}

static int put_code(struct translation *t, size_t len, int code)
{
    if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return refuse(t, "\\%c: invalid escape", t->at[1]);
    buf_printf(&t->out, "\\x{%x}", (unsigned)code);
    t->at += len;
    return 0;
}

/* \u0041, \ud83d\ude00 or \u{1f600} */
static int translate_unicode(struct translation *t)
{
    if (t->at[2] == '{') {
        size_t digits = strspn(t->at + 3, "0123456789abcdefABCDEF");
        bool good = digits >= 1 && digits <= 6 && t->at[3 + digits] == '}';
        return put_code(t, digits + 4, good ? read_hex(t->at + 3, digits) : -1);
    }
    int code = read_hex(t->at + 2, 4);
    if (code >= 0xd800 && code <= 0xdbff && t->at[6] == '\\' && t->at[7] == 'u') {
        int low = read_hex(t->at + 8, 4);
        bool pair = low >= 0xdc00 && low <= 0xdfff;
        return put_code(t, 12, pair ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : -1);
    }
    return put_code(t, 6, code);
}

/* Translate \p{L}: short names of properties, and names of scripts. */
static int translate_property(struct translation *t)
{
    size_t len = t->at[2] == '{' ? strcspn(t->at, "}") : 0;
    if (!len || !t->at[len] || !is_letter(t->at[3]))
        return refuse(t, "\\%c: a name in braces expected", t->at[1]);
    return keep(t, len + 1);
}

static int translate_reference(struct translation *t)
{
    size_t digits = strspn(t->at + 1, "0123456789");
    if (digits > 2)
        return refuse(t, "\\%c: no such group", t->at[1]);
    buf_printf(&t->out, "\\g{%.*s}", (int)digits, t->at + 1);
    t->at += digits + 1;
    return 0;
}

/* Translate letters and digits whose meaning is the same in both, or easy to express. */
static int translate_name(struct translation *t, bool in_class)
{
    char c = t->at[1], after = t->at[2];
    switch (c) {
    case 's':
        return instead(t, 2, in_class ? SPACE : "[" SPACE "]");
    case 'S':
        return instead(t, 2, in_class ? NO_SPACE : "[" NO_SPACE "]");
    case 'v':
        return instead(t, 2, "\\x{b}");
    case 'c':
        return is_letter(after) ? keep(t, 3) : refuse(t, "\\%c: a letter expected", c);
    case 'x':
        return put_code(t, 4, read_hex(t->at + 2, 2));
    case 'u':
        return translate_unicode(t);
    case 'p':
    case 'P':
        return translate_property(t);
    case '0':
        return is_digit(after) ? refuse(t, "\\%c: invalid escape", c) : instead(t, 2, "\\x{0}");
    default:
        break;
    }
    if (strchr("dDwWbtnrf", c) || (!in_class && c == 'B'))
        return keep(t, 2);
    if (!in_class && is_digit(c))
        return translate_reference(t);
    if (!in_class && c == 'k' && after == '<')
        return keep(t, 2);
    return refuse(t, "\\%c: no such escape in ECMAScript", c);
}

static int translate_escape(struct translation *t, bool in_class)
{
    char c = t->at[1];
    if (c == 0)
        return refuse(t, "\\ at the end");
    if (is_letter(c) || is_digit(c))
        return translate_name(t, in_class);
    if ((unsigned char)c >= 0x80) { /* not special: the backslash is dropped */
        t->at++;
        return 0;
    }
    return keep(t, 2);
}

/* ---- the rest ------------------------------------------------------------------------------ */

/* An empty class gets members, because PCRE2 loses its quantifier. A bracket is escaped, and so are
 * the bytes that would make it a POSIX class. */
static int translate_class(struct translation *t)
{
    if (strncmp(t->at, "[]", 2) == 0)
        return instead(t, 2, "[^\\x{0}-\\x{10ffff}]");
    if (strncmp(t->at, "[^]", 3) == 0)
        return instead(t, 3, "[\\x{0}-\\x{10ffff}]");
    int ret = keep(t, t->at[1] == '^' ? 2 : 1);
    while (ret == 0 && *t->at != ']') {
        if (*t->at == 0)
            return refuse(t, "missing ]");
        if (*t->at == '\\')
            ret = translate_escape(t, true);
        else if (strchr("[.:=", *t->at))
            ret = escape(t);
        else
            ret = keep(t, 1);
    }
    return ret ? ret : keep(t, 1);
}

/* The length of {n}, {n,} or {n,m}; 0 if the brace is a literal; or -errno. */
static int length_of_repeat(struct translation *t)
{
    const char *at = t->at + 1;
    size_t low = strspn(at, "0123456789");
    if (!low)
        return 0;
    bool big = low > 4 || atoi(at) > PATTERN_REPEAT;
    at += low;
    if (*at == ',') {
        size_t high = strspn(++at, "0123456789");
        big = big || high > 4 || (high && atoi(at) > PATTERN_REPEAT);
        at += high;
    }
    if (*at != '}')
        return 0;
    if (big)
        return refuse(t, "repeated more than %d times", PATTERN_REPEAT);
    return (int)(at + 1 - t->at);
}

/* A second quantifier would be possessive in PCRE2, and is an error in ECMAScript. */
static int translate_repeat(struct translation *t)
{
    int len = *t->at == '{' ? length_of_repeat(t) : 1;
    if (len < 0)
        return len;
    if (len == 0) {
        t->repeated = false;
        return escape(t);
    }
    if (t->repeated)
        return refuse(t, "%c: nothing to repeat", *t->at);
    t->repeated = true;
    return keep(t, (size_t)len + (t->at[len] == '?'));
}

static int translate_group(struct translation *t)
{
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!"};
    if (t->at[1] == '*')
        return refuse(t, "*: nothing to repeat");
    if (t->at[1] != '?')
        return keep(t, 1);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strncmp(t->at, known[i], strlen(known[i])) == 0)
            return keep(t, strlen(known[i]));
    }
    if (t->at[2] == '<' && (is_letter(t->at[3]) || t->at[3] == '_'))
        return keep(t, 3);
    return refuse(t, "(?%c: no such group in ECMAScript", t->at[2] ? t->at[2] : ' ');
}

static int translate_next(struct translation *t)
{
    if (strchr("*+?{", *t->at))
        return translate_repeat(t);
    t->repeated = false;
    switch (*t->at) {
    case '\\':
        return translate_escape(t, false);
    case '[':
        return translate_class(t);
    case '(':
        return translate_group(t);
    case '.':
        return instead(t, 1, NO_LINE);
    default:
        return keep(t, 1);
    }
}

static int translate(const char *text, struct buf *out, char *why)
{
    struct translation t = {.at = text, .why = why};
    int ret = 0;
    buf_init(&t.out, (size_t)PATTERN_MAX * sizeof NO_SPACE);
    while (ret == 0 && *t.at)
        ret = translate_next(&t);
    if (ret == 0)
        ret = buf_failed(&t.out);
    if (ret == 0) {
        *out = t.out;
        return 0;
    }
    buf_done(&t.out);
    return ret;
}

/* ---- PCRE2 --------------------------------------------------------------------------------- */

/* PCRE2 allocates with malloc() of this library, so that the tests can make it fail. */
static void *take_memory(size_t size, void *unused)
{
    return malloc(size);
}

static void give_memory(void *memory, void *unused)
{
    free(memory);
}

static int compile(struct pattern **out, const struct buf *text, char *why)
{
    int wrong = 0;
    PCRE2_SIZE at;
    pcre2_general_context *memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    pcre2_compile_context *context = memory ? pcre2_compile_context_create(memory) : NULL;
    pcre2_code *code = NULL;
    if (context) {
        pcre2_set_parens_nest_limit(context, GROUPS_DEEP);
        code = pcre2_compile((PCRE2_SPTR)(text->len ? text->data : ""), text->len, OPTIONS, &wrong,
                             &at, context);
    }
    if (context && !code && wrong != PCRE2_ERROR_HEAP_FAILED)
        pcre2_get_error_message(wrong, (PCRE2_UCHAR *)why, PATTERN_WHY_SIZE);
    pcre2_compile_context_free(context);
    pcre2_general_context_free(memory);
    if (!code)
        return wrong && wrong != PCRE2_ERROR_HEAP_FAILED ? -EINVAL : -ENOMEM;
    *out = (struct pattern *)code;
    return 0;
}

int pattern_new(struct pattern **out, const char *text, char why[PATTERN_WHY_SIZE])
{
    struct buf translated = {.data = NULL};
    if (strlen(text) > PATTERN_MAX) {
        snprintf(why, PATTERN_WHY_SIZE, "longer than %d bytes", PATTERN_MAX);
        return -EINVAL;
    }
    int ret = translate(text, &translated, why);
    if (ret < 0)
        return ret;
    ret = compile(out, &translated, why);
    buf_done(&translated);
    return ret;
}

void pattern_free(struct pattern *pattern)
{
    pcre2_code_free((pcre2_code *)pattern);
}

/* Count the work of a match. The limits of PCRE2 start anew at each position of the text; this one
 * covers all of them. PCRE2 calls it before each item of the expression. The distance between the
 * positions of two calls is the number of characters that an item has passed.
 */
static int count_work(pcre2_callout_block *block, void *data)
{
    struct pattern_work *work = data;
    size_t now = block->current_position;
    work->left -= (int64_t)(now > work->last ? now - work->last : work->last - now) + 1;
    work->last = now;
    return work->left < 0 ? PCRE2_ERROR_CALLOUT : 0;
}

static int prepare(struct pattern_work *work)
{
    pcre2_general_context *memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    if (!memory)
        return -ENOMEM;
    pcre2_match_context *context = pcre2_match_context_create(memory);
    work->context = context;
    work->data = pcre2_match_data_create(1, memory); /* no groups are needed */
    pcre2_general_context_free(memory);
    if (!work->context || !work->data) {
        pattern_work_done(work);
        return -ENOMEM;
    }
    pcre2_set_callout(context, count_work, work);
    pcre2_set_match_limit(context, CALLS_MAX);
    pcre2_set_heap_limit(context, HEAP_KIB);
    return 0;
}

void pattern_work_done(struct pattern_work *work)
{
    pcre2_match_data_free(work->data);
    pcre2_match_context_free(work->context);
    work->data = work->context = NULL;
}

int pattern_match(const struct pattern *pattern, const char *text, size_t len,
                  struct pattern_work *work)
{
    int ret = work->context ? 0 : prepare(work);
    if (ret < 0)
        return ret;
    work->last = 0;
    work->left -= (int64_t)len + MATCH_COST;
    if (work->left < 0)
        return -E2BIG;
    ret = pcre2_match((const pcre2_code *)pattern, (PCRE2_SPTR)text, len, 0, 0, work->data,
                      work->context);
    if (ret >= 0)
        return 1;
    if (ret == PCRE2_ERROR_NOMATCH)
        return 0;
    if (ret == PCRE2_ERROR_NOMEMORY)
        return -ENOMEM;
    return ret <= PCRE2_ERROR_UTF8_ERR1 && ret >= PCRE2_ERROR_UTF8_ERR21 ? -EILSEQ : -E2BIG;
}
