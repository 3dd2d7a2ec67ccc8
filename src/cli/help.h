/* SPDX-License-Identifier: MIT */
/* Help texts, from the tables of options. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

/* Print one line of a list of options. */
void help_option(FILE *out, const char *option, char letter, const char *argument, const char *help,
                 const char *values);

/* The choices and the default of a key, "kill|truncate; default kill"; empty if it has neither. */
struct brig_key;
void help_values(const struct brig_key *key, char *out, size_t size);

#endif
