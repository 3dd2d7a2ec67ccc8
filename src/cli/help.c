/* SPDX-License-Identifier: MIT */
/* Lines of help texts, from the tables of options. */
#include "help.h"

#include <string.h>

#include "brig.h"

void help_values(const struct brig_key *key, char *out, size_t size)
{
    out[0] = 0;
    if (key->shared)
        snprintf(out, size, "%s; default %s, and %s in mcp, call and tools", key->choices,
                 key->initial, key->shared);
    else if (key->choices && key->initial)
        snprintf(out, size, "%s; default %s", key->choices, key->initial);
    else if (key->initial)
        snprintf(out, size, "default %s", key->initial);
}

void help_option(FILE *out, const char *option, char letter, const char *argument, const char *help,
                 const char *values)
{
    char left[64], short_form[8] = "    ";
    if (letter)
        snprintf(short_form, sizeof short_form, "-%c, ", letter);
    snprintf(left, sizeof left, "%s--%s%s%s", short_form, option, argument ? " " : "",
             argument ? argument : "");
    fprintf(out, "  %-30s %s", left, help);
    if (*values)
        fprintf(out, " (%s)", values);
    fputc('\n', out);
}
