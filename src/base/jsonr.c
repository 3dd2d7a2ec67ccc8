/* SPDX-License-Identifier: MIT */
/* The JSON reader: parses the text in one pass, without recursion, into a tree. */
#include "jsonr.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "jsonw.h"
#include "text.h"

#define DIGITS       15  /* significant digits of a real number */
#define EXPONENT_MAX 308 /* the largest decimal exponent of a double */

enum expect {
    VALUE,
    VALUE_OR_END, /* after [ */
    KEY,
    KEY_OR_END, /* after { */
    COMMA_OR_END,
    NOTHING,
};

struct reader {
    const char *text;
    size_t len, at;
    struct jsonr *root, *current; /* the array or object that is being read */
    char *key;                    /* key of the next value */
    enum expect expect;
    unsigned depth;
    size_t wrong_at;
    const char *wrong; /* NULL if memory ran out */
    char duplicate[128];
};

static int wrong(struct reader *r, size_t at, const char *why)
{
    r->wrong = why;
    r->wrong_at = at;
    return -EINVAL;
}

/* The next byte, or -1 at the end. */
static int peek(const struct reader *r)
{
    return r->at < r->len ? (unsigned char)r->text[r->at] : -1;
}

static int skip_space(struct reader *r)
{
    for (; r->at < r->len; r->at++) {
        char c = r->text[r->at];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            break;
    }
    return peek(r);
}

/* ---- strings ------------------------------------------------------------------------------- */

/* Four hexadecimal digits, or -1. */
static int read_hex(const struct reader *r, size_t at)
{
    int value = 0;
    for (size_t i = at; i < at + 4; i++) {
        char c = i < r->len ? r->text[i] : 0;
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            value = value * 16 + ((c | 32) - 'a' + 10);
        else
            return -1;
    }
    return value;
}

static size_t put_utf8(char *out, unsigned code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf0 << (4 - n)) | code);
    return n;
}

/* Read the part after "\u". Returns the number of bytes written, or -errno. */
static int read_unicode(struct reader *r, char *out)
{
    size_t start = r->at - 2;
    int code = read_hex(r, r->at);
    if (code < 0)
        return wrong(r, start, "invalid escape");
    r->at += 4;
    if (code == 0)
        return wrong(r, start, "\\u0000 is not allowed");
    if (code >= 0xd800 && code <= 0xdbff) {
        bool pair = r->at + 2 <= r->len && memcmp(r->text + r->at, "\\u", 2) == 0;
        int low = pair ? read_hex(r, r->at + 2) : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return wrong(r, start, "half of a surrogate pair");
        r->at += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        return wrong(r, start, "half of a surrogate pair");
    }
    return (int)put_utf8(out, (unsigned)code);
}

/* Read an escape, beginning at its backslash. The result is never longer than the escape. */
static int read_escape(struct reader *r, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = ++r->at < r->len ? r->text[r->at] : 0;
    r->at++;
    if (c == 'u')
        return read_unicode(r, out);
    const char *found = c ? memchr(from, c, sizeof from - 1) : NULL;
    if (!found)
        return wrong(r, r->at - 2, "invalid escape");
    *out = to[found - from];
    return 1;
}

/* Read a character that is not escaped. */
static int read_plain(struct reader *r, const unsigned char *s, size_t end, char *out)
{
    if (*s < 0x20)
        return wrong(r, r->at, "control character in a string");
    int n = text_utf8_sequence(s, end - r->at);
    if (n <= 0)
        return wrong(r, r->at, "invalid UTF-8");
    memcpy(out, s, (size_t)n);
    r->at += (size_t)n;
    return n;
}

static int read_string(struct reader *r, char **out, size_t *out_len)
{
    size_t start = r->at++, size = 0;
    size_t end = r->at;
    while (end < r->len && r->text[end] != '"')
        end += r->text[end] == '\\' ? 2 : 1;
    if (end >= r->len)
        return wrong(r, r->len, "premature end of input in a string");
    char *text = malloc(end - start);
    if (!text)
        return -ENOMEM;
    while (r->at < end) {
        const unsigned char *s = (const unsigned char *)r->text + r->at;
        int n = *s == '\\' ? read_escape(r, text + size) : read_plain(r, s, end, text + size);
        if (n < 0) {
            free(text);
            return n;
        }
        size += (size_t)n;
    }
    r->at++;
    text[size] = 0;
    *out = text;
    *out_len = size;
    return 0;
}

/* ---- numbers ------------------------------------------------------------------------------- */

static size_t skip_digits(struct reader *r)
{
    size_t start = r->at;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->at++;
    return r->at - start;
}

/* The exponent of a number in its written form, clamped; `at` points behind the e. */
static int exponent_of(const char *at)
{
    long value = strtol(at, NULL, 10);
    return value > 100000 ? 100000 : value < -100000 ? -100000 : (int)value;
}

static int check_number(struct reader *r, const struct jsonr *value, bool real, size_t whole)
{
    if (!real) {
        errno = 0;
        strtoll(value->text, NULL, 10);
        return errno == ERANGE ? wrong(r, value->at, "too big integer") : 0;
    }
    const char *e = strpbrk(value->text, "eE");
    if ((e ? exponent_of(e + 1) : 0) + (whole > EXPONENT_MAX ? EXPONENT_MAX : (int)whole) - 1 >
        EXPONENT_MAX)
        return wrong(r, value->at, "real number overflow");
    return 0;
}

static int read_number(struct reader *r, struct jsonr *value)
{
    size_t start = r->at;
    bool real = false;
    r->at += peek(r) == '-';
    bool zero = peek(r) == '0';
    size_t whole = skip_digits(r);
    if (!whole || (zero && whole > 1))
        return wrong(r, start, "invalid number");
    if (peek(r) == '.') {
        r->at++;
        real = true;
        if (!skip_digits(r))
            return wrong(r, start, "invalid number");
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        r->at++;
        r->at += peek(r) == '+' || peek(r) == '-';
        real = true;
        if (!skip_digits(r))
            return wrong(r, start, "invalid number");
    }
    value->len = r->at - start;
    value->text = strndup(r->text + start, value->len);
    return value->text ? check_number(r, value, real, whole) : -ENOMEM;
}

/* ---- the tree ------------------------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    const struct jsonr *const *x = a, *const *y = b;
    int order = strcmp((*x)->key, (*y)->key);
    return order ? order : (*x)->at < (*y)->at ? -1 : 1;
}

static const char *duplicate_key(struct reader *r, const char *key)
{
    snprintf(r->duplicate, sizeof r->duplicate, "duplicate object key \"%.*s\"",
             (int)text_cut(key, 80), key);
    return r->duplicate;
}

static int check_keys(struct reader *r, const struct jsonr *object)
{
    const struct jsonr **members = malloc((object->count + 1) * sizeof *members);
    size_t n = 0;
    int ret = 0;
    if (!members)
        return -ENOMEM;
    for (const struct jsonr *m = object->first; m; m = m->next)
        members[n++] = m;
    qsort(members, n, sizeof *members, by_key);
    for (size_t i = 1; i < n && ret == 0; i++) {
        if (strcmp(members[i - 1]->key, members[i]->key) == 0)
            ret = wrong(r, members[i]->at, duplicate_key(r, members[i]->key));
    }
    free(members);
    return ret;
}

static int close_current(struct reader *r)
{
    struct jsonr *closed = r->current; /* never NULL where the grammar expects an end */
    if (!closed)
        return wrong(r, r->at, "nothing to end");
    int ret = closed->type == JSONR_OBJECT && closed->count > 1 ? check_keys(r, closed) : 0;
    r->at++;
    r->depth--;
    r->current = closed->parent;
    r->expect = r->current ? COMMA_OR_END : NOTHING;
    return ret;
}

static struct jsonr *add_value(struct reader *r)
{
    struct jsonr *value = calloc(1, sizeof *value), *into = r->current;
    if (!value)
        return NULL;
    value->key = r->key;
    value->parent = into;
    value->at = r->at;
    r->key = NULL;
    if (!into) {
        r->root = value;
        return value;
    }
    *(into->last ? &into->last->next : &into->first) = value;
    into->last = value;
    into->count++;
    return value;
}

static int read_word(struct reader *r, struct jsonr *value)
{
    static const struct {
        const char *word;
        enum jsonr_type type;
    } words[] = {{"null", JSONR_NULL}, {"true", JSONR_TRUE}, {"false", JSONR_FALSE}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t len = strlen(words[i].word);
        if (r->len - r->at >= len && memcmp(r->text + r->at, words[i].word, len) == 0) {
            value->type = words[i].type;
            r->at += len;
            return 0;
        }
    }
    return wrong(r, r->at, r->at == r->len ? "premature end of input" : "invalid token");
}

static int read_value(struct reader *r, int c)
{
    struct jsonr *value = add_value(r);
    if (!value)
        return -ENOMEM;
    r->expect = r->current ? COMMA_OR_END : NOTHING;
    if (c == '{' || c == '[') {
        if (++r->depth > JSONR_DEPTH_MAX)
            return wrong(r, r->at, "maximum parsing depth reached");
        value->type = c == '{' ? JSONR_OBJECT : JSONR_ARRAY;
        r->expect = c == '{' ? KEY_OR_END : VALUE_OR_END;
        r->current = value;
        r->at++;
        return 0;
    }
    if (c == '"') {
        value->type = JSONR_STRING;
        return read_string(r, &value->text, &value->len);
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        value->type = JSONR_NUMBER;
        return read_number(r, value);
    }
    return read_word(r, value);
}

static int read_key(struct reader *r, int c)
{
    size_t len;
    if (c != '"')
        return wrong(r, r->at, "a name in quotes expected");
    int ret = read_string(r, &r->key, &len);
    if (ret == 0 && skip_space(r) != ':')
        ret = wrong(r, r->at, "':' expected");
    r->at++;
    r->expect = VALUE;
    return ret;
}

/* Read one token. Returns 1 at the end of the text. */
static int read_next(struct reader *r)
{
    int c = skip_space(r);
    bool object = r->current && r->current->type == JSONR_OBJECT;
    switch (r->expect) {
    case KEY_OR_END:
        return c == '}' ? close_current(r) : read_key(r, c);
    case KEY:
        return read_key(r, c);
    case VALUE_OR_END:
        return c == ']' ? close_current(r) : read_value(r, c);
    case VALUE:
        return read_value(r, c);
    case COMMA_OR_END:
        if (c == (object ? '}' : ']'))
            return close_current(r);
        if (c != ',')
            return wrong(r, r->at, object ? "',' or '}' expected" : "',' or ']' expected");
        r->at++;
        r->expect = object ? KEY : VALUE;
        return 0;
    case NOTHING:
        break;
    }
    return c < 0 ? 1 : wrong(r, r->at, "end of file expected");
}

static void tell_place(const struct reader *r, const char *name, const char *stage,
                       struct brig_error *err)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < r->wrong_at && i < r->len; i++) {
        column++;
        if (r->text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    error_usage(err, stage, "%s: line %zu, column %zu: %s", name, line, column, r->wrong);
}

struct jsonr *jsonr_object(const char *text, size_t len, size_t max, const char *name,
                           const char *stage, struct brig_error *err)
{
    struct reader r = {.text = text, .len = len, .expect = VALUE};
    int ret = 0;
    if (len > max) {
        error_usage(err, stage, "%s: is larger than %zu bytes", name, max);
        errno = EINVAL;
        return NULL;
    }
    while (ret == 0)
        ret = read_next(&r);
    if (ret > 0 && r.root->type == JSONR_OBJECT)
        return r.root;
    if (ret > 0)
        error_usage(err, stage, "%s: is not a JSON object", name);
    else if (ret == -ENOMEM)
        error_memory(err, stage);
    else
        tell_place(&r, name, stage, err);
    free(r.key);
    jsonr_free(r.root);
    errno = ret == -ENOMEM ? ENOMEM : EINVAL;
    return NULL;
}

void jsonr_free(struct jsonr *root)
{
    for (struct jsonr *value = root; value;) {
        struct jsonr *child = value->first, *parent = value->parent;
        if (child) { /* children first, each taken from the front of the list */
            value->first = child->next;
            value = child;
            continue;
        }
        free(value->key);
        free(value->text);
        free(value);
        value = parent;
    }
}

const struct jsonr *jsonr_get(const struct jsonr *object, const char *key)
{
    for (const struct jsonr *m = object->type == JSONR_OBJECT ? object->first : NULL; m;
         m = m->next) {
        if (strcmp(m->key, key) == 0)
            return m;
    }
    return NULL;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void write_one(struct jsonw *w, const char *key, const struct jsonr *value)
{
    bool utf8;
    switch (value->type) {
    case JSONR_NULL:
        jsonw_null(w, key);
        break;
    case JSONR_FALSE:
    case JSONR_TRUE:
        jsonw_bool(w, key, value->type == JSONR_TRUE);
        break;
    case JSONR_NUMBER:
        jsonw_raw(w, key, value->text, value->len);
        break;
    case JSONR_STRING:
        jsonw_bytes(w, key, (const unsigned char *)value->text, value->len, &utf8);
        break;
    case JSONR_ARRAY:
    case JSONR_OBJECT:
        jsonw_open(w, key, value->type == JSONR_OBJECT ? '{' : '[');
        break;
    }
}

void jsonr_write(struct jsonw *w, const char *key, const struct jsonr *value)
{
    const struct jsonr *at = value;
    write_one(w, key, at);
    for (;;) {
        bool container = at->type == JSONR_OBJECT || at->type == JSONR_ARRAY;
        if (container && at->first) {
            at = at->first;
            write_one(w, at->key, at);
            continue;
        }
        if (container)
            jsonw_close(w, at->type == JSONR_OBJECT ? '}' : ']');
        while (at != value && !at->next) {
            at = at->parent;
            jsonw_close(w, at->type == JSONR_OBJECT ? '}' : ']');
        }
        if (at == value)
            return;
        at = at->next;
        write_one(w, at->key, at);
    }
}

/* ---- scalars ------------------------------------------------------------------------------- */

/* 0.DIGITS times ten to the power of `point`. */
struct decimal {
    char digits[DIGITS + 2];
    size_t count;
    int point;
};

static void round_digits(struct decimal *d)
{
    if (d->count > DIGITS) {
        d->count = DIGITS;
        if (d->digits[DIGITS] >= '5') {
            size_t i = DIGITS;
            while (i > 0 && d->digits[i - 1] == '9')
                i--;
            d->count = i;
            if (i > 0) {
                d->digits[i - 1]++;
            } else { /* all nines */
                d->digits[0] = '1';
                d->count = 1;
                d->point++;
            }
        }
    }
    while (d->count > 0 && d->digits[d->count - 1] == '0')
        d->count--;
}

static struct decimal read_decimal(const char *text)
{
    struct decimal d = {.count = 0};
    bool fraction = false;
    for (; *text && *text != 'e' && *text != 'E'; text++) {
        if (*text == '.') {
            fraction = true;
        } else if (*text != '-' && (d.count > 0 || *text != '0')) {
            if (d.count <= DIGITS)
                d.digits[d.count++] = *text;
            d.point += !fraction;
        } else if (*text == '0' && fraction) {
            d.point--; /* a zero before the first significant digit */
        }
    }
    if (*text)
        d.point += exponent_of(text + 1);
    round_digits(&d);
    return d;
}

static void print_real(const char *text, char number[JSONR_NUMBER_SIZE])
{
    struct decimal d = read_decimal(text);
    char *out = number;
    if (d.count == 0) {
        memcpy(number, "0", 2);
        return;
    }
    if (d.point > 18 || d.point < -20) { /* beyond any quantity that brig measures */
        snprintf(number, JSONR_NUMBER_SIZE, "%s", text);
        return;
    }
    if (*text == '-')
        *out++ = '-';
    if (d.point <= 0)
        *out++ = '0';
    for (int i = 0; i < d.point; i++)
        *out++ = (size_t)i < d.count ? d.digits[i] : '0';
    if (d.point < (int)d.count)
        *out++ = '.';
    for (int i = d.point; i < 0; i++)
        *out++ = '0';
    for (int i = d.point > 0 ? d.point : 0; i < (int)d.count; i++)
        *out++ = d.digits[i];
    *out = 0;
}

bool jsonr_scalar(const struct jsonr *value, const char **text, char number[JSONR_NUMBER_SIZE])
{
    if (value->type == JSONR_STRING) {
        *text = value->text;
        return true;
    }
    if (value->type != JSONR_NUMBER)
        return false;
    if (strpbrk(value->text, ".eE"))
        print_real(value->text, number);
    else
        snprintf(number, JSONR_NUMBER_SIZE, "%lld", strtoll(value->text, NULL, 10));
    *text = number;
    return true;
}
