/* SPDX-License-Identifier: MIT */
/* Parses envelopes and finds them in printed text. */
#include "envelope.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static bool wrong(char why[ENVELOPE_WHY_SIZE], const char *text)
{
    snprintf(why, ENVELOPE_WHY_SIZE, "%s", text);
    return false;
}

static bool is_text(struct jsonscan_span span, const char *text)
{
    size_t len = strlen(text);
    return span.len == len + 2 && span.at[0] == '"' && memcmp(span.at + 1, text, len) == 0;
}

/* Accept only these members, each at most once. */
static bool check_members(const struct jsonscan *scan, char why[ENVELOPE_WHY_SIZE])
{
    static const char *const known[] = {"status", "output", "error", "metadata"};
    unsigned seen = 0;
    for (size_t i = 0; i < scan->members && i < JSONSCAN_MEMBERS_MAX; i++) {
        struct jsonscan_span name = scan->names[i];
        size_t k = 0;
        while (k < 4 && !(strlen(known[k]) == name.len && memcmp(known[k], name.at, name.len) == 0))
            k++;
        if (k == 4 || seen & 1u << k) {
            snprintf(why, ENVELOPE_WHY_SIZE, "the result has \"%.*s\" %s",
                     name.len < 40 ? (int)name.len : 40, name.at,
                     k == 4 ? "in it, which is none of status, output, error, metadata" : "twice");
            return false;
        }
        seen |= 1u << k;
    }
    return true;
}

bool envelope_read(struct envelope *out, const char *json, size_t len, char why[ENVELOPE_WHY_SIZE])
{
    struct jsonscan scan;
    struct jsonscan_span status;
    *out = (struct envelope){.success = true};
    if (len == 0)
        return true;
    if (!jsonscan(&scan, json, len)) {
        snprintf(why, ENVELOPE_WHY_SIZE, "the result is not JSON: byte %zu: %s", scan.where,
                 scan.why);
        return false;
    }
    if (scan.kind != '{' || !jsonscan_get(&scan, "status", &status))
        return wrong(why, "the result is not an object with a \"status\"");
    if (!check_members(&scan, why))
        return false;
    out->success = is_text(status, "success");
    if (!out->success && !is_text(status, "error"))
        return wrong(why, "the result's status is neither \"success\" nor \"error\"");
    jsonscan_get(&scan, "output", &out->output);
    jsonscan_get(&scan, "error", &out->error);
    jsonscan_get(&scan, "metadata", &out->metadata);
    if (out->metadata.len && out->metadata.at[0] != '{')
        return wrong(why, "the result's metadata is not an object");
    return true;
}

static bool find(const char *text, size_t len, const char *marker, size_t *at, bool *again)
{
    size_t size = strlen(marker);
    const char *found = memmem(text, len, marker, size);
    if (!found)
        return false;
    *at = (size_t)(found - text);
    size_t behind = *at + size;
    *again = memmem(text + behind, len - behind, marker, size) != NULL;
    return true;
}

bool envelope_find(struct jsonscan_span *out, const char *text, size_t len, const char *begin,
                   const char *end, char why[ENVELOPE_WHY_SIZE])
{
    size_t first = 0, last = 0;
    bool first_again = false, last_again = false;
    bool same = strcmp(begin, end) == 0;
    if (!find(text, len, begin, &first, &first_again))
        return wrong(why, "no result was printed between its markers");
    size_t start = first + strlen(begin);
    if (!find(text + start, len - start, end, &last, &last_again))
        return wrong(why, "only a part of the result was printed: its second marker is missing");
    if ((first_again && !same) || last_again)
        return wrong(why, "the markers of the result were printed more than once");
    *out = (struct jsonscan_span){text + start, last};
    return true;
}
