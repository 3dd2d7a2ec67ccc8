/* SPDX-License-Identifier: MIT */
/* base/jsonscan.c: accepts the same texts as the reader that builds a tree, and finds the same
 * members. They may differ for texts that only the reader refuses (numbers that are too large,
 * duplicate names, \u0000, lone surrogates). After jsonw_raw(), the text is still JSON. */
#include "base/jsonscan.h"

#include "base/buf.h"
#include "base/jsonr.h"
#include "base/jsonw.h"
#include "target.h"

static void check_raw(const char *text, size_t len)
{
    struct buf buf;
    struct jsonw w;
    struct jsonscan scan;
    buf_init(&buf, len * 6 + 16);
    jsonw_init(&w, &buf);
    jsonw_raw(&w, NULL, text, len);
    ensure(buf_failed(&buf) == 0 && jsonscan(&scan, buf.data, buf.len));
    ensure(!memchr(buf.data, '\n', buf.len) && !memchr(buf.data, 0x7f, buf.len));
    buf_done(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct jsonscan scan;
    const char *text = (const char *)data;
    bool taken = jsonscan(&scan, text, size);
    struct jsonr *tree = jsonr_object(text, size, 1u << 20, "text", "fuzz", NULL);
    ensure(taken || scan.why);
    bool too_deep = !taken && strstr(scan.why, "deeply");
    if (tree) {
        ensure(too_deep || (taken && scan.kind == '{' && scan.members == tree->count));
        size_t i = 0;
        for (const struct jsonr *m = tree->first; m && taken && i < JSONSCAN_MEMBERS_MAX;
             m = m->next, i++) {
            ensure(scan.values[i].at == text + m->at);
            ensure(m->type != JSONR_STRING || scan.values[i].at[0] == '"');
            ensure(m->type != JSONR_NUMBER || scan.values[i].len == m->len);
        }
        jsonr_free(tree);
    }
    if (taken)
        check_raw(text, size);
    return 0;
}
