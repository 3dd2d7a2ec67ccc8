/* SPDX-License-Identifier: MIT */
/* The command line of `brig run` and `brig explain`: options from the library's table of keys, and
 * a few of the command itself. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdio.h>

#include "brig.h"

/* Options that are not keys of a spec. */
struct own_option {
    const char *option;
    char letter;
    const char *argument; /* NULL: no argument */
    const char *help;
};

extern const struct own_option own_options[];
extern const size_t own_option_count;

/* The options of brig batch: defined in its file, declared here for the manual and the
 * completions. */
extern const struct own_option batch_options[];
extern const size_t batch_option_count;
/* The options of brig mcp, which also takes the keys of a spec. */
extern const struct own_option mcp_own_options[];
extern const size_t mcp_own_option_count;

struct run_options {
    struct brig_spec *spec;
    bool json, dry_run, die_with_parent, warm, quiet, verbose, help;
    const char *result; /* FILE or fd:N */
    const char *events;
};

/* Read the command line, the BRIG_* variables, the spec file and the metadata, by their precedence.
 * argv[0] is the verb. Returns 0 or -errno; on failure the options need no options_done(). */
int options_read(struct run_options *options, int argc, char **argv, struct brig_error *err);
void options_done(struct run_options *options);

/* Print the help of `brig run`. */
void options_help(FILE *out);

/* Read only the BRIG_* variables. */
int options_environment(struct brig_spec *spec, struct brig_error *err);

/* The options of another verb that takes the keys of a spec. Each of its own options is passed to
 * `set` by its index in the table. */
struct option_set {
    const struct own_option *own;
    size_t count;
    void (*set)(void *to, size_t own, const char *value);
    void *to;
    struct brig_spec *spec;
};

/* Read such a command line, without files and without a command. */
int options_read_set(const struct option_set *set, int argc, char **argv, struct brig_error *err);

#endif
