/* Help texts, made from the tables. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

/* One line of a list of options. */
void help_option(FILE *out, const char *option, char letter, const char *argument, const char *help,
                 const char *values);

void help_run(FILE *out);

/* "one of kill|truncate; default kill", or nothing: what the table says besides the help line. */
struct brig_key;
void help_values(const struct brig_key *key, char *out, size_t size);

#endif
