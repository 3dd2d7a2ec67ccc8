/* SPDX-License-Identifier: MIT */
/* brig: dispatch of the verbs. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/nearest.h"
#include "brig.h"
#include "commands.h"
#include "cli/term.h"

static int (*const verbs[])(int argc, char **argv) = {
    [VERB_RUN] = cmd_run,       [VERB_EXPLAIN] = cmd_explain,       [VERB_BATCH] = cmd_batch,
    [VERB_CALL] = cmd_call,     [VERB_TOOLS] = cmd_tools,           [VERB_MCP] = cmd_mcp,
    [VERB_DOCTOR] = cmd_doctor, [VERB_COMPLETION] = cmd_completion, [VERB_MANUAL] = cmd_manual,
};
_Static_assert(sizeof verbs / sizeof *verbs == VERB_COUNT, "a verb without its command");

static void usage(FILE *out)
{
    fputs("brig runs a command as if it will misbehave.\n\n", out);
    for (unsigned i = 0; i < command_count; i++)
        fprintf(out, "  brig %-11s %-32s %s\n", commands[i].name, commands[i].arguments,
                commands[i].help);
    fputs("\n"
          "See brig VERB --help for the options of a verb; brig --version prints the version.\n",
          out);
}

static int finish_text(void)
{
    return ferror(stdout) || fflush(stdout) ? 125 : 0;
}

/* If file descriptor 0, 1 or 2 is closed at the start, the next file that we open would get its
 * number and be used as a standard stream: open /dev/null there. */
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

static int unknown_verb(const char *verb)
{
    char name[128], hint[NEAREST_HINT_SIZE];
    struct nearest nearest;
    nearest_init(&nearest, verb, strlen(verb));
    for (unsigned i = 0; i < command_count; i++)
        nearest_try(&nearest, commands[i].name);
    brig_escape(verb, strlen(verb), name, sizeof name);
    term_message("\"%s\" is not a verb%s; see brig --help (to run a command: brig run -- %s)", name,
                 nearest_hint(&nearest, "brig ", hint), name);
    return 2;
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
            return verbs[i](argc - 1, argv + 1);
    }
    return unknown_verb(argv[1]);
}
