/* SPDX-License-Identifier: MIT */
/* brig call: call a tool once, print its answer as JSON and set the exit code. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "brig.h"
#include "commands.h"
#include "cli/supervise.h"
#include "cli/target.h"
#include "cli/term.h"
#include "cli/words.h"

#define STAGE "command line"

static const char usage[] =
    "usage: brig call TOOL [--args JSON] --tools FILE\n"
    "\n"
    "Call a tool of a tools file: check its arguments, run it with the settings of the file,\n"
    "and print its answer as one line of JSON: call_id, ok, output, error, denied, reason,\n"
    "duration_ms and the result of the run.\n"
    "\n";

/* The state of one `brig call`. */
struct call_options {
    const char *tools, *args, *id, *tool;
    bool quiet, die_with_parent, help;
};

struct session {
    struct call_options options;
    struct supervisor supervisor;
    struct brig *brig;
    struct brig_tools *tools;
    struct brig_call *call;
};

static int read_options(struct call_options *o, int argc, char **argv, struct brig_error *err)
{
    const struct word words[] = {
        {"tools", 't', "FILE", "the tools file (JSON)", &o->tools, NULL},
        {"args", 'a', "JSON", "the arguments; @FILE reads a file, - stdin (default none)", &o->args,
         NULL},
        {"call-id", 0, "ID", "an id for this call (default: generated)", &o->id, NULL},
        {"die-with-parent", 0, NULL, "end the call when the process that started brig is gone",
         NULL, &o->die_with_parent},
        {"quiet", 'q', NULL, "print only the answer, no message about a failure", NULL, &o->quiet},
        {"help", 'h', NULL, "show this help", NULL, &o->help},
    };
    size_t count = sizeof words / sizeof *words;
    const char *tool = NULL;
    int found = words_read(words, count, argc, argv, &tool, 1, err);
    if (found < 0)
        return found;
    if (o->help) {
        words_help(stdout, usage, words, count);
        return 0;
    }
    if (found == 0)
        return error_usage(err, STAGE, "no tool; see brig call --help");
    if (!o->tools)
        return error_usage(err, STAGE, "no tools file; use --tools FILE");
    o->tool = tool;
    return 0;
}

static int read_tools(struct session *s, struct brig_error *err)
{
    autofree char *text = NULL;
    size_t len = 0;
    const char *path = s->options.tools;
    int ret = words_file(path, "--tools", BRIG_TOOLS_MAX, &text, &len, err);
    if (ret < 0)
        return ret;
    bool own = strcmp(path, "-") == 0;
    ret = brig_tools_read(&s->tools, text, len, own ? "stdin" : path, err);
    return ret < 0 ? ret : brig_tools_guard(s->tools, own ? NULL : path, NULL, err);
}

static int start(struct session *s, struct brig_error *err)
{
    const char *args = s->options.args ? s->options.args : "";
    autofree char *text = NULL;
    size_t len = strlen(args);
    int ret = 0;
    if (args[0] == '@' || strcmp(args, "-") == 0) {
        ret = words_file(args + (args[0] == '@'), "--args", BRIG_ARGS_MAX, &text, &len, err);
        args = text;
    }
    if (ret == 0)
        ret = read_tools(s, err);
    if (ret == 0)
        ret = supervise_prepare(&s->supervisor, err);
    if (ret == 0 && s->options.die_with_parent)
        ret = supervise_parent(&s->supervisor, err);
    if (ret == 0)
        ret = brig_open(&s->brig, err);
    if (ret == 0)
        ret = brig_call_start(s->brig, s->tools, s->options.tool, args, len, s->options.id,
                              &s->call, err);
    return ret;
}

static int print(const struct session *s, char *text, size_t len)
{
    int ret = target_write(STDOUT_FILENO, text, len, supervise_patience(&s->supervisor, 0));
    brig_free(text);
    if (ret < 0)
        term_message("cannot write the answer: %s", error_text(-ret));
    return ret;
}

/* Print the answer for a call that could not be started. */
static int tell_refusal(const struct session *s, const struct brig_error *failed)
{
    struct brig_error err;
    char *text = NULL;
    size_t len = 0;
    if (!s->options.quiet)
        term_error(failed);
    if (brig_call_error_json(s->options.tool, s->options.id, failed, &text, &len, &err) < 0) {
        term_error(&err);
        return 125;
    }
    return print(s, text, len) < 0 ? 125 : brig_error_exit_code(failed);
}

static int tell_answer(struct session *s)
{
    struct brig_error err;
    char *text = NULL;
    size_t len = 0;
    const struct brig_result *result = brig_run_result(brig_call_run(s->call));
    const struct brig_answer *answer = brig_call_answer(s->call);
    if (brig_call_json(s->call, &text, &len, &err) < 0) {
        term_error(&err);
        return 125;
    }
    if (print(s, text, len) < 0)
        return 125;
    if (answer->ok)
        return 0;
    if (!s->options.quiet) {
        char error[1024];
        brig_escape(answer->error, strlen(answer->error), error, sizeof error);
        term_message("%s: %s", s->options.tool, error);
    }
    if (result->status == BRIG_CANCELLED && s->supervisor.caught)
        return 128 + s->supervisor.caught;
    int code = brig_result_exit_code(result);
    return code ? code : 1; /* the run ended well, but the tool reports a failure */
}

int cmd_call(int argc, char **argv)
{
    struct session s = {.supervisor = SUPERVISOR_NONE};
    struct brig_error err;
    int code = 0;
    if (read_options(&s.options, argc, argv, &err) < 0) {
        term_error(&err);
        return brig_error_exit_code(&err);
    }
    if (s.options.help)
        return 0;
    if (start(&s, &err) < 0) {
        supervise_failed(&s.supervisor);
        term_advise(&err, "\"isolation\": \"auto\" in the tools file");
        code = tell_refusal(&s, &err);
    } else {
        if (brig_run_degraded(brig_call_run(s.call)))
            term_degraded(brig_run_degraded(brig_call_run(s.call)));
        supervise_run(&s.supervisor, brig_call_run(s.call), NULL);
        code = tell_answer(&s);
    }
    brig_call_free(s.call);
    brig_close(s.brig);
    brig_tools_free(s.tools);
    supervise_done(&s.supervisor);
    return code;
}
