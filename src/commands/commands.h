/* SPDX-License-Identifier: MIT */
/* The verbs. Each parses its own arguments (argv[0] is the verb) and returns an exit code. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

int cmd_run(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_batch(int argc, char **argv);
int cmd_call(int argc, char **argv);
int cmd_tools(int argc, char **argv);
int cmd_mcp(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_manual(int argc, char **argv);

enum verb {
    VERB_RUN,
    VERB_EXPLAIN,
    VERB_BATCH,
    VERB_CALL,
    VERB_TOOLS,
    VERB_MCP,
    VERB_DOCTOR,
    VERB_COMPLETION,
    VERB_MANUAL,
    VERB_COUNT,
};

/* The table in verbs.c, indexed by enum verb. */
struct command {
    const char *name, *arguments, *help;
};

extern const struct command commands[];
extern const unsigned command_count;

#endif
