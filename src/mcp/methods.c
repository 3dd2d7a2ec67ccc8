/* SPDX-License-Identifier: MIT */
/* The methods of the protocol, in its old and its new form. */
#include <stdio.h>
#include <string.h>

#include "server.h"

#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_SERVER       "io.modelcontextprotocol/serverInfo"
#define MODERN            "2026-07-28"
#define TTL_MS            3600000 /* the list of tools does not change while the server runs */

static const char *const versions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
#define VERSION_COUNT (sizeof versions / sizeof *versions)

static const char instructions[] =
    "Commands and code run in a sandbox. They see the system's programs and the work directory, "
    "and have a private /tmp that is empty at the start of every run. There is no network unless "
    "the operator allowed it. A run that takes long is answered with status \"running\" and a "
    "run_id: call poll_run for the rest. A nonzero exit code is a result, not a fault of the "
    "sandbox.";

/* ---- initialize ---------------------------------------------------------------------------- */

static void write_server(struct jsonw *w, const char *key)
{
    jsonw_open(w, key, '{');
    jsonw_text(w, "name", "brig");
    jsonw_text(w, "title", "brig, a sandbox");
    jsonw_text(w, "version", brig_version());
    jsonw_close(w, '}');
}

static void write_capabilities(struct jsonw *w)
{
    jsonw_open(w, "capabilities", '{');
    jsonw_open(w, "tools", '{');
    jsonw_close(w, '}');
    jsonw_close(w, '}');
}

static void initialize(struct server *server, const struct rpc *rpc)
{
    const struct jsonr *asked = rpc->params ? jsonr_get(rpc->params, "protocolVersion") : NULL;
    const char *version = versions[0];
    struct reply reply;
    if (!asked || asked->type != JSONR_STRING) {
        rpc_error(&server->wire, rpc->ask.id, RPC_BAD_PARAMS, "protocolVersion: is missing", NULL);
        return;
    }
    for (size_t i = 0; i < VERSION_COUNT; i++)
        version = strcmp(asked->text, versions[i]) == 0 ? versions[i] : version;
    reply_open(&reply, &rpc->ask);
    jsonw_text(&reply.w, "protocolVersion", version);
    write_capabilities(&reply.w);
    write_server(&reply.w, "serverInfo");
    jsonw_text(&reply.w, "instructions", instructions);
    reply_send(&reply, &server->wire);
}

static void write_lifetime(struct jsonw *w)
{
    jsonw_int(w, "ttlMs", TTL_MS);
    jsonw_text(w, "cacheScope", "private");
}

static void discover(struct server *server, const struct rpc *rpc)
{
    struct reply reply;
    reply_open(&reply, &rpc->ask);
    jsonw_open(&reply.w, "supportedVersions", '[');
    jsonw_text(&reply.w, NULL, MODERN);
    for (size_t i = 0; i < VERSION_COUNT; i++)
        jsonw_text(&reply.w, NULL, versions[i]);
    jsonw_close(&reply.w, ']');
    write_capabilities(&reply.w);
    jsonw_text(&reply.w, "instructions", instructions);
    write_lifetime(&reply.w);
    jsonw_open(&reply.w, "_meta", '{');
    write_server(&reply.w, META_SERVER);
    jsonw_close(&reply.w, '}');
    reply_send(&reply, &server->wire);
}

static void ping(struct server *server, const struct rpc *rpc)
{
    struct reply reply;
    reply_open(&reply, &rpc->ask);
    reply_send(&reply, &server->wire);
}

/* ---- tools --------------------------------------------------------------------------------- */

static void list_tools(struct server *server, const struct rpc *rpc)
{
    struct reply reply;
    if (rpc->params && jsonr_get(rpc->params, "cursor")) {
        rpc_error(&server->wire, rpc->ask.id, RPC_BAD_PARAMS, "cursor: the list has one page",
                  NULL);
        return;
    }
    reply_open(&reply, &rpc->ask);
    jsonw_open(&reply.w, "tools", '[');
    builtin_list(server, &reply.w);
    hosted_list(server, &reply.w);
    jsonw_close(&reply.w, ']');
    if (rpc->ask.modern)
        write_lifetime(&reply.w);
    if (!reply_send(&reply, &server->wire))
        rpc_error(&server->wire, rpc->ask.id, RPC_INTERNAL, "the list of tools is too large", NULL);
}

static void call_tool(struct server *server, const struct rpc *rpc)
{
    const struct jsonr *name = rpc->params ? jsonr_get(rpc->params, "name") : NULL;
    const struct jsonr *args = rpc->params ? jsonr_get(rpc->params, "arguments") : NULL;
    char shown[160], text[256];
    if (!name || name->type != JSONR_STRING) {
        rpc_error(&server->wire, rpc->ask.id, RPC_BAD_PARAMS, "name: has to be a string", NULL);
        return;
    }
    if (args && args->type == JSONR_NULL)
        args = NULL;
    if (args && args->type != JSONR_OBJECT) {
        rpc_error(&server->wire, rpc->ask.id, RPC_BAD_PARAMS, "arguments: has to be an object",
                  NULL);
        return;
    }
    if (builtin_call(server, &rpc->ask, name->text, args) ||
        hosted_call(server, &rpc->ask, name->text, args))
        return;
    brig_escape(name->text, name->len, shown, sizeof shown);
    snprintf(text, sizeof text, "there is no tool of this name: %s", shown);
    rpc_error(&server->wire, rpc->ask.id, RPC_BAD_PARAMS, text, NULL);
}

/* ---- dispatch ------------------------------------------------------------------------------ */

static const struct method {
    const char *name;
    bool legacy, modern;
    void (*answer)(struct server *server, const struct rpc *rpc);
} methods[] = {
    {"initialize", true, false, initialize},   {"ping", true, false, ping},
    {"server/discover", true, true, discover}, {"tools/list", true, true, list_tools},
    {"tools/call", true, true, call_tool},
};

static void answer(struct server *server, const struct rpc *rpc)
{
    char text[160];
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const struct method *m = &methods[i];
        if (strcmp(m->name, rpc->method) == 0 && (rpc->ask.modern ? m->modern : m->legacy)) {
            m->answer(server, rpc);
            return;
        }
    }
    brig_escape(rpc->method, strlen(rpc->method), text, sizeof text);
    rpc_error(&server->wire, rpc->ask.id, RPC_NO_METHOD, text, NULL);
}

static void notified(struct server *server, const struct rpc *rpc)
{
    const struct jsonr *id = rpc->params ? jsonr_get(rpc->params, "requestId") : NULL;
    char text[RPC_ID_MAX];
    if (strcmp(rpc->method, "notifications/cancelled") == 0 && id && rpc_id(id, text))
        runs_cancel(server, text);
}

/* Read _meta of a request. Returns false if the request was refused. */
static bool read_meta(struct server *server, struct rpc *rpc)
{
    const struct jsonr *meta = rpc->params ? jsonr_get(rpc->params, "_meta") : NULL;
    const struct jsonr *token = meta ? jsonr_get(meta, "progressToken") : NULL;
    const struct jsonr *version = meta ? jsonr_get(meta, META_VERSION) : NULL;
    if (token && !rpc_id(token, rpc->ask.token)) {
        rpc_error(&server->wire, rpc->ask.id, RPC_BAD_PARAMS,
                  "progressToken: has to be a string or an integer", NULL);
        return false;
    }
    if (!version)
        return true;
    if (version->type != JSONR_STRING || strcmp(version->text, MODERN) != 0) {
        char asked[64] = "", data[256];
        if (version->type == JSONR_STRING)
            brig_escape(version->text, version->len, asked, sizeof asked);
        for (char *c = asked; *c; c++)
            *c = *c == '"' || *c == '\\' ? '?' : *c;
        snprintf(data, sizeof data, "{\"supported\":[\"" MODERN "\"],\"requested\":\"%s\"}", asked);
        rpc_error(&server->wire, rpc->ask.id, RPC_VERSION, "unsupported protocol version", data);
        return false;
    }
    const struct jsonr *capabilities = jsonr_get(meta, META_CAPABILITIES);
    if (!capabilities || capabilities->type != JSONR_OBJECT) {
        rpc_error(&server->wire, rpc->ask.id, RPC_BAD_PARAMS,
                  "_meta: " META_CAPABILITIES ": is missing", NULL);
        return false;
    }
    rpc->ask.modern = true;
    return true;
}

/* Refuse a request with an id that is in use. The answer has no id: the first request gets the only
 * answer with that id. */
static void refuse_twin(struct server *server, const struct rpc *rpc)
{
    char text[RPC_ID_MAX + 64];
    snprintf(text, sizeof text, "id %s: is in use by a request that is not answered yet",
             rpc->ask.id);
    rpc_error(&server->wire, NULL, RPC_INVALID, text, NULL);
}

void server_message(struct server *server, const char *text, size_t len)
{
    struct rpc rpc;
    if (len == 0 || (len == 1 && *text == '\r'))
        return;
    bool read = rpc_read(&rpc, text, len);
    if (!read && rpc_is_notification(&rpc))
        rpc.method = NULL; /* a notification gets no answer, not even an error */
    else if (!read)
        rpc_error(&server->wire, rpc.ask.id, rpc.code, rpc.fault, NULL);
    else if (rpc.method && !*rpc.ask.id)
        notified(server, &rpc);
    else if (rpc.method && runs_is_waiting(server, rpc.ask.id))
        refuse_twin(server, &rpc);
    else if (rpc.method && read_meta(server, &rpc))
        answer(server, &rpc);
    rpc_done(&rpc);
}
