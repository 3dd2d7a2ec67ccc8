/* SPDX-License-Identifier: MIT */
/* JSON-RPC messages. */
#include "rpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/jsonscan.h"

#define STAGE      "request"
#define VALUES_MAX 500000 /* of one message: a value takes a hundred times its size in memory */

/* ---- in ------------------------------------------------------------------------------------ */

static bool refuse(struct rpc *rpc, int code, const char *text)
{
    rpc->code = code;
    snprintf(rpc->fault, sizeof rpc->fault, "%s", text);
    return false;
}

bool rpc_id(const struct jsonr *value, char out[RPC_ID_MAX])
{
    struct buf buf;
    struct jsonw w;
    bool whole = value->type == JSONR_NUMBER && !strpbrk(value->text, ".eE");
    if (!whole && value->type != JSONR_STRING)
        return false;
    buf_init(&buf, RPC_ID_MAX - 1);
    jsonw_init(&w, &buf);
    jsonr_write(&w, NULL, value);
    bool fits = !buf_failed(&buf);
    if (fits) {
        memcpy(out, buf.data, buf.len);
        out[buf.len] = 0;
    }
    buf_done(&buf);
    return fits;
}

static size_t count_values(const char *text, size_t len)
{
    size_t count = 1;
    bool quoted = false;
    for (size_t i = 0; i < len; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && (text[i] == ',' || text[i] == '[' || text[i] == '{'))
            count++;
    }
    return count;
}

/* Find the id of a message that is JSON but not a valid request. */
static void find_id(struct rpc *rpc, const struct jsonscan *scan)
{
    struct jsonscan_span id;
    char text[RPC_ID_MAX + 16];
    if (!jsonscan_get(scan, "id", &id) || id.len >= RPC_ID_MAX)
        return;
    int len = snprintf(text, sizeof text, "{\"id\":%.*s}", (int)id.len, id.at);
    struct jsonr *root = jsonr_object(text, (size_t)len, sizeof text, "id", STAGE, NULL);
    if (root && !rpc_id(root->first, rpc->ask.id))
        rpc->ask.id[0] = 0;
    jsonr_free(root);
}

static bool parse(struct rpc *rpc, const char *text, size_t len)
{
    struct jsonscan scan;
    struct brig_error err = {0};
    if (!jsonscan(&scan, text, len)) {
        char why[160];
        snprintf(why, sizeof why, "this line is not JSON: byte %zu: %s", scan.where + 1, scan.why);
        return refuse(rpc, RPC_PARSE, why);
    }
    if (scan.kind == '[')
        return refuse(rpc, RPC_INVALID, "batches are not part of the protocol");
    if (scan.kind != '{')
        return refuse(rpc, RPC_INVALID, "a message is a JSON object");
    if (count_values(text, len) > VALUES_MAX) {
        find_id(rpc, &scan);
        return refuse(rpc, RPC_INVALID, "the message has more than 500000 values");
    }
    rpc->root = jsonr_object(text, len, WIRE_LINE_MAX, "message", STAGE, &err);
    if (!rpc->root) {
        find_id(rpc, &scan);
        return refuse(rpc, errno == ENOMEM ? RPC_INTERNAL : RPC_INVALID, err.text);
    }
    return true;
}

static bool read_members(struct rpc *rpc)
{
    const struct jsonr *id = jsonr_get(rpc->root, "id");
    const struct jsonr *version = jsonr_get(rpc->root, "jsonrpc");
    const struct jsonr *method = jsonr_get(rpc->root, "method");
    const struct jsonr *params = jsonr_get(rpc->root, "params");
    if (id && !rpc_id(id, rpc->ask.id))
        return refuse(rpc, RPC_INVALID, "id: has to be a string or an integer, of 250 bytes");
    if (!version || version->type != JSONR_STRING || strcmp(version->text, "2.0") != 0)
        return refuse(rpc, RPC_INVALID, "jsonrpc: has to be \"2.0\"");
    if (!method && (jsonr_get(rpc->root, "result") || jsonr_get(rpc->root, "error")))
        return true;
    if (!method || method->type != JSONR_STRING)
        return refuse(rpc, RPC_INVALID, "method: has to be a string");
    if (params && params->type == JSONR_NULL)
        params = NULL;
    if (params && params->type != JSONR_OBJECT)
        return refuse(rpc, RPC_BAD_PARAMS, "params: has to be an object");
    rpc->method = method->text;
    rpc->params = params;
    return true;
}

bool rpc_read(struct rpc *rpc, const char *text, size_t len)
{
    *rpc = (struct rpc){.code = 0};
    return parse(rpc, text, len) && read_members(rpc);
}

bool rpc_is_notification(const struct rpc *rpc)
{
    return rpc->root && jsonr_get(rpc->root, "method") && !jsonr_get(rpc->root, "id");
}

void rpc_done(struct rpc *rpc)
{
    jsonr_free(rpc->root);
    rpc->root = NULL;
}

/* ---- out ----------------------------------------------------------------------------------- */

static void open_message(struct reply *reply, const char *id)
{
    buf_init(&reply->buf, RPC_MESSAGE_MAX);
    jsonw_init(&reply->w, &reply->buf);
    jsonw_open(&reply->w, NULL, '{');
    jsonw_text(&reply->w, "jsonrpc", "2.0");
    if (id && *id)
        jsonw_raw(&reply->w, "id", id, strlen(id));
}

void reply_open(struct reply *reply, const struct ask *ask)
{
    open_message(reply, ask->id);
    jsonw_open(&reply->w, "result", '{');
    if (ask->modern)
        jsonw_text(&reply->w, "resultType", "complete");
}

bool reply_send(struct reply *reply, struct wire *wire)
{
    jsonw_close(&reply->w, '}');
    jsonw_close(&reply->w, '}');
    bool fits = !buf_failed(&reply->buf);
    if (fits)
        wire_send(wire, reply->buf.data, reply->buf.len);
    buf_done(&reply->buf);
    return fits;
}

/* If the id is unknown, the answer has none: clients and the schema of the protocol refuse a
 * null. */
void rpc_error(struct wire *wire, const char *id, int code, const char *text, const char *data)
{
    struct reply reply;
    open_message(&reply, id);
    jsonw_open(&reply.w, "error", '{');
    jsonw_int(&reply.w, "code", code);
    jsonw_text(&reply.w, "message", text);
    if (data)
        jsonw_raw(&reply.w, "data", data, strlen(data));
    reply_send(&reply, wire);
}

void rpc_progress(struct wire *wire, const struct ask *ask, uint64_t elapsed_ns, const char *text)
{
    struct reply reply;
    open_message(&reply, NULL);
    jsonw_text(&reply.w, "method", "notifications/progress");
    jsonw_open(&reply.w, "params", '{');
    jsonw_raw(&reply.w, "progressToken", ask->token, strlen(ask->token));
    jsonw_decimal(&reply.w, "progress", elapsed_ns / NS_PER_MS, 1000);
    jsonw_text(&reply.w, "message", text);
    reply_send(&reply, wire);
}
