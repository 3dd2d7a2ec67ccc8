/* SPDX-License-Identifier: MIT */
/* brig tools: list the tools of a tools file, and check whether each could be run on this host. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/jsonw.h"
#include "brig.h"
#include "commands.h"
#include "cli/target.h"
#include "cli/term.h"
#include "tools_schema.h"
#include "cli/words.h"

#define STAGE "command line"

static const char usage[] =
    "usage: brig tools [--json] FILE\n"
    "       brig tools --schema\n"
    "\n"
    "List the tools of a tools file and check each: its schema, its settings, and that its\n"
    "command exists and is in its view. No tool is started. Exit code: 0 if all tools pass,\n"
    "else the code of the first one that fails.\n"
    "\n";

static void list_text(struct buf *out, const struct brig_tool *tool, const struct brig_error *wrong)
{
    char description[512] = "";
    if (tool->description)
        brig_escape(tool->description, strcspn(tool->description, "\n"), description,
                    sizeof description);
    buf_printf(out, "%-7s %-24s %s\n", wrong ? "WRONG" : "ok", tool->name, description);
    if (wrong)
        buf_printf(out, "        %s\n", wrong->text);
}

static void list_json(struct jsonw *w, const struct brig_tool *tool, const struct brig_error *wrong)
{
    const char *const names[] = {"input_schema", "output_schema", "annotations"};
    const char *const texts[] = {tool->input_schema, tool->output_schema, tool->annotations};
    jsonw_open(w, NULL, '{');
    jsonw_text(w, "name", tool->name);
    jsonw_text(w, "title", tool->title);
    jsonw_text(w, "description", tool->description);
    for (size_t i = 0; i < 3; i++) {
        if (texts[i])
            jsonw_raw(w, names[i], texts[i], strlen(texts[i]));
        else
            jsonw_null(w, names[i]);
    }
    jsonw_bool(w, "ok", !wrong);
    jsonw_text(w, "error", wrong ? wrong->text : NULL);
    jsonw_close(w, '}');
}

static int print(struct buf *out)
{
    int ret = buf_failed(out);
    if (ret == 0)
        ret = target_write(STDOUT_FILENO, out->data, out->len, TARGET_PATIENCE);
    if (ret < 0)
        term_message("cannot write the list: %s", error_text(-ret));
    buf_done(out);
    return ret < 0 ? 125 : 0;
}

/* Returns the exit code. */
static int list(struct brig *brig, const struct brig_tools *tools, bool json)
{
    struct buf out;
    struct jsonw w;
    int code = 0;
    buf_init(&out, BRIG_TOOLS_MAX * 8u);
    jsonw_init(&w, &out);
    if (json)
        jsonw_open(&w, NULL, '[');
    for (size_t i = 0; i < brig_tools_count(tools); i++) {
        struct brig_error err = {0};
        bool wrong = brig_tools_check(tools, i, brig, &err) < 0;
        if (wrong)
            term_advise(&err, "\"isolation\": \"auto\" in the file");
        if (json)
            list_json(&w, brig_tools_get(tools, i), wrong ? &err : NULL);
        else
            list_text(&out, brig_tools_get(tools, i), wrong ? &err : NULL);
        if (wrong && !code)
            code = brig_error_exit_code(&err);
    }
    if (json) {
        jsonw_close(&w, ']');
        buf_text(&out, "\n");
    }
    return print(&out) ? 125 : code;
}

static int print_schema(void)
{
    struct buf out;
    buf_init(&out, 1u << 20);
    tools_schema_write(&out);
    return print(&out);
}

int cmd_tools(int argc, char **argv)
{
    bool json = false, schema = false, help = false;
    const struct word words[] = {
        {"json", 0, NULL, "print a JSON array, with the schemas", NULL, &json},
        {"schema", 0, NULL, "print the JSON Schema of such a file", NULL, &schema},
        {"help", 'h', NULL, "show this help", NULL, &help},
    };
    size_t count = sizeof words / sizeof *words;
    const char *path = NULL;
    struct brig_error err;
    autofree char *text = NULL;
    size_t len = 0;
    struct brig_tools *tools = NULL;
    struct brig *brig = NULL;
    int ret = words_read(words, count, argc, argv, &path, 1, &err);
    if (ret >= 0 && help) {
        words_help(stdout, usage, words, count);
        return 0;
    }
    if (ret >= 0 && schema)
        return print_schema();
    if (ret == 0)
        ret = error_usage(&err, STAGE, "no file; see brig tools --help");
    if (ret > 0)
        ret = words_file(path, "tools", BRIG_TOOLS_MAX, &text, &len, &err);
    if (ret == 0)
        ret = brig_tools_read(&tools, text, len, strcmp(path, "-") == 0 ? "stdin" : path, &err);
    if (ret == 0)
        ret = brig_tools_guard(tools, strcmp(path, "-") == 0 ? NULL : path, NULL, &err);
    if (ret == 0)
        ret = brig_open(&brig, &err);
    int code = ret == 0 ? list(brig, tools, json) : brig_error_exit_code(&err);
    if (ret < 0)
        term_error(&err);
    brig_close(brig);
    brig_tools_free(tools);
    return code;
}
