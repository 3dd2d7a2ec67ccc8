/* SPDX-License-Identifier: MIT */
/* brig manual: the manual page in man(7) format, from the tables of options. */
#include <stdio.h>
#include <string.h>

#include "brig.h"
#include "commands.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/term.h"

/* Print text for man(7): escape dashes, and dots and quotes at the beginning of a line. */
static void print_text(const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text; text++) {
        if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\e", stdout);
        else
            putchar(*text);
    }
}

static void print_option(const char *option, char letter, const char *argument, const char *help)
{
    puts(".TP");
    fputs(".B ", stdout);
    if (letter)
        printf("\\-%c, ", letter);
    fputs("\\-\\-", stdout);
    print_text(option);
    if (argument) {
        fputs(" \\fI", stdout);
        print_text(argument);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    putchar((help[0] >= 'a' && help[0] <= 'z') ? help[0] - 'a' + 'A' : help[0]);
    print_text(help + 1);
    puts(".");
}

static void print_keys(void)
{
    size_t count;
    const struct brig_key *keys = brig_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char values[96];
        print_option(keys[i].option, keys[i].letter, keys[i].argument, keys[i].help);
        help_values(&keys[i], values, sizeof values);
        if (*values) {
            fputs("Values: ", stdout);
            print_text(values);
            puts(".");
        }
        if (keys[i].detail) {
            print_text(keys[i].detail);
            putchar('\n');
        }
    }
}

static const char before_options[] = ".SH NAME\nbrig \\- run a command as if it will misbehave\n"
                                     ".SH SYNOPSIS\n";

static const char description[] =
    ".SH DESCRIPTION\n"
    "brig runs one command with limits on memory, CPU, processes, time and output, and relays its\n"
    "output live. When the command ends or exceeds a limit, brig ends every process that it\n"
    "started, and reports exactly what happened. The result is written only when all processes of\n"
    "the run are gone.\n.PP\n"
    "A setting that was asked for by name and cannot be enforced is refused (exit 125) with the\n"
    "reason. If no cell can be built, the run is refused, unless isolation is auto. The result\n"
    "lists the layers that were applied, and those that were not with the reason.\n.PP\n"
    "Sizes are written as 4096, 512K, 64M, 2G; durations as 500ms, 30s, 5m, 1h30m; plain numbers\n"
    "are seconds. \\(lqunlimited\\(rq removes a limit; 0 is refused.\n.PP\n"
    "Precedence: option, BRIG_* variable (BRIG_MEMORY, BRIG_KILL_AFTER, ...), metadata, spec\n"
    "file, default. No setting can exceed the operator's maxima.\n"
    ".SH OPTIONS\n";

static const char after_options[] =
    "The number of parallel jobs of brig batch cannot be changed while they run.\n"
    ".SH SPEC FILE\n"
    "A JSON object with \\(lqcommand\\(rq, an array of strings, and the settings above by name,\n"
    "with _ for \\-. Sizes and durations are numbers, or strings with units; env and labels are\n"
    "objects. Unknown and duplicate keys are refused.\n"
    ".SH METADATA\n"
    "Any JSON object; the members of its object \\(lqlimits\\(rq are limits as in a spec file.\n"
    ".SH FILES\n"
    ".TP\n.I /etc/brig/limits.json\n"
    "The operator's maxima, e.g. {\"maximum\": {\"memory\": \"8G\", \"timeout\": \"2h\"}}.\n"
    "It must belong to root, and no other user may write to it. A value above its maximum is\n"
    "refused; a default above it is lowered to it.\n"
    ".SH EXIT STATUS\n"
    "The command's own; 124 after a timeout; 125 if brig could not run it as asked; 126 if it\n"
    "cannot be executed; 127 if it was not found; 128+N if it was killed by signal N; 137 if it\n"
    "was killed at another limit; 2 for bad usage. If brig itself is ended by signal N: 128+N.\n"
    ".SH SIGNALS\n"
    "SIGINT, SIGTERM and SIGHUP cancel the run: its processes get SIGTERM, and SIGKILL after\n"
    "kill\\-after. A second signal kills them at once. If brig is killed with SIGKILL, its run\n"
    "ends too.\n"
    ".SH EXAMPLES\n"
    ".nf\nbrig run \\-\\-timeout 10s \\-m 512M \\-\\- python3 job.py\n"
    "brig run \\-\\-json \\-\\- make test | jq .status\n"
    "brig run \\-\\-events fd:3 \\-\\-result out.json \\-\\- ./tool 3>events.ndjson\n.fi\n";

static void print_synopsis(void)
{
    for (unsigned i = 0; i < command_count; i++) {
        printf("%s.B brig %s\n", i ? ".br\n" : "", commands[i].name);
        if (*commands[i].arguments) {
            print_text(commands[i].arguments);
            putchar('\n');
        }
    }
}

static const char before_batch[] =
    ".SH BATCH\n"
    ".B brig batch\n"
    "reads jobs, one JSON object per line: a spec as in a spec file, with an optional\n"
    "\\(lqid\\(rq. It prints the result of each job on a line when the job ends: the\n"
    "result object with \\(lqline\\(rq, \\(lqok\\(rq and \\(lqjob\\(rq. It exits with 0 if every "
    "job did, and\n"
    "with 1 if some did not.\n";

static const char before_mcp[] =
    ".SH MCP\n"
    ".B brig mcp\n"
    "serves an agent by the Model Context Protocol on stdin and stdout, with the tools\n"
    "run_command, run_code, poll_run, write_stdin, cancel_run and those of a file. The options\n"
    "above, except the last ones, which are only for brig run, apply to every run, and an agent\n"
    "cannot exceed them. When its stdin is closed, the server ends all of its runs and exits.\n";

static void print_own(const struct own_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++)
        print_option(options[i].option, options[i].letter, options[i].argument, options[i].help);
}

int cmd_manual(int argc, char **argv)
{
    if (argc != 1) {
        term_message("manual: takes no arguments");
        return 2;
    }
    printf(".TH BRIG 1 2026-11-15 \"brig %s\" \"User Commands\"\n", brig_version());
    fputs(before_options, stdout);
    print_synopsis();
    fputs(description, stdout);
    print_keys();
    print_own(own_options, own_option_count);
    fputs(before_batch, stdout);
    print_own(batch_options, batch_option_count);
    fputs(before_mcp, stdout);
    print_own(mcp_own_options, mcp_own_option_count);
    puts(".PP");
    fputs(after_options, stdout);
    return ferror(stdout) || fflush(stdout) ? 125 : 0;
}
