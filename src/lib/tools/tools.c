/* SPDX-License-Identifier: MIT */
/* Reads a tools file. */
#include "tools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/jsonw.h"
#include "base/text.h"

#define STAGE    "tools"
#define NAME_MAX 64
#define ANY_ARGS "{\"type\":\"object\"}"

/* The beginning of a text, for a message. */
#define SHOWN(text) (int)text_cut(text, 80), text

/* The state while one tool is read. */
struct reading {
    const struct brig_tools *tools;
    const struct jsonr *defaults; /* or NULL */
    struct tool *tool;
    char place[224]; /* "FILE: tool NAME" */
};

/* ---- the members that are not keys of a spec --------------------------------------------------
 */

static const char *const own_members[] = {
    "name",          "title",       "description", "input_schema",
    "output_schema", "annotations", "result",      "markers",
};

static bool is_own(const char *name)
{
    for (size_t i = 0; i < sizeof own_members / sizeof *own_members; i++) {
        if (strcmp(own_members[i], name) == 0)
            return true;
    }
    return false;
}

/* True for settings that brig itself makes for a call. */
static bool is_brigs(const char *name)
{
    return strcmp(name, "stdin") == 0 || strcmp(name, "channel") == 0;
}

static int read_text(const struct reading *r, const struct jsonr *tool, const char *name,
                     const char **out, struct brig_error *err)
{
    const struct jsonr *value = jsonr_get(tool, name);
    if (value && value->type != JSONR_STRING)
        return error_usage(err, STAGE, "%s: %s: is not a string", r->place, name);
    *out = value ? value->text : NULL;
    return 0;
}

static bool is_name(const char *name)
{
    size_t len = strlen(name);
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return len > 0 && len <= NAME_MAX && strspn(name, allowed) == len;
}

/* Read the name, which identifies the tool in messages; until then, its number does. */
static int read_name(struct reading *r, const struct jsonr *tool, size_t number,
                     struct brig_error *err)
{
    const char *name = NULL;
    snprintf(r->place, sizeof r->place, "%s: tool %zu", r->tools->name, number);
    if (tool->type != JSONR_OBJECT)
        return error_usage(err, STAGE, "%s: is not an object", r->place);
    int ret = read_text(r, tool, "name", &name, err);
    if (ret < 0)
        return ret;
    if (!name || !is_name(name))
        return error_usage(err, STAGE,
                           "%s: name: has to be 1 to %d letters, digits, '_', '-' and '.'",
                           r->place, NAME_MAX);
    snprintf(r->place, sizeof r->place, "%s: tool %s", r->tools->name, name);
    for (const struct tool *other = r->tools->items; other < r->tool; other++) {
        if (strcmp(other->told.name, name) == 0)
            return error_usage(err, STAGE, "%s: name: there are two of that name", r->place);
    }
    r->tool->told.name = name;
    return 0;
}

static int to_text(const struct jsonr *value, char **out, struct brig_error *err)
{
    struct buf buf;
    struct jsonw w;
    buf_init(&buf, BRIG_TOOLS_MAX * 6);
    jsonw_init(&w, &buf);
    jsonr_write(&w, NULL, value);
    *out = buf_take(&buf, NULL);
    return *out ? 0 : error_memory(err, STAGE);
}

/* Read a schema, and keep its text for callers. */
static int read_schema(const struct reading *r, const struct jsonr *tool, const char *name,
                       struct schema **schema, char **text, struct brig_error *err)
{
    char place[256];
    const struct jsonr *value = jsonr_get(tool, name);
    snprintf(place, sizeof place, "%s: %s", r->place, name);
    if (!value)
        return 0;
    if (value->type != JSONR_OBJECT)
        return error_usage(err, STAGE, "%s: is not an object", place);
    int ret = schema_new(schema, value, place, err);
    return ret < 0 ? ret : to_text(value, text, err);
}

static int read_markers(struct reading *r, const struct jsonr *tool, struct brig_error *err)
{
    const struct jsonr *value = jsonr_get(tool, "markers");
    if (!value)
        return 0;
    if (r->tool->result != TOOL_RESULT_MARKERS)
        return error_usage(err, STAGE, "%s: markers: only with \"result\": \"markers\"", r->place);
    const struct jsonr *first = value->type == JSONR_ARRAY ? value->first : NULL;
    const struct jsonr *second = first ? first->next : NULL;
    if (!second || second->next || first->type != JSONR_STRING || second->type != JSONR_STRING ||
        !first->len || !second->len)
        return error_usage(err, STAGE, "%s: markers: is not an array of two texts", r->place);
    r->tool->begin = first->text;
    r->tool->end = second->text;
    return 0;
}

static int read_result(struct reading *r, const struct jsonr *tool, struct brig_error *err)
{
    static const char *const names[] = {"channel", "markers", "stdout"};
    const char *name = NULL;
    int ret = read_text(r, tool, "result", &name, err);
    size_t i = 0;
    while (ret == 0 && name && i < 3 && strcmp(names[i], name) != 0)
        i++;
    if (ret == 0 && i == 3)
        return error_usage(err, STAGE, "%s: result: \"%.*s\" is not one of channel|markers|stdout",
                           r->place, SHOWN(name));
    r->tool->result = (enum tool_result)i;
    return ret == 0 ? read_markers(r, tool, err) : ret;
}

static int read_own(struct reading *r, const struct jsonr *tool, struct brig_error *err)
{
    struct tool *t = r->tool;
    const struct jsonr *annotations = jsonr_get(tool, "annotations");
    int ret = read_text(r, tool, "title", &t->told.title, err);
    if (ret == 0)
        ret = read_text(r, tool, "description", &t->told.description, err);
    if (ret == 0)
        ret = read_schema(r, tool, "input_schema", &t->input, &t->input_text, err);
    if (ret == 0)
        ret = read_schema(r, tool, "output_schema", &t->output, &t->output_text, err);
    if (ret == 0 && annotations && annotations->type != JSONR_OBJECT)
        ret = error_usage(err, STAGE, "%s: annotations: is not an object", r->place);
    if (ret == 0 && annotations)
        ret = to_text(annotations, &t->annotations_text, err);
    if (ret == 0)
        ret = read_result(r, tool, err);
    if (ret == 0 && t->output && t->result == TOOL_RESULT_STDOUT)
        ret =
            error_usage(err, STAGE, "%s: output_schema: not with \"result\": \"stdout\"", r->place);
    t->told.input_schema = t->input_text ? t->input_text : ANY_ARGS;
    t->told.output_schema = t->output_text;
    t->told.annotations = t->annotations_text;
    return ret;
}

/* ---- its spec ----------------------------------------------------------------------------------
 */

static int read_keys(const struct reading *r, const struct jsonr *object, const struct jsonr *over,
                     const char *place, struct brig_error *err)
{
    int ret = 0;
    for (const struct jsonr *m = object->first; m && ret == 0; m = m->next) {
        if ((over && jsonr_get(over, m->key)) || (!over && is_own(m->key)))
            continue; /* the tool overrides it, or it is not a key */
        if (is_brigs(m->key))
            return error_usage(err, STAGE, "%s: %s: is set by brig for each call", place, m->key);
        ret = spec_read_member(r->tool->spec, m, place, err);
    }
    return ret;
}

static int read_spec(const struct reading *r, const struct jsonr *tool, struct brig_error *err)
{
    char place[224];
    int ret = brig_spec_new(&r->tool->spec, err);
    if (ret == 0)
        brig_spec_share(r->tool->spec);
    if (ret == 0 && !jsonr_get(tool, "command"))
        ret = error_usage(err, STAGE, "%s: command: is missing", r->place);
    snprintf(place, sizeof place, "%s: defaults", r->tools->name);
    if (ret == 0 && r->defaults)
        ret = read_keys(r, r->defaults, tool, place, err);
    if (ret == 0)
        ret = read_keys(r, tool, NULL, r->place, err);
    if (ret == 0 && r->tool->result == TOOL_RESULT_CHANNEL)
        ret = brig_spec_set(r->tool->spec, "channel", "on", BRIG_FROM_OPTION, NULL, err);
    return ret;
}

/* ---- the file ----------------------------------------------------------------------------------
 */

static int check_top(const struct brig_tools *tools, struct brig_error *err)
{
    const struct jsonr *list = jsonr_get(tools->root, "tools");
    const struct jsonr *defaults = jsonr_get(tools->root, "defaults");
    for (const struct jsonr *m = tools->root->first; m; m = m->next) {
        if (strcmp(m->key, "tools") != 0 && strcmp(m->key, "defaults") != 0 &&
            strcmp(m->key, "$schema") != 0)
            return error_usage(err, STAGE,
                               "%s: %.*s: is not a key; there are tools, defaults and $schema",
                               tools->name, SHOWN(m->key));
    }
    if (!list || list->type != JSONR_ARRAY)
        return error_usage(err, STAGE, "%s: tools: %s", tools->name,
                           list ? "is not an array" : "is missing");
    if (defaults && defaults->type != JSONR_OBJECT)
        return error_usage(err, STAGE, "%s: defaults: is not an object", tools->name);
    for (const struct jsonr *m = defaults ? defaults->first : NULL; m; m = m->next) {
        if (is_own(m->key) || strcmp(m->key, "command") == 0)
            return error_usage(err, STAGE, "%s: defaults: %s: each tool has its own", tools->name,
                               m->key);
    }
    return 0;
}

static int read_tools(struct brig_tools *tools, struct brig_error *err)
{
    int ret = check_top(tools, err);
    if (ret < 0)
        return ret;
    const struct jsonr *list = jsonr_get(tools->root, "tools");
    tools->items = calloc(list->count + 1, sizeof *tools->items);
    if (!tools->items)
        return error_memory(err, STAGE);
    for (const struct jsonr *m = list->first; m && ret == 0; m = m->next) {
        struct reading r = {.tools = tools, .defaults = jsonr_get(tools->root, "defaults")};
        r.tool = &tools->items[tools->count++];
        ret = read_name(&r, m, tools->count, err);
        if (ret == 0)
            ret = read_own(&r, m, err);
        if (ret == 0)
            ret = read_spec(&r, m, err);
    }
    return ret;
}

int brig_tools_read(struct brig_tools **out, const char *text, size_t len, const char *name,
                    struct brig_error *err)
{
    struct brig_tools *tools = calloc(1, sizeof *tools);
    if (!tools)
        return error_memory(err, STAGE);
    size_t long_by = strlen(name) < sizeof tools->name ? 0 : strlen(name) - sizeof tools->name + 4;
    snprintf(tools->name, sizeof tools->name, "%s%s", long_by ? "..." : "", name + long_by);
    tools->root = jsonr_object(text, len, BRIG_TOOLS_MAX, tools->name, STAGE, err);
    int ret = tools->root ? read_tools(tools, err) : -errno;
    if (ret < 0) {
        brig_tools_free(tools);
        return ret;
    }
    *out = tools;
    return 0;
}

void brig_tools_free(struct brig_tools *tools)
{
    if (!tools)
        return;
    for (size_t i = 0; i < tools->count; i++) {
        struct tool *tool = &tools->items[i];
        free(tool->input_text);
        free(tool->output_text);
        free(tool->annotations_text);
        schema_free(tool->input);
        schema_free(tool->output);
        brig_spec_free(tool->spec);
    }
    free(tools->items);
    jsonr_free(tools->root);
    free(tools);
}

size_t brig_tools_count(const struct brig_tools *tools)
{
    return tools->count;
}

const struct brig_tool *brig_tools_get(const struct brig_tools *tools, size_t index)
{
    return index < tools->count ? &tools->items[index].told : NULL;
}

const struct brig_spec *brig_tools_spec(const struct brig_tools *tools, size_t index)
{
    return index < tools->count ? tools->items[index].spec : NULL;
}

void brig_tools_bound(struct brig_tools *tools, const struct brig_spec *spec)
{
    for (size_t i = 0; i < tools->count; i++) {
        for (int key = 0; key < KEY_COUNT; key++) {
            const struct spec_value *value = &tools->items[i].spec->values[key];
            const struct spec_value *most = &spec->values[key];
            if (!key_is_bounded(&key_table[key]) || !key_is_number(&key_table[key]) ||
                !spec_asked(spec, (enum key)key))
                continue;
            if (!value->set || value->number > most->number)
                spec_set_number(tools->items[i].spec, (enum key)key, most->number);
        }
    }
}

const struct tool *tools_find(const struct brig_tools *tools, const char *name)
{
    for (size_t i = 0; i < tools->count; i++) {
        if (strcmp(tools->items[i].told.name, name) == 0)
            return &tools->items[i];
    }
    return NULL;
}

int brig_tools_check(const struct brig_tools *tools, size_t index, struct brig *brig,
                     struct brig_error *err)
{
    struct brig_error local = {0};
    char *plan = NULL;
    size_t len = 0;
    if (index >= tools->count)
        return error_usage(err, STAGE, "%s: there are only %zu tools", tools->name, tools->count);
    const struct tool *tool = &tools->items[index];
    int ret = brig_explain(brig, tool->spec, false, &plan, &len, &local);
    free(plan);
    if (ret == 0)
        return 0;
    bool command = local.fault == BRIG_FAULT_NOT_FOUND || local.fault == BRIG_FAULT_NOT_EXECUTABLE;
    return error_set(err, local.fault, local.stage, local.errnum, "%s: tool %s: %s%.300s",
                     tools->name, tool->told.name, command ? "command: " : "", local.text);
}
