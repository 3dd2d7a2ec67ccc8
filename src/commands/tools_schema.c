/* SPDX-License-Identifier: MIT */
/* The JSON Schema of tools files. */
#include "tools_schema.h"

#include <stdio.h>
#include <string.h>

#include "base/jsonw.h"
#include "brig.h"

static void add_type(struct jsonw *w, const char *type)
{
    jsonw_text(w, "type", type);
}

static void open_property(struct jsonw *w, const char *name, const char *type, const char *help)
{
    jsonw_open(w, name, '{');
    jsonw_text(w, "description", help);
    if (type)
        add_type(w, type);
}

static void add_text(struct jsonw *w, const char *name, const char *help)
{
    open_property(w, name, "string", help);
    jsonw_close(w, '}');
}

static void add_items(struct jsonw *w, const char *name, const char *type)
{
    jsonw_open(w, name, '{');
    add_type(w, type);
    jsonw_close(w, '}');
}

static void add_choices(struct jsonw *w, const char *choices)
{
    jsonw_open(w, "enum", '[');
    while (*choices) {
        char word[32];
        size_t len = strcspn(choices, "|");
        snprintf(word, sizeof word, "%.*s", (int)len, choices);
        jsonw_text(w, NULL, word);
        choices += len + (choices[len] == '|');
    }
    jsonw_close(w, ']');
}

static void add_types(struct jsonw *w, const char *first, const char *second)
{
    jsonw_open(w, "type", '[');
    jsonw_text(w, NULL, first);
    jsonw_text(w, NULL, second);
    jsonw_close(w, ']');
}

/* An entry of a list: its text form, or an object with its two parts. */
static void add_entries(struct jsonw *w, const char *second)
{
    jsonw_open(w, "items", '{');
    add_types(w, "string", "object");
    jsonw_open(w, "required", '[');
    jsonw_text(w, NULL, "path");
    jsonw_close(w, ']');
    jsonw_bool(w, "additionalProperties", false);
    jsonw_open(w, "properties", '{');
    add_items(w, "path", "string");
    add_items(w, second, "string");
    jsonw_close(w, '}');
    jsonw_close(w, '}');
}

static void add_key(struct jsonw *w, const struct brig_key *key)
{
    open_property(w, key->name, NULL, key->help);
    switch (key->type) {
    case BRIG_TYPE_SIZE:
    case BRIG_TYPE_DURATION:
    case BRIG_TYPE_COUNT:
    case BRIG_TYPE_CPUS:
        add_types(w, "string", "number");
        break;
    case BRIG_TYPE_CHOICE:
        add_choices(w, key->choices);
        break;
    case BRIG_TYPE_PATH:
    case BRIG_TYPE_TEXT:
        add_type(w, "string");
        break;
    case BRIG_TYPE_LIST:
        add_type(w, "array");
        if (key->second)
            add_entries(w, key->second);
        else
            add_items(w, "items", "string");
        break;
    case BRIG_TYPE_MAP:
        add_types(w, "object", "array");
        break;
    }
    if (key->initial)
        jsonw_text(w, "default", key->shared ? key->shared : key->initial);
    jsonw_close(w, '}');
}

/* The keys of a tool, or of the defaults of all tools. */
static void add_keys(struct jsonw *w)
{
    size_t count;
    const struct brig_key *keys = brig_keys(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i].name, "stdin") != 0 && strcmp(keys[i].name, "channel") != 0)
            add_key(w, &keys[i]);
    }
}

static void add_own(struct jsonw *w)
{
    open_property(w, "name", "string", "what it is called by");
    jsonw_text(w, "pattern", "^[A-Za-z0-9_.-]{1,64}$");
    jsonw_close(w, '}');
    add_text(w, "title", "its name for people");
    add_text(w, "description", "what it does, for those who choose");
    open_property(w, "input_schema", "object", "JSON Schema of its arguments; else any object");
    jsonw_close(w, '}');
    open_property(w, "output_schema", "object", "JSON Schema of its output; else anything");
    jsonw_close(w, '}');
    open_property(w, "annotations", "object", "passed on to agents as it is");
    jsonw_close(w, '}');
    open_property(w, "result", NULL, "where its result comes from");
    add_choices(w, "channel|markers|stdout");
    jsonw_text(w, "default", "channel");
    jsonw_close(w, '}');
    open_property(w, "markers", "array", "fixed markers around what it prints; can be forged");
    add_items(w, "items", "string");
    jsonw_int(w, "minItems", 2);
    jsonw_int(w, "maxItems", 2);
    jsonw_close(w, '}');
    open_property(w, "command", "array", "what is executed, and its arguments");
    add_items(w, "items", "string");
    jsonw_int(w, "minItems", 1);
    jsonw_close(w, '}');
}

static void add_tool(struct jsonw *w)
{
    jsonw_open(w, "items", '{');
    add_type(w, "object");
    jsonw_open(w, "required", '[');
    jsonw_text(w, NULL, "name");
    jsonw_text(w, NULL, "command");
    jsonw_close(w, ']');
    jsonw_bool(w, "additionalProperties", false);
    jsonw_open(w, "properties", '{');
    add_own(w);
    add_keys(w);
    jsonw_close(w, '}');
    jsonw_close(w, '}');
}

void tools_schema_write(struct buf *out)
{
    struct jsonw w;
    jsonw_init(&w, out);
    jsonw_open(&w, NULL, '{');
    jsonw_text(&w, "$schema", "https://json-schema.org/draft/2020-12/schema");
    jsonw_text(&w, "title", "brig tools file");
    add_type(&w, "object");
    jsonw_open(&w, "required", '[');
    jsonw_text(&w, NULL, "tools");
    jsonw_close(&w, ']');
    jsonw_bool(&w, "additionalProperties", false);
    jsonw_open(&w, "properties", '{');
    add_text(&w, "$schema", "this schema");
    open_property(&w, "defaults", "object", "settings of every tool that does not set them itself");
    jsonw_bool(&w, "additionalProperties", false);
    jsonw_open(&w, "properties", '{');
    add_keys(&w);
    jsonw_close(&w, '}');
    jsonw_close(&w, '}');
    open_property(&w, "tools", "array", "the tools");
    add_tool(&w);
    jsonw_close(&w, '}');
    jsonw_close(&w, '}');
    jsonw_close(&w, '}');
    buf_text(out, "\n");
}
