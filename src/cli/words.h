/* SPDX-License-Identifier: MIT */
/* The command lines of verbs with a few options of their own, from a table. */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include <stdio.h>

#include "brig.h"

struct word {
    const char *option;
    char letter;
    const char *argument; /* NULL: no argument */
    const char *help;
    const char **value; /* set to its value, or */
    bool *flag;         /* set to true */
};

/* Parse the options, in any position. Other words, at most `most`, are stored in `rest` in their
 * order. Returns the number of these, or -EINVAL. argv[0] is the verb. */
int words_read(const struct word *words, size_t count, int argc, char **argv, const char **rest,
               size_t most, struct brig_error *err);

void words_help(FILE *out, const char *usage, const struct word *words, size_t count);

/* Read a whole file, or stdin if the path is "-". `option` names the file in messages. */
int words_file(const char *path, const char *option, size_t max, char **text, size_t *len,
               struct brig_error *err);

#endif
