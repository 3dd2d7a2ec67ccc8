/* The plan of a run, in words and as JSON: what would be enforced, how, and what would not. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "brig.h"
#include "host.h"
#include "plan.h"

#define STAGE "explain"

static void add_escaped(struct buf *out, const char *text)
{
    char safe[512];
    text_escape(text, strlen(text), safe, sizeof safe);
    buf_text(out, safe);
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
    add_escaped(out, plan->workdir_path);
    buf_printf(out, "\ntier       %s\n\nlayers\n", plan->tier);
    for (size_t i = 0; i < plan->layer_count; i++) {
        const struct brig_layer *layer = &plan->layers[i];
        buf_printf(out, "  %-13s %s%s\n", layer->name, layer->how, states[layer->state]);
    }
    buf_text(out, "\nin the child, before the command is executed\n");
    for (uint32_t i = 0; i < plan->op_count; i++) {
        char what[400];
        plan_describe_op(plan, &plan->ops[i], what, sizeof what);
        buf_printf(out, "  %2u. ", i + 1);
        add_escaped(out, what);
        buf_text(out, "\n");
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
    jsonw_text(&w, "workdir", plan->workdir_path);
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
    jsonw_open(&w, "operations", '[');
    for (uint32_t i = 0; i < plan->op_count; i++) {
        char what[400];
        plan_describe_op(plan, &plan->ops[i], what, sizeof what);
        jsonw_text(&w, NULL, what);
    }
    jsonw_close(&w, ']');
    jsonw_close(&w, '}');
    buf_text(out, "\n");
}

int brig_explain(struct brig *brig, const struct brig_spec *spec, bool json, char **out,
                 size_t *len, struct brig_error *err)
{
    struct plan plan;
    struct buf text;
    int ret = plan_make(&plan, brig, spec, err);
    if (ret < 0)
        return ret;
    buf_init(&text, 8u << 20);
    if (json)
        explain_json(&plan, &text);
    else
        explain_text(&plan, &text);
    plan_done(&plan);
    int failed = buf_failed(&text);
    char *taken = buf_take(&text, len);
    if (!taken)
        return error_system(err, STAGE, failed ? -failed : ENOMEM, "cannot write the plan: %s",
                            strerror(failed ? -failed : ENOMEM));
    *out = taken;
    return 0;
}

void brig_escape(const char *bytes, size_t len, char *out, size_t size)
{
    text_escape(bytes, len, out, size);
}
