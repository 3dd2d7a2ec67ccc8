/* brig: a table of verbs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "brig.h"
#include "commands.h"
#include "cli/term.h"

const struct command commands[] = {
    {"run", "[options] [--] COMMAND [ARG...]", "run one command", cmd_run},
    {"explain", "[options] [--] COMMAND [ARG...]", "show the plan of such a run", cmd_explain},
    {"batch", "[options] JOBS.ndjson|-", "run many jobs, print their results", cmd_batch},
    {"call", "TOOL [--args JSON] --tools FILE", "call a tool, print its answer", cmd_call},
    {"tools", "[--json] FILE", "list and check the tools of a file", cmd_tools},
    {"mcp", "[--tools FILE] [options]", "serve an agent, MCP on stdio", cmd_mcp},
    {"doctor", "[--json]", "what this host can enforce", cmd_doctor},
    {"completion", "bash|zsh|fish", "print a completion script for a shell", cmd_completion},
    {"manual", "", "print the manual page", cmd_manual},
};
const unsigned command_count = sizeof commands / sizeof *commands;

static void usage(FILE *out)
{
    fputs("brig runs a command as if it will misbehave.\n\n", out);
    for (unsigned i = 0; i < command_count; i++)
        fprintf(out, "  brig %-11s %-32s %s\n", commands[i].name, commands[i].arguments,
                commands[i].help);
    fputs("\nbrig VERB --help tells more; brig --version the version.\n", out);
}

static int finish_text(void)
{
    return ferror(stdout) || fflush(stdout) ? 125 : 0;
}

/* Started with 0, 1 or 2 closed, the next file we open would get that number and be taken for a
 * stream. */
static int fill_standard_fds(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_NOCTTY);
    while (fd >= 0 && fd <= 2);
    if (fd < 0)
        return -1;
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    if (fill_standard_fds() < 0) {
        term_message("cannot open /dev/null: %s", error_text(errno));
        return 125;
    }
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return finish_text();
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        printf("brig %s\n", brig_version());
        return finish_text();
    }
    for (unsigned i = 0; i < command_count; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    char name[128];
    brig_escape(argv[1], strlen(argv[1]), name, sizeof name);
    term_message("\"%s\" is not a verb; see brig --help (to run a command: brig run -- %s)", name,
                 name);
    return 2;
}
