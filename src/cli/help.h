/* Help texts, made from the tables. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

void help_run(FILE *out);

/* "one of kill|truncate; default kill", or nothing: what the table says besides the help line. */
struct brig_key;
void help_values(const struct brig_key *key, char *out, size_t size);

#endif
