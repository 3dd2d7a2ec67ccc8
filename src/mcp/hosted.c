/* SPDX-License-Identifier: MIT */
/* The tools of the operator's tools file, as tools of the server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/jsonscan.h"
#include "server.h"

static const struct brig_tool *find(const struct server *server, const char *name, size_t *index)
{
    const struct brig_tools *tools = server->options->tools;
    for (size_t i = 0; tools && i < brig_tools_count(tools); i++) {
        const struct brig_tool *tool = brig_tools_get(tools, i);
        if (strcmp(tool->name, name) == 0) {
            *index = i;
            return tool;
        }
    }
    return NULL;
}

/* ---- list ---------------------------------------------------------------------------------- */

/* Write a schema for clients, which require the type "object" at its root. A missing type is added.
 * Returns false if the schema is for another type. */
static bool write_schema(struct jsonw *w, const char *key, const char *schema)
{
    struct jsonscan scan;
    struct jsonscan_span type;
    size_t len = strlen(schema);
    bool object = jsonscan(&scan, schema, len) && scan.kind == '{';
    bool typed = object && jsonscan_get(&scan, "type", &type);
    if (!object || (typed && (type.len != 8 || memcmp(type.at, "\"object\"", 8) != 0)))
        return false;
    if (typed || scan.members > JSONSCAN_MEMBERS_MAX) {
        jsonw_raw(w, key, schema, len);
        return true;
    }
    autofree char *text = malloc(len + 32);
    if (!text)
        return false;
    int n = snprintf(text, len + 32, "{\"type\":\"object\"%s%.*s", scan.members ? "," : "",
                     (int)(len - 1), scan.value.at + 1);
    jsonw_raw(w, key, text, (size_t)n);
    return true;
}

/* The defaults if the file has no annotations: the tool may change files that it can write, and has
 * no network unless its settings ask for it. */
static void write_annotations(struct jsonw *w, const struct server *server, size_t index)
{
    const struct brig_tool *tool = brig_tools_get(server->options->tools, index);
    if (tool->annotations) {
        jsonw_raw(w, "annotations", tool->annotations, strlen(tool->annotations));
        return;
    }
    char *network = brig_spec_get(brig_tools_spec(server->options->tools, index), "network");
    jsonw_open(w, "annotations", '{');
    jsonw_bool(w, "readOnlyHint", false);
    jsonw_bool(w, "destructiveHint", true);
    jsonw_bool(w, "openWorldHint", !network || strcmp(network, "none") != 0);
    jsonw_close(w, '}');
    brig_free(network);
}

void hosted_list(const struct server *server, struct jsonw *w)
{
    const struct brig_tools *tools = server->options->tools;
    for (size_t i = 0; tools && i < brig_tools_count(tools); i++) {
        const struct brig_tool *tool = brig_tools_get(tools, i);
        jsonw_open(w, NULL, '{');
        jsonw_text(w, "name", tool->name);
        if (tool->title)
            jsonw_text(w, "title", tool->title);
        if (tool->description)
            jsonw_text(w, "description", tool->description);
        if (!write_schema(w, "inputSchema", tool->input_schema))
            jsonw_raw(w, "inputSchema", "{\"type\":\"object\"}", 17);
        if (tool->output_schema)
            write_schema(w, "outputSchema", tool->output_schema);
        write_annotations(w, server, i);
        jsonw_close(w, '}');
    }
}

/* ---- call ---------------------------------------------------------------------------------- */

bool hosted_call(struct server *server, const struct ask *ask, const char *name,
                 const struct jsonr *args)
{
    size_t index;
    const struct brig_tool *tool = find(server, name, &index);
    struct brig_error err;
    if (!tool)
        return false;
    if (!runs_may_start(server, ask))
        return true;
    struct buf text;
    struct jsonw w;
    struct run *run = run_new(server);
    buf_init(&text, 6 * BRIG_ARGS_MAX);
    jsonw_init(&w, &text);
    if (args)
        jsonr_write(&w, NULL, args);
    if (!run || buf_failed(&text)) {
        answer_error(server, ask, "out of memory");
    } else if (brig_call_start(server->brig, server->options->tools, name, text.data, text.len,
                               NULL, &run->call, &err) < 0) {
        answer_refusal(server, ask, &err);
    } else {
        run->tool = tool;
        run->run = brig_call_run(run->call);
        runs_add(server, run, ask, server->options->yield_ns);
        run = NULL;
    }
    buf_done(&text);
    run_free(run);
    return true;
}
