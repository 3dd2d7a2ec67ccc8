/* A server of the Model Context Protocol on stdin and stdout: run_command, run_code and the tools
 * of a file, for an agent. What it may use is decided by who starts it. */
#ifndef MCP_MCP_H
#define MCP_MCP_H

#include <stddef.h>
#include <stdint.h>

#include "brig.h"

#define MCP_YIELD    "45s" /* clients give a request up after 60 */
#define MCP_MAX_RUNS 8
#define MCP_RUNS_MAX 64 /* of max_runs */
#define MCP_KEEP     "256K"
#define MCP_KEEP_MAX                                                                               \
    (512u << 10) /* clients take no message over 10 MiB; each byte may become 13                   \
                  */

struct mcp_options {
    const struct brig_spec *spec;   /* every run begins with it, and may only ask for less */
    const struct brig_tools *tools; /* or NULL */
    uint64_t yield_ns;              /* after which a run is said to go on */
    unsigned max_runs;              /* at once */
    size_t keep;                    /* bytes of output kept for each run until somebody asks */
    int signals;                    /* a signalfd: any signal ends it */
};

struct mcp_counts {
    uint64_t runs, warm;
};

/* Until the client is gone or a signal comes; nothing of its runs is left then. */
int mcp_serve(const struct mcp_options *options, struct mcp_counts *counts, struct brig_error *err);

#endif
