/* SPDX-License-Identifier: MIT */
/* Tools: commands that an operator lets others call, read from a JSON file. A tool is a spec with a
 * name, a schema for its arguments and a way to return its result. call.c calls them. */
#ifndef LIB_TOOLS_H
#define LIB_TOOLS_H

#include "base/jsonr.h"
#include "brig.h"
#include "schema.h"
#include "lib/spec/spec.h"

enum tool_result {
    TOOL_RESULT_CHANNEL, /* an envelope on the result channel */
    TOOL_RESULT_MARKERS, /* an envelope on stdout, between two markers */
    TOOL_RESULT_STDOUT,  /* all of its stdout is the output */
};

struct tool {
    struct brig_tool told; /* the description for callers */
    char *input_text, *output_text, *annotations_text;
    struct schema *input, *output; /* output: NULL if any output is accepted */
    enum tool_result result;
    const char *begin, *end; /* fixed markers; NULL for new ones in each call */
    struct brig_spec *spec;
};

struct brig_tools {
    char name[128]; /* name of the file, for messages; only the end of a long one */
    struct jsonr *root;
    struct tool *items;
    size_t count;
};

/* Returns NULL if there is no tool of that name. */
const struct tool *tools_find(const struct brig_tools *tools, const char *name);

#endif
