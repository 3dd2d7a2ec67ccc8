/* Messages of JSON-RPC, as the protocol has them. */
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

/* Who asks, and how the answer has to look. */
struct ask {
    char id[RPC_ID_MAX];    /* as JSON; "": nobody waits for an answer */
    char token[RPC_ID_MAX]; /* of the progress that is asked for, as JSON; "": none */
    bool modern;            /* by the rules of 2026-07-28 */
};

struct rpc {
    struct ask ask;
    struct jsonr *root;
    const char *method;         /* NULL: an answer to something that we never asked */
    const struct jsonr *params; /* an object, or NULL */
    int code;                   /* of the error, if it is none; 0 */
    char fault[512];
};

/* One line. False: it is no message, and rpc.code and rpc.fault say why. */
/* Does it, well-formed or not, ask for no answer? */
bool rpc_is_notification(const struct rpc *rpc);
bool rpc_read(struct rpc *rpc, const char *text, size_t len);
void rpc_done(struct rpc *rpc);

/* A string or an integer, as JSON. False for anything else, and for what is too long. */
bool rpc_id(const struct jsonr *value, char out[RPC_ID_MAX]);

/* ---- out ----------------------------------------------------------------------------------- */

#define RPC_MESSAGE_MAX (9u << 20) /* clients break the connection at 10 MiB */

struct reply {
    struct buf buf;
    struct jsonw w; /* in the open "result" */
};

void reply_open(struct reply *reply, const struct ask *ask);
/* Sends it. False: it was too large, and nothing was sent. */
bool reply_send(struct reply *reply, struct wire *wire);

/* `data`: JSON, or NULL. */
void rpc_error(struct wire *wire, const char *id, int code, const char *text, const char *data);
void rpc_progress(struct wire *wire, const struct ask *ask, uint64_t elapsed_ns, const char *text);

#endif
