/* The command lines of the verbs that have a few options of their own, from a table. */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include <stdio.h>

#include "brig.h"

struct word {
    const char *option;
    char letter;
    const char *argument; /* NULL: takes none */
    const char *help;
    const char **value; /* where its value goes, or */
    bool *flag;         /* that it was there */
};

/* Options may stand anywhere; the others, at most `most`, go to `rest` in their order. Returns how
 * many there are, or -EINVAL. argv[0] is the verb. */
int words_read(const struct word *words, size_t count, int argc, char **argv, const char **rest,
               size_t most, struct brig_error *err);

void words_help(FILE *out, const char *usage, const struct word *words, size_t count);

/* All of a file, or of stdin where the path is "-". `option` names it in messages. */
int words_file(const char *path, const char *option, size_t max, char **text, size_t *len,
               struct brig_error *err);

#endif
