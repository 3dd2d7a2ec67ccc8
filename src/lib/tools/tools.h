/* Tools: what an operator lets others call, read from a JSON file. A tool is a spec with a name, a
 * schema for its arguments and a way in which it gives its result. Read by call.c, which calls
 * them. */
#ifndef LIB_TOOLS_H
#define LIB_TOOLS_H

#include "base/jsonr.h"
#include "brig.h"
#include "schema.h"
#include "lib/spec/spec.h"

enum tool_result {
    TOOL_RESULT_CHANNEL, /* an envelope on the result channel */
    TOOL_RESULT_MARKERS, /* an envelope on stdout, between two markers */
    TOOL_RESULT_STDOUT,  /* all that it prints is its output */
};

struct tool {
    struct brig_tool told; /* what a caller is told of it */
    char *input_text, *output_text, *annotations_text;
    struct schema *input, *output; /* output: NULL if anything goes */
    enum tool_result result;
    const char *begin, *end; /* fixed markers; NULL: new ones for each call */
    struct brig_spec *spec;
};

struct brig_tools {
    char name[128]; /* of the file, for messages: the end of it, if it is long */
    struct jsonr *root;
    struct tool *items;
    size_t count;
};

/* NULL if there is none of that name. */
const struct tool *tools_find(const struct brig_tools *tools, const char *name);

#endif
