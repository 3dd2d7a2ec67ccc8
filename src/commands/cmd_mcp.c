/* SPDX-License-Identifier: MIT */
/* brig mcp: the command line of the MCP server, which is in src/mcp. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/units.h"
#include "brig.h"
#include "commands.h"
#include "cli/help.h"
#include "mcp/mcp.h"
#include "cli/options.h"
#include "cli/supervise.h"
#include "cli/term.h"
#include "cli/words.h"

#define STAGE "command line"

static const char usage[] =
    "usage: brig mcp [--tools FILE] [options of brig run]\n"
    "\n"
    "An MCP (Model Context Protocol) server on stdin and stdout, with run_command, run_code\n"
    "and the tools of a file. The options of brig run apply to every run, and an agent cannot\n"
    "exceed them: --timeout 10m, --memory 4G, --network host, --ro /data, --workdir DIR.\n"
    "\n";

enum own { OWN_TOOLS, OWN_YIELD, OWN_MAX_RUNS, OWN_KEEP, OWN_VERBOSE, OWN_HELP, OWN_COUNT };

const struct own_option mcp_own_options[] = {
    [OWN_TOOLS] = {"tools", 't', "FILE", "a tools file (JSON) with tools of your own"},
    [OWN_YIELD] = {"yield", 0, "TIME",
                   "answer that a run is still running after this time (" MCP_YIELD ")"},
    [OWN_MAX_RUNS] = {"max-runs", 0, "N", "number of parallel runs (8, at most 64)"},
    [OWN_KEEP] = {"keep", 0, "SIZE", "output kept per run (" MCP_KEEP ", at most 512K)"},
    [OWN_VERBOSE] = {"verbose", 'v', NULL, "print the number of runs at the end"},
    [OWN_HELP] = {"help", 'h', NULL, "show this help"},
};
const size_t mcp_own_option_count = OWN_COUNT;

struct session {
    const char *values[OWN_COUNT]; /* "" for options without an argument */
    struct supervisor supervisor;
    struct brig_spec *spec;
    struct brig_tools *tools;
    struct mcp_options options;
};

static void set(void *to, size_t option, const char *value)
{
    struct session *s = to;
    s->values[option] = value ? value : "";
}

static int bad_value(const struct session *s, enum own option, const char *why,
                     struct brig_error *err)
{
    return error_usage(err, STAGE, "--%s: \"%.80s\" %s", mcp_own_options[option].option,
                       s->values[option], why);
}

static int read_numbers(struct session *s, struct brig_error *err)
{
    const char *const *v = s->values;
    uint64_t runs = MCP_MAX_RUNS, keep = 0;
    const char *why =
        units_parse_duration(v[OWN_YIELD] ? v[OWN_YIELD] : MCP_YIELD, &s->options.yield_ns);
    if (why)
        return bad_value(s, OWN_YIELD, why, err);
    why = v[OWN_MAX_RUNS] ? units_parse_count(v[OWN_MAX_RUNS], &runs) : NULL;
    if (!why && runs > MCP_RUNS_MAX)
        why = "is over 64";
    if (why)
        return bad_value(s, OWN_MAX_RUNS, why, err);
    why = units_parse_size(v[OWN_KEEP] ? v[OWN_KEEP] : MCP_KEEP, &keep);
    if (!why && keep > MCP_KEEP_MAX)
        why = "is over 512K: clients refuse longer messages";
    if (why)
        return bad_value(s, OWN_KEEP, why, err);
    s->options.max_runs = (unsigned)runs;
    s->options.keep = (size_t)keep;
    return 0;
}

static int read_tools(struct session *s, struct brig_error *err)
{
    autofree char *text = NULL;
    size_t len = 0;
    const char *path = s->values[OWN_TOOLS];
    if (!path)
        return 0;
    if (strcmp(path, "-") == 0)
        return error_usage(err, STAGE,
                           "--tools: stdin is the connection to the client; name a file");
    int ret = words_file(path, "--tools", BRIG_TOOLS_MAX, &text, &len, err);
    return ret < 0 ? ret : brig_tools_read(&s->tools, text, len, path, err);
}

static int check_spec(const struct session *s, struct brig_error *err)
{
    char *input = brig_spec_get(s->spec, "stdin");
    int ret =
        input ? error_usage(err, STAGE, "--stdin: is set for each run, by the agent; leave it out")
              : 0;
    brig_free(input);
    return ret;
}

static int prepare(struct session *s, int argc, char **argv, struct brig_error *err)
{
    int ret = brig_spec_new(&s->spec, err);
    const struct option_set options = {mcp_own_options, OWN_COUNT, set, s, s->spec};
    if (ret == 0)
        brig_spec_share(s->spec);
    if (ret == 0)
        ret = options_read_set(&options, argc, argv, err);
    if (ret < 0 || s->values[OWN_HELP])
        return ret;
    ret = read_numbers(s, err);
    if (ret == 0)
        ret = check_spec(s, err);
    if (ret == 0)
        ret = read_tools(s, err);
    if (ret == 0 && s->tools)
        brig_tools_bound(s->tools, s->spec);
    if (ret == 0 && s->tools)
        ret = brig_tools_guard(s->tools, s->values[OWN_TOOLS], s->spec, err);
    return ret == 0 ? supervise_prepare(&s->supervisor, err) : ret;
}

static int serve(struct session *s, struct brig_error *err)
{
    struct mcp_counts counts = {0};
    s->options.spec = s->spec;
    s->options.tools = s->tools;
    s->options.degraded = term_degraded;
    s->options.signals = s->supervisor.signals;
    int ret = mcp_serve(&s->options, &counts, err);
    supervise_failed(&s->supervisor); /* ends processes that a guest may have left to us */
    if (ret == 0 && s->values[OWN_VERBOSE])
        term_message("mcp: %llu runs, %llu of them in cells that were built ahead",
                     (unsigned long long)counts.runs, (unsigned long long)counts.warm);
    return ret;
}

static void show_help(void)
{
    fputs(usage, stdout);
    for (size_t i = 0; i < OWN_COUNT; i++)
        help_option(stdout, mcp_own_options[i].option, mcp_own_options[i].letter,
                    mcp_own_options[i].argument, mcp_own_options[i].help, "");
}

int cmd_mcp(int argc, char **argv)
{
    struct session s = {.supervisor = SUPERVISOR_NONE};
    struct brig_error err;
    int ret = prepare(&s, argc, argv, &err);
    if (ret == 0 && s.values[OWN_HELP])
        show_help();
    else if (ret == 0)
        ret = serve(&s, &err);
    if (ret < 0)
        term_error(&err);
    brig_tools_free(s.tools);
    brig_spec_free(s.spec);
    supervise_done(&s.supervisor);
    return ret < 0 ? brig_error_exit_code(&err) : 0;
}
