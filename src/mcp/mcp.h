/* SPDX-License-Identifier: MIT */
/* An MCP (Model Context Protocol) server on stdin and stdout: run_command, run_code and the tools
 * of a tools file, for an agent. Its options, set by the operator, bound all runs of the agent. */
#ifndef MCP_MCP_H
#define MCP_MCP_H

#include <stddef.h>
#include <stdint.h>

#include "brig.h"

#define MCP_YIELD    "45s" /* clients abandon a request after 60 */
#define MCP_MAX_RUNS 8
#define MCP_RUNS_MAX 64 /* the maximum of max_runs */
#define MCP_KEEP     "256K"
/* Clients refuse messages over 10 MiB, and one byte may become 13. */
#define MCP_KEEP_MAX (512u << 10)

struct mcp_options {
    const struct brig_spec *spec;      /* of every run; an agent can only lower its limits */
    const struct brig_tools *tools;    /* or NULL */
    uint64_t yield_ns;                 /* a run that takes longer is answered as running */
    unsigned max_runs;                 /* in parallel */
    size_t keep;                       /* bytes of output kept per run until they are polled */
    void (*degraded)(const char *why); /* warns the operator that runs have no cell */
    int signals;                       /* a signalfd: any signal ends the server */
};

struct mcp_counts {
    uint64_t runs, warm;
};

/* Serve until the client closes the connection or a signal arrives. All runs are ended and removed
 * on return. */
int mcp_serve(const struct mcp_options *options, struct mcp_counts *counts, struct brig_error *err);

#endif
