/* SPDX-License-Identifier: MIT */
/* lib/redact.c: the input is a list of fragments, which make a text, and the places where it is
 * cut. The output must equal that of a reference on the whole text. The reference has no triggers,
 * no partial matches and no JIT: it tries every rule at every place. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/redact/redact.h"

#include <pcre2.h>

#include "lib/redact/redact_table.h"
#include "random.h"
#include "target.h"

#define TEXT_MAX 2000

static const char *const fragments[] = {
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "api",
    "Key",
    "KEY",
    "_",
    "=",
    ":",
    ": ",
    " = ",
    "=>",
    "\"",
    "'",
    "\\\"",
    "\\",
    "\n",
    "\r\n",
    " ",
    "\t",
    "&",
    ";",
    ",",
    ")",
    "]",
    "}",
    "abc123",
    "hunter2",
    "q7Rz81LmPw03XyT5",
    "swordfish",
    "None",
    "null",
    "self.x",
    "$X",
    "****",
    "sk-",
    "sk_live_",
    "ghp_",
    "gho",
    "github_pat_",
    "glpat-",
    "AKIA",
    "ASIA",
    "xox",
    "xoxb-",
    "b-",
    "a1B2c3D4e5F6g7H8",
    "IOSFODNN7EXAMPLE",
    "bearer",
    "Bearer ",
    "Authorization",
    "Proxy-",
    "Basic dXNlcjpwYXNz",
    "cookie",
    "Set-Cookie: ",
    "session=abc123",
    "https",
    "://",
    "user",
    "@",
    "host",
    "/",
    "-----BEGIN ",
    "RSA ",
    "PRIVATE KEY-----",
    "-----END ",
    "-----",
    "-",
    "MIIEowIBAAKCAQEA",
    "Proc-Type: 4",
    "\\n",
    "n",
    "\x1b[36m",
    "\x1b[0m",
    "m",
    "monkey",
    "x",
    "1",
    ".",
    "\0z",
    "\xc3\xa9",
    "-----BEGIN RSA PRIVATE KEY-----\n",
    "-----END RSA PRIVATE KEY-----",
    "a b c\n",
    "realm=",
    "user_password",
    "projects/a/b",
    "0x10",
    "aB3",
    "sword",
    "fish",
    "s",
    "k",
    "g",
    "h",
    "p",
    "pass",
    "Pass: ",
    "x-auth-",
    "sort-",
    "my_secure_pass!",
    "correcthorse9",
    "some-words-of-it",
};
#define FRAGMENTS (sizeof fragments / sizeof *fragments)

static const char *const patterns[] = {
    "JIRA-[0-9]+",     "(?<=key)[=:](?<value>\\w+)",
    "^a.*b$",          "\\bx\\b",
    "(?s)-----.*?END", "h(?!o)",
    "(?:a|b)+1?2",     "\\Akey",
    "[^\\n]{3}\\z",    "n\\K\\w",
    "(\\w)\\1",        "(?<=(?<!x)a)b",
};
#define PATTERNS (sizeof patterns / sizeof *patterns)

struct string {
    char *data;
    size_t len;
};

static void add(struct string *s, const char *bytes, size_t len)
{
    s->data = realloc(s->data, s->len + len + 1);
    ensure(s->data);
    if (len)
        memcpy(s->data + s->len, bytes, len);
    s->len += len;
}

static void add_word(struct string *s, const char *name)
{
    add(s, "[redacted:", 10);
    add(s, name, strlen(name));
    add(s, "]", 1);
}

/* ---- the reference ------------------------------------------------------------------------- */

static pcre2_code *compile(const char *regex, uint32_t options)
{
    int error;
    PCRE2_SIZE offset;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, options, &error, &offset, NULL);
    ensure(code);
    return code;
}

static const PCRE2_SIZE *match_at(const pcre2_code *code, const struct string *text, size_t at,
                                  uint32_t options, int *rc)
{
    static pcre2_match_data *match;
    if (!match)
        match = pcre2_match_data_create(32, NULL);
    *rc = pcre2_match(code, (PCRE2_SPTR)(text->data ? text->data : ""), text->len, at, options,
                      match, NULL);
    ensure(*rc > 0 || *rc == PCRE2_ERROR_NOMATCH);
    return *rc > 0 ? pcre2_get_ovector_pointer(match) : NULL;
}

/* Line by line: the end of the END line, or of the third line in a row without base64. */
static size_t key_ends(const struct string *text, size_t at)
{
    static pcre2_code *end_line, *base64, *blank;
    int rc, misses = 0;
    if (!end_line) {
        end_line = compile("-----END[^\\r\\n]*?(?:-----|(?=[\\r\\n])|\\z)", 0);
        base64 = compile("[A-Za-z0-9+/=]{16}", 0);
        blank = compile("[ \\t\\r]*\\z", PCRE2_ANCHORED);
    }
    while (at < text->len) {
        const char *newline = memchr(text->data + at, '\n', text->len - at);
        struct string line = {text->data + at,
                              newline ? (size_t)(newline - text->data) - at : text->len - at};
        const PCRE2_SIZE *found = match_at(end_line, &line, 0, 0, &rc);
        if (found)
            return at + found[1];
        at += line.len;
        if (match_at(base64, &line, 0, 0, &rc))
            misses = 0;
        else if (newline && !match_at(blank, &line, 0, 0, &rc) && ++misses == 3)
            return at;
        at += newline != NULL;
    }
    return at;
}

static size_t tail_ends(const struct redact_rule *rule, const struct string *text, size_t at)
{
    static pcre2_code *codes[REDACT_TAILS];
    int rc;
    if (rule->tail == REDACT_TAIL_KEY)
        return key_ends(text, at);
    if (!codes[rule->tail]) {
        char regex[256];
        snprintf(regex, sizeof regex, "(?:%s)*+", redact_tails[rule->tail].regex);
        codes[rule->tail] = compile(regex, PCRE2_ANCHORED);
    }
    return match_at(codes[rule->tail], text, at, 0, &rc)[1];
}

/* The first rule that matches at this place, and the bounds of its secret. */
static const struct redact_rule *rule_at(const struct string *text, size_t at, size_t *first,
                                         size_t *last)
{
    static pcre2_code *codes[64];
    for (size_t i = 0; i < redact_table_len; i++) {
        int rc;
        if (!codes[i])
            codes[i] = compile(redact_table[i].regex,
                               PCRE2_ANCHORED | (redact_table[i].fold ? PCRE2_CASELESS : 0));
        const PCRE2_SIZE *found = match_at(codes[i], text, at, 0, &rc);
        if (!found)
            continue;
        *first = rc > 1 ? found[2] : found[0];
        *last = tail_ends(&redact_table[i], text, found[1]);
        return &redact_table[i];
    }
    return NULL;
}

static uint64_t reference_rules(const struct string *text, struct string *out)
{
    uint64_t count = 0;
    for (size_t at = 0; at < text->len;) {
        size_t first, last;
        const struct redact_rule *rule = rule_at(text, at, &first, &last);
        if (!rule) {
            add(out, text->data + at++, 1);
            continue;
        }
        add(out, text->data + at, first - at);
        add_word(out, rule->name);
        at = last;
        count++;
    }
    return count;
}

static uint64_t reference_pattern(const char *pattern, size_t number, const struct string *text,
                                  struct string *out)
{
    pcre2_code *code = compile(pattern, PCRE2_MULTILINE | PCRE2_DOLLAR_ENDONLY);
    int rc, group = pcre2_substring_number_from_name(code, (PCRE2_SPTR) "value");
    uint64_t count = 0;
    size_t at = 0;
    while (at < text->len) {
        char name[32] = "value";
        const PCRE2_SIZE *found = match_at(code, text, at, PCRE2_NOTEMPTY, &rc);
        if (!found)
            break;
        const PCRE2_SIZE *secret = group > 0 ? found + 2 * group : found;
        if (group < 0)
            snprintf(name, sizeof name, "pattern-%zu", number);
        add(out, text->data + at, secret[0] - at);
        add_word(out, name);
        add(out, text->data + secret[1], found[1] - secret[1]);
        at = found[1];
        count++;
    }
    add(out, text->data + at, text->len - at);
    pcre2_code_free(code);
    return count;
}

/* ---- the comparison ------------------------------------------------------------------------ */

static struct string make_text(struct input *input)
{
    struct string text = {0};
    add(&text, "", 0);
    while (input->size && text.len < TEXT_MAX) {
        uint64_t which = input_number(input, 1);
        if (which < FRAGMENTS) {
            const char *fragment = fragments[which];
            add(&text, fragment, *fragment ? strlen(fragment) : 2);
        } else if (which < 250) {
            add(&text, &(char){(char)which}, 1);
        } else {
            const uint8_t *bytes;
            size_t len = input_bytes(input, &bytes, which - 249);
            add(&text, (const char *)bytes, len);
        }
    }
    return text;
}

static void feed(struct redactor *r, const struct string *text, uint64_t seed, struct buf *out)
{
    struct random random = {seed};
    size_t most = seed % 4 == 0 ? 1 : seed % 4 == 1 ? 4 : seed % 4 == 2 ? 64 : TEXT_MAX;
    for (size_t at = 0; at < text->len;) {
        size_t n = 1 + random_below(&random, most);
        n = n < text->len - at ? n : text->len - at;
        char *piece = malloc(n); /* exact size: a read past the end is detected */
        ensure(piece);
        memcpy(piece, text->data + at, n);
        ensure(redactor_feed(r, piece, n, out) == 0);
        ensure(redactor_held(r) <= 3 * TEXT_MAX * 8);
        free(piece);
        at += n;
    }
    /* All input is shown, held, or counted as hidden. */
    ensure(redactor_swallowed(r) + out->len + redactor_held(r) >= text->len);
    ensure(redactor_end(r, out) == 0);
    ensure(redactor_swallowed(r) + out->len >= text->len);
    ensure(redactor_held(r) == 0 && !redactor_failure(r));
}

static void compare(const struct redact_rules *rules, const struct string *text,
                    const struct string *expected, uint64_t count, uint64_t seed)
{
    struct redactor *r;
    struct buf out;
    buf_init(&out, 1 << 20);
    ensure(redactor_new(&r, rules) == 0);
    feed(r, text, seed, &out);
    bool same = out.len == expected->len &&
                (out.len == 0 || memcmp(out.data, expected->data, out.len) == 0);
    if (!same)
        fprintf(stderr, "text: %.*s\ncame: %.*s\nnot:  %.*s\n", (int)text->len, text->data,
                (int)out.len, out.data, (int)expected->len, expected->data);
    ensure(same);
    ensure(redactor_count(r) == count);
    redactor_free(r);
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct redact_rules *plain;
    struct redact_rules *rules = NULL;
    struct input input = {data, size};
    uint64_t seed = input_number(&input, 2), which = input_number(&input, 1);
    struct string text = make_text(&input), expected = {0};
    add(&expected, "", 0);
    uint64_t count = reference_rules(&text, &expected);
    if (which % 4) { /* only the rules, used again: JIT-compiled after a while */
        if (!plain)
            ensure(redact_rules_new(&plain, NULL, NULL, NULL) == 0);
        for (uint64_t i = 0; i < 3; i++)
            compare(plain, &text, &expected, count, seed + i);
    } else {
        const char *const list[] = {patterns[which / 4 % PATTERNS], patterns[seed / 16 % PATTERNS],
                                    NULL};
        for (size_t i = 0; i < 2; i++) {
            struct string next = {0};
            add(&next, "", 0);
            count += reference_pattern(list[i], i + 1, &expected, &next);
            free(expected.data);
            expected = next;
        }
        ensure(redact_rules_new(&rules, NULL, list, NULL) == 0);
        compare(rules, &text, &expected, count, seed);
        redact_rules_free(rules);
    }
    free(text.data);
    free(expected.data);
    return 0;
}
