/* SPDX-License-Identifier: MIT */
/* Redacts JSON in up to three passes.
 *
 * The first pass redacts the whole text, so that rules see names beside their values. If the result
 * is no longer JSON because a match crossed the end of a string, the text is redacted again string
 * by string, each value with its name in front. The last pass redacts the decoded form of the
 * strings that contain escapes. */
#include "redact_json.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonr.h"
#include "base/jsonscan.h"
#include "base/jsonw.h"

#define PIECE      65536
#define GROWS_TO   64
#define TIME_LEAST (2 * NS_PER_S) /* time limit for the whole value, for any patterns */
#define TIME_BYTE  100            /* additional time for each byte, in ns */

struct work {
    const struct redact_rules *rules;
    uint64_t until;
    uint64_t count;
};

/* Redact into `out`, within the time limit. The caller releases `out`. */
static int redact_within(struct work *work, const char *text, size_t len, struct buf *out)
{
    struct redactor *r;
    int ret = redactor_new(&r, work->rules);
    if (ret < 0)
        return ret;
    for (size_t at = 0; at < len && ret == 0; at += PIECE) {
        ret = redactor_feed(r, text + at, len - at < PIECE ? len - at : PIECE, out);
        if (ret == 0 && clock_now() > work->until)
            ret = -ETIMEDOUT;
    }
    if (ret == 0)
        ret = redactor_end(r, out);
    if (ret == 0)
        ret = redactor_failure(r) ? -ETIMEDOUT : buf_failed(out);
    if (ret == 0)
        work->count += redactor_count(r);
    redactor_free(r);
    return ret;
}

/* ---- string by string ---------------------------------------------------------------------- */

/* A string with its quotes. `name` is the name of the member whose value it is; its len is 0 if
 * there is none. */
struct string {
    const char *at;
    size_t len;
    struct jsonscan_span name;
};

typedef int (*string_function)(struct work *work, const struct string *string, struct buf *out);

static size_t end_of_string(const char *json, size_t len, size_t at)
{
    for (at++; at < len && json[at] != '"'; at++)
        at += json[at] == '\\';
    return at < len ? at + 1 : len;
}

static bool is_name(const char *json, size_t len, size_t behind)
{
    while (behind < len && strchr(" \t\r\n", json[behind]) && json[behind])
        behind++;
    return behind < len && json[behind] == ':';
}

/* Copy the JSON, with each string replaced by the output of the function. */
static int each_string(struct work *work, const char *json, size_t len, string_function function,
                       struct buf *out)
{
    struct jsonscan_span name = {0};
    int ret = 0;
    for (size_t at = 0; at < len && ret == 0;) {
        size_t plain = at;
        for (; at < len && json[at] != '"'; at++) {
            if (strchr("{}[],", json[at]) && json[at])
                name.len = 0; /* a name applies only to the value right after its colon */
        }
        buf_add(out, json + plain, at - plain);
        if (at == len)
            break;
        size_t end = end_of_string(json, len, at);
        struct string string = {json + at, end - at, name};
        name = (struct jsonscan_span){json + at, is_name(json, len, end) ? end - at : 0};
        ret = function(work, &string, out);
        at = end;
    }
    return ret < 0 ? ret : buf_failed(out);
}

static bool is_string(const char *at, size_t len)
{
    struct jsonscan scan;
    return len >= 2 && jsonscan(&scan, at, len) && scan.kind == '"';
}

/* Add the redacted string if it is still a JSON string, or becomes one with a closing quote, which
 * a secret may have swallowed. Otherwise add the string "[redacted]". */
static void add_string(struct buf *out, struct buf *made, size_t prefix)
{
    bool whole = made->len > prefix && is_string(made->data + prefix, made->len - prefix);
    if (!whole && made->len > prefix) {
        buf_add(made, "\"", 1);
        whole = !made->failed && is_string(made->data + prefix, made->len - prefix);
    }
    if (whole)
        buf_add(out, made->data + prefix, made->len - prefix);
    else
        buf_text(out, "\"[redacted]\"");
}

static int with_name(struct work *work, const struct string *string, struct buf *out)
{
    struct buf before, after;
    uint64_t found = work->count;
    size_t prefix = string->name.len ? string->name.len + 1 : 0;
    buf_init(&before, prefix + string->len + 1);
    buf_init(&after, (prefix + string->len) * GROWS_TO + 64);
    if (prefix) {
        buf_add(&before, string->name.at, string->name.len);
        buf_add(&before, ":", 1);
    }
    buf_add(&before, string->at, string->len);
    int ret = buf_failed(&before);
    if (ret == 0)
        ret = redact_within(work, before.data, before.len, &after);
    if (ret == 0 && found == work->count) {
        buf_add(out, string->at, string->len);
    } else if (ret == 0) { /* the name itself is a secret: it is redacted where it stands */
        bool same = after.len > prefix && memcmp(after.data, before.data, prefix) == 0;
        add_string(out, &after, same ? prefix : after.len);
    }
    buf_done(&before);
    buf_done(&after);
    return ret;
}

/* ---- escapes ------------------------------------------------------------------------------- */

static bool has_escapes(const struct string *string)
{
    for (size_t i = 0; i + 1 < string->len; i++) {
        if (string->at[i] != '\\')
            continue;
        if (string->at[i + 1] == 'u' || string->at[i + 1] == '/')
            return true;
        i++;
    }
    return false;
}

/* Decode a string. Returns NULL if it cannot be decoded (\u0000, half of a surrogate pair), or
 * without memory.
 */
static struct jsonr *decode(const struct string *string)
{
    struct buf text;
    buf_init(&text, string->len + 16);
    buf_text(&text, "{\"x\":");
    buf_add(&text, string->at, string->len);
    buf_text(&text, "}");
    struct jsonr *root =
        text.failed ? NULL : jsonr_object(text.data, text.len, text.len, "x", "redact", NULL);
    buf_done(&text);
    return root;
}

static int as_read(struct work *work, const struct string *string, struct buf *out)
{
    struct buf shown;
    uint64_t found = work->count;
    struct jsonr *root = has_escapes(string) ? decode(string) : NULL;
    if (!root) {
        buf_add(out, string->at, string->len);
        return 0;
    }
    buf_init(&shown, root->first->len * GROWS_TO + 64);
    int ret = redact_within(work, root->first->text, root->first->len, &shown);
    if (ret == 0 && found != work->count) {
        struct jsonw w;
        bool utf8;
        jsonw_init(&w, out);
        jsonw_bytes(&w, NULL, (const unsigned char *)shown.data, shown.len, &utf8);
    } else if (ret == 0) {
        buf_add(out, string->at, string->len);
    }
    buf_done(&shown);
    jsonr_free(root);
    return ret;
}

/* ---- the whole ----------------------------------------------------------------------------- */

int redact_json(const struct redact_rules *rules, const char *json, size_t len, struct buf *out,
                uint64_t *count)
{
    struct work work = {.rules = rules, .until = clock_now() + TIME_LEAST + len * TIME_BYTE};
    struct jsonscan scan;
    struct buf whole;
    buf_init(&whole, out->max);
    int ret = redact_within(&work, json, len, &whole);
    if (ret == 0 && work.count && !jsonscan(&scan, whole.data, whole.len)) {
        whole.len = 0;
        ret = each_string(&work, json, len, with_name, &whole);
    }
    if (ret == 0)
        ret = each_string(&work, whole.data, whole.len, as_read, out);
    buf_done(&whole);
    *count += work.count;
    return ret;
}
