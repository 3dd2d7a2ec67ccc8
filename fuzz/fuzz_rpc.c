/* SPDX-License-Identifier: MIT */
/* mcp/rpc.c: any line of a client is a message, or an error with a code; an id is JSON that can be
 * sent back. */
#include "mcp/rpc.h"

#include "base/jsonscan.h"
#include "target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rpc rpc;
    struct jsonscan scan;
    bool read = rpc_read(&rpc, (const char *)data, size);
    ensure(read == (rpc.code == 0));
    ensure(read || *rpc.fault);
    if (*rpc.ask.id) {
        ensure(jsonscan(&scan, rpc.ask.id, strlen(rpc.ask.id)));
        ensure(scan.kind == '"' || scan.kind == '0');
    }
    ensure(!rpc.params || rpc.params->type == JSONR_OBJECT);
    rpc_done(&rpc);
    return 0;
}
