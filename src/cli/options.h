/* The command line of `brig run` and `brig explain`: options made from the library's table of keys,
 * and a few of the command's own. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "brig.h"

/* Options that are not keys of a spec. */
struct own_option {
    const char *option;
    char letter;
    const char *argument; /* NULL: takes none */
    const char *help;
};

extern const struct own_option own_options[];
extern const size_t own_option_count;

/* Those of brig batch: in its file, and here for the manual and the completions. */
extern const struct own_option batch_options[];
extern const size_t batch_option_count;
/* Those of brig mcp, which takes the keys of a spec as well. */
extern const struct own_option mcp_own_options[];
extern const size_t mcp_own_option_count;

struct run_options {
    struct brig_spec *spec;
    bool json, dry_run, warm, quiet, verbose, help;
    const char *result; /* FILE or fd:N */
    const char *events;
};

/* Everything from the command line, the BRIG_* variables, the spec file and the metadata, by their
 * precedence. argv[0] is the verb. 0 or -errno; on failure options are done. */
int options_read(struct run_options *options, int argc, char **argv, struct brig_error *err);
void options_done(struct run_options *options);

/* The BRIG_* variables alone. */
int options_environment(struct brig_spec *spec, struct brig_error *err);

/* The options of another verb that takes the keys of a spec: its own are told to `set` by their
 * place in the table. */
struct option_set {
    const struct own_option *own;
    size_t count;
    void (*set)(void *to, size_t own, const char *value);
    void *to;
    struct brig_spec *spec;
};

/* The same, without files and without a command. */
int options_read_set(const struct option_set *set, int argc, char **argv, struct brig_error *err);

#endif
