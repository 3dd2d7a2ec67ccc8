/* SPDX-License-Identifier: MIT */
/* JSON-RPC messages as MCP uses them. */
#ifndef MCP_RPC_H
#define MCP_RPC_H

#include "base/jsonr.h"
#include "base/jsonw.h"
#include "wire.h"

#define RPC_ID_MAX     256
#define RPC_PARSE      (-32700)
#define RPC_INVALID    (-32600)
#define RPC_NO_METHOD  (-32601)
#define RPC_BAD_PARAMS (-32602)
#define RPC_INTERNAL   (-32603)
#define RPC_VERSION    (-32022)

/* A request: its id, and the form of its answer. */
struct ask {
    char id[RPC_ID_MAX];    /* as JSON; "": no answer is expected */
    char token[RPC_ID_MAX]; /* the progress token as JSON; "": none */
    bool modern;            /* the protocol of 2026-07-28 */
};

struct rpc {
    struct ask ask;
    struct jsonr *root;
    const char *method;         /* NULL: an answer to a request that we never sent */
    const struct jsonr *params; /* an object, or NULL */
    int code;                   /* of the error; 0 if the message is valid */
    char fault[512];
};

/* Parse one line. Returns false if it is not a valid message; rpc.code and rpc.fault say why. */
/* True if the message, valid or not, expects no answer. */
bool rpc_is_notification(const struct rpc *rpc);
bool rpc_read(struct rpc *rpc, const char *text, size_t len);
void rpc_done(struct rpc *rpc);

/* Format a string or an integer as JSON. Returns false for other types and for texts that are too
 * long. */
bool rpc_id(const struct jsonr *value, char out[RPC_ID_MAX]);

/* ---- out ----------------------------------------------------------------------------------- */

#define RPC_MESSAGE_MAX (9u << 20) /* clients close the connection at 10 MiB */

struct reply {
    struct buf buf;
    struct jsonw w; /* writes into the open "result" */
};

void reply_open(struct reply *reply, const struct ask *ask);
/* Send the reply. Returns false if it was too large; nothing was sent then. */
bool reply_send(struct reply *reply, struct wire *wire);

/* `data`: JSON, or NULL. */
void rpc_error(struct wire *wire, const char *id, int code, const char *text, const char *data);
void rpc_progress(struct wire *wire, const struct ask *ask, uint64_t elapsed_ns, const char *text);

#endif
