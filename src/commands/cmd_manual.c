/* brig manual: the manual page in man(7) form, made from the tables. */
#include <stdio.h>
#include <string.h>

#include "brig.h"
#include "commands.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/term.h"

/* Text in man(7): a dash that is to be typed, and a line that begins with a dot or a quote. */
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
    "brig runs one command with a budget of memory, processor, processes, time and output; "
    "streams\n"
    "its output live; ends all of what it started when it ends or overruns; and says exactly what\n"
    "happened. A result is given only when the whole process tree is gone.\n.PP\n"
    "What was asked for by name and cannot be enforced is refused (exit 125) with the reason. "
    "Only\n"
    "brig's own defaults may degrade, and then the result lists what was not applied and "
    "why.\n.PP\n"
    "Sizes are written 4096, 512K, 64M, 2G; durations 500ms, 30s, 5m, 1h30m, bare numbers are\n"
    "seconds. \\(lqunlimited\\(rq lifts a limit; 0 is refused.\n.PP\n"
    "Precedence: option, BRIG_* variable (BRIG_MEMORY, BRIG_KILL_AFTER, ...), metadata, spec "
    "file,\n"
    "default. No setting exceeds the operator's maxima.\n"
    ".SH OPTIONS\n";

static const char after_options[] =
    "How many jobs run at once cannot be changed while they run.\n"
    ".SH SPEC FILE\n"
    "A JSON object with \\(lqcommand\\(rq, an array of strings, and the settings above by name, "
    "with\n"
    "_ for \\-: sizes and durations as numbers or as strings with units, env and labels as "
    "objects.\n"
    "Unknown and duplicate keys are refused.\n"
    ".SH METADATA\n"
    "Any JSON object; the members of its \\(lqlimits\\(rq object are limits as in a spec file.\n"
    ".SH FILES\n"
    ".TP\n.I /etc/brig/limits.json\n"
    "The operator's maxima, e.g. {\"maximum\": {\"memory\": \"8G\", \"timeout\": \"2h\"}}. It must "
    "belong to\nroot and be writable by root only. A value over its maximum is refused; a default "
    "over it is\nlowered to it.\n"
    ".SH EXIT STATUS\n"
    "The command's own; 124 after a timeout; 125 if brig could not run it as asked; 126 if it "
    "cannot\n"
    "be executed; 127 if it was not found; 128+N if it was killed by signal N; 137 if it was "
    "killed "
    "at\nanother limit; 2 for bad usage. When brig itself is told to end by signal N: 128+N.\n"
    ".SH SIGNALS\n"
    "SIGINT, SIGTERM and SIGHUP cancel the run: SIGTERM to its tree, SIGKILL after kill\\-after. "
    "A\n"
    "second one does not wait. If brig is killed with SIGKILL, its run dies with it.\n"
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
    "takes jobs, a JSON object a line: a spec as in a spec file, with an \\(lqid\\(rq if it is to "
    "have one.\n"
    "It prints their results, one a line, as they end: the result object after "
    "\\(lqline\\(rq,\n"
    "\\(lqok\\(rq and \\(lqjob\\(rq. It exits with 0 if every job did, 1 if some did not.\n";

static const char before_mcp[] =
    ".SH MCP\n"
    ".B brig mcp\n"
    "serves an agent by the Model Context Protocol on stdin and stdout: run_command, run_code, "
    "poll_run,\nwrite_stdin, cancel_run, and the tools of a file. The options above but for the "
    "last ones, which are\nthose of brig run alone, are what every run begins with and the most "
    "that an agent can ask for. It\nends with its stdin, and nothing of its runs is left.\n";

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
