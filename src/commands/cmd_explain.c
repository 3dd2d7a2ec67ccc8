/* SPDX-License-Identifier: MIT */
/* brig explain and brig run --dry-run: print the plan of a run without starting it. */
#include <stdio.h>
#include <unistd.h>

#include "brig.h"
#include "commands.h"
#include "cmd_explain.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/target.h"
#include "cli/term.h"

int explain_spec(const struct brig_spec *spec, bool json)
{
    struct brig *brig = NULL;
    struct brig_error err;
    char *text = NULL;
    size_t len = 0;
    int ret = brig_open(&brig, &err);
    if (ret == 0)
        ret = brig_explain(brig, spec, json, &text, &len, &err);
    brig_close(brig);
    if (ret < 0) {
        term_advise(&err, "--isolation auto");
        term_error(&err);
        return brig_error_exit_code(&err);
    }
    ret = target_write(STDOUT_FILENO, text, len, TARGET_PATIENCE);
    brig_free(text);
    return ret < 0 ? 125 : 0;
}

int cmd_explain(int argc, char **argv)
{
    struct run_options options;
    struct brig_error err;
    if (options_read(&options, argc, argv, &err) < 0) {
        term_error(&err);
        return brig_error_exit_code(&err);
    }
    int code = 0;
    if (options.help)
        options_help(stdout);
    else
        code = explain_spec(options.spec, options.json);
    options_done(&options);
    return code;
}
