/* SPDX-License-Identifier: MIT */
/* Names and one-line descriptions of the verbs; main.c has their functions. */
#include "commands.h"

const struct command commands[] = {
    [VERB_RUN] = {"run", "[options] [--] COMMAND [ARG...]", "run one command"},
    [VERB_EXPLAIN] = {"explain", "[options] [--] COMMAND [ARG...]",
                      "print the plan of a run, start nothing"},
    [VERB_BATCH] = {"batch", "[options] JOBS.ndjson|-", "run many jobs, print their results"},
    [VERB_CALL] = {"call", "TOOL [--args JSON] --tools FILE", "call a tool, print its answer"},
    [VERB_TOOLS] = {"tools", "[--json] FILE", "list and check the tools of a file"},
    [VERB_MCP] = {"mcp", "[--tools FILE] [options]", "serve an agent, MCP on stdio"},
    [VERB_DOCTOR] = {"doctor", "[--json]", "check which layers this host can enforce"},
    [VERB_COMPLETION] = {"completion", "bash|zsh|fish", "print a completion script for a shell"},
    [VERB_MANUAL] = {"manual", "", "print the manual page"},
};
const unsigned command_count = VERB_COUNT;
_Static_assert(sizeof commands / sizeof *commands == VERB_COUNT, "a verb without a name");
