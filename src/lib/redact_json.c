/* Redacting JSON. */
#include "redact_json.h"

#include <errno.h>
#include <string.h>

#include "base/jsonscan.h"

/* Where the string that begins at `at`, with its quote, ends: behind its last quote. */
static size_t end_of_string(const char *json, size_t len, size_t at)
{
    for (at++; at < len && json[at] != '"'; at++)
        at += json[at] == '\\';
    return at < len ? at + 1 : len;
}

/* One string with its quotes. What a secret's end tore apart becomes a string without anything
 * else. */
static int redact_string(const struct redact_rules *rules, const char *json, size_t len,
                         struct buf *out, uint64_t *count)
{
    struct buf one;
    struct jsonscan scan;
    uint64_t found = 0;
    buf_init(&one, len * 20 + 64);
    buf_add(&one, "\"", 1);
    int ret = redact_text(rules, json + 1, len - 2, &one, &found);
    buf_add(&one, "\"", 1);
    if (ret == 0)
        ret = buf_failed(&one);
    if (ret == 0 && found && !jsonscan(&scan, one.data, one.len))
        buf_text(out, "\"[redacted]\"");
    else if (ret == 0)
        buf_add(out, one.data, one.len);
    *count += found;
    buf_done(&one);
    return ret;
}

/* String by string: sees less, since a name and its value are apart, and cannot break anything. */
static int redact_each(const struct redact_rules *rules, const char *json, size_t len,
                       struct buf *out, uint64_t *count)
{
    int ret = 0;
    for (size_t at = 0; at < len && ret == 0;) {
        size_t plain = at;
        while (at < len && json[at] != '"')
            at++;
        buf_add(out, json + plain, at - plain);
        if (at == len)
            break;
        size_t end = end_of_string(json, len, at);
        ret = redact_string(rules, json + at, end - at, out, count);
        at = end;
    }
    return ret < 0 ? ret : buf_failed(out);
}

int redact_json(const struct redact_rules *rules, const char *json, size_t len, struct buf *out,
                uint64_t *count)
{
    struct jsonscan scan;
    size_t before = out->len;
    uint64_t found = 0;
    int ret = redact_text(rules, json, len, out, &found);
    if (ret == 0)
        ret = buf_failed(out);
    if (ret < 0)
        return ret;
    if (!found || jsonscan(&scan, out->data + before, out->len - before)) {
        *count += found;
        return 0;
    }
    out->len = before;
    return redact_each(rules, json, len, out, count);
}
