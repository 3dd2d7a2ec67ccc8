/* SPDX-License-Identifier: MIT */
/* Implements brig_explain(): prints the plan of a run as text or JSON, with the layers that are
 * enforced and those that are missing. It starts one trial run, but never the caller's command. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "brig.h"
#include "lib/plan/host.h"
#include "lib/plan/plan.h"
#include "lib/redact/redact_json.h"

#define TEXT_MAX (8u << 20)

#define STAGE "explain"

static void add_escaped(struct buf *out, const char *text)
{
    char safe[512];
    text_escape(text, strlen(text), safe, sizeof safe);
    buf_text(out, safe);
}

static void add_step(struct buf *out, uint32_t number, const char *what)
{
    buf_printf(out, "  %3u. ", number);
    add_escaped(out, what);
    buf_text(out, "\n");
}

static void explain_text(const struct plan *plan, struct buf *out)
{
    static const char *const states[] = {"", " (off)", " (MISSING)"};
    buf_text(out, "run        ");
    for (size_t i = 2; i < plan->argv.count; i++) {
        add_escaped(out, plan->argv.items[i]);
        buf_text(out, i + 1 < plan->argv.count ? " " : "\n");
    }
    buf_text(out, "execute    ");
    add_escaped(out, plan->path);
    buf_text(out, "\nin         ");
    add_escaped(out, plan->cell.used ? plan->cell.start : plan->workdir_path);
    buf_printf(out, "\ntier       %s\n\nlayers\n", plan->tier);
    for (size_t i = 0; i < plan->layer_count; i++) {
        const struct brig_layer *layer = &plan->layers[i];
        buf_printf(out, "  %-13s %s%s\n", layer->name, layer->how, states[layer->state]);
    }
    char what[400];
    uint32_t number = 0;
    buf_text(out, "\nto build the cell\n");
    for (uint32_t i = 0; i < plan->cell.view.count; i++) {
        cell_describe(&plan->cell.view.ops[i], what, sizeof what);
        add_step(out, ++number, what);
    }
    buf_text(out, "\nin the child, before the command is executed\n");
    for (uint32_t i = 0; i < plan->op_count; i++) {
        plan_describe_op(plan, &plan->ops[i], what, sizeof what);
        add_step(out, ++number, what);
    }
}

static void explain_json(const struct plan *plan, struct buf *out)
{
    static const char *const states[] = {"applied", "off", "missing"};
    struct jsonw w;
    jsonw_init(&w, out);
    jsonw_open(&w, NULL, '{');
    jsonw_text(&w, "schema", "brig.plan/1");
    jsonw_open(&w, "command", '[');
    for (size_t i = 2; i < plan->argv.count; i++)
        jsonw_text(&w, NULL, plan->argv.items[i]);
    jsonw_close(&w, ']');
    jsonw_text(&w, "execute", plan->path);
    jsonw_text(&w, "workdir", plan->cell.used ? plan->cell.start : plan->workdir_path);
    jsonw_text(&w, "tier", plan->tier);
    jsonw_open(&w, "layers", '[');
    for (size_t i = 0; i < plan->layer_count; i++) {
        jsonw_open(&w, NULL, '{');
        jsonw_text(&w, "name", plan->layers[i].name);
        jsonw_text(&w, "state", states[plan->layers[i].state]);
        jsonw_text(&w, "how", plan->layers[i].how);
        jsonw_close(&w, '}');
    }
    jsonw_close(&w, ']');
    char what[400];
    jsonw_open(&w, "operations", '[');
    for (uint32_t i = 0; i < plan->cell.view.count; i++) {
        cell_describe(&plan->cell.view.ops[i], what, sizeof what);
        jsonw_text(&w, NULL, what);
    }
    for (uint32_t i = 0; i < plan->op_count; i++) {
        plan_describe_op(plan, &plan->ops[i], what, sizeof what);
        jsonw_text(&w, NULL, what);
    }
    jsonw_close(&w, ']');
    jsonw_close(&w, '}');
    buf_text(out, "\n");
}

/* Find out whether a cell can be built here by building one. A host without /bin/true is not an
 * error. */
static int try_cell(struct brig *brig, struct brig_error *err)
{
    const char *argv[] = {"/bin/true"};
    struct brig_spec *spec = NULL;
    struct brig_run *run = NULL;
    int ret = brig_spec_new(&spec, err);
    if (ret == 0)
        ret = brig_spec_set_command(spec, argv, 1, err);
    if (ret == 0)
        ret = brig_spec_set(spec, "workdir", "/tmp", BRIG_FROM_OPTION, NULL, err);
    if (ret == 0)
        ret = brig_start(brig, spec, &run, err);
    if (ret == 0)
        brig_run_wait(run, 5000);
    brig_run_free(run);
    brig_spec_free(spec);
    return ret < 0 && !brig->no_cell[0] && err->fault == BRIG_FAULT_SYSTEM ? ret : 0;
}

static void hide_secrets(struct buf *text, const struct redact_rules *rules, bool json)
{
    struct buf shown;
    uint64_t count = 0;
    buf_init(&shown, TEXT_MAX);
    int ret = json ? redact_json(rules, text->data, text->len, &shown, &count)
                   : redact_text(rules, text->data, text->len, &shown, &count);
    buf_done(text);
    *text = shown;
    if (ret < 0)
        text->failed = -ret;
}

int brig_explain(struct brig *brig, const struct brig_spec *spec, bool json, char **out,
                 size_t *len, struct brig_error *err)
{
    struct plan plan;
    struct buf text;
    struct brig_error local = {0};
    err = err ? err : &local;
    int ret = try_cell(brig, err);
    if (ret < 0)
        return ret;
    if (brig->no_cell[0])
        ret = plan_may_degrade(brig, spec, brig->no_cell, err);
    if (ret < 0)
        return ret;
    ret = plan_make(&plan, brig, spec, brig->no_cell[0] ? brig->no_cell : NULL, err);
    if (ret < 0) {
        spec_hide_error(spec, err);
        return ret;
    }
    buf_init(&text, TEXT_MAX);
    if (json)
        explain_json(&plan, &text);
    else
        explain_text(&plan, &text);
    if (plan.rules && !text.failed)
        hide_secrets(&text, plan.rules, json);
    plan_done(&plan);
    int failed = buf_failed(&text);
    char *taken = buf_take(&text, len);
    if (!taken)
        return error_system(err, STAGE, failed ? -failed : ENOMEM, "cannot write the plan: %s",
                            error_text(failed ? -failed : ENOMEM));
    *out = taken;
    return 0;
}

void brig_escape(const char *bytes, size_t len, char *out, size_t size)
{
    text_escape(bytes, len, out, size);
}
