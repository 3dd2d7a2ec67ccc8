/* SPDX-License-Identifier: MIT */
/* Tool chains outside of the system directories, such as pyenv, venv, nvm and rustup: finds the
 * files that the command of a run needs from one, so that the caller's own interpreter runs, and
 * not another one of the same name. Called by view_caller.c and the pool; shows nothing itself.
 *
 * A guest may have written to a directory on a path. So only the rules (toolchain_rules.c) decide
 * which files are shown. A place that holds nothing but tool chains may be reached on any path; a
 * place that is known by a marker file only if the caller named it, without a symlink on the path.
 * Of a prefix, only bin, lib and the like are shown, but not the files beside them (npmrc,
 * pip.conf, credentials.toml). A home, or a directory above one, is never shown. */
#ifndef LIB_TOOLCHAIN_H
#define LIB_TOOLCHAIN_H

#include <limits.h>

#include "base/strings.h"
#include "lib/spec/spec.h"

struct toolchain {
    const char *name;           /* the first rule that matched: "pyenv"; NULL: none did */
    char prefix[256];           /* of that rule, for messages */
    struct strings shown;       /* paths to be shown read-only, at the same place */
    struct strings links, to;   /* symlinks on these paths, and their targets */
    struct strings environment; /* variables that the tool chain needs to find its files */
    char *path;                 /* PATH, if the guest needs a different one; or NULL */
};

/* Find the tool chain of the command; nothing for a command of the system. Returns 0 or -ENOMEM. */
int toolchain_find(struct toolchain *chain, const struct brig_spec *spec);
int toolchain_copy(struct toolchain *to, const struct toolchain *from); /* 0 or -ENOMEM */
bool toolchain_same(const struct toolchain *a, const struct toolchain *b);
void toolchain_done(struct toolchain *chain);

/* The guest's PATH, without building the rest of its environment if possible. In new memory; NULL
 * without memory. */
char *toolchain_path(const struct brig_spec *spec);

/* Read the interpreter of a script into *program and, if that is env, the program that env looks up
 * into *searched (otherwise NULL). Both point into `line`. Returns false if the file is no
 * script. */
#define TOOLCHAIN_LINE 256
bool toolchain_interpreter(const char *file, char line[TOOLCHAIN_LINE], const char **program,
                           const char **searched);
/* The program that "env" starts with these arguments, which end with NULL; NULL: none. */
const char *toolchain_env_program(char *const *words);

/* toolchain_rules.c */

/* The directories in which a user keeps tool chains, free of symlinks; empty: there is none. */
struct toolchain_places {
    char home[PATH_MAX], pyenv[PATH_MAX], nvm[PATH_MAX], cargo[PATH_MAX], rustup[PATH_MAX];
};

struct toolchain_rule {
    const char *name;
    bool marked; /* known by a marker file: only if the caller named it */
    /* Find the prefix of a file. Returns false if the rule does not apply. */
    bool (*find)(const struct toolchain_places *places, const char *file, char prefix[PATH_MAX]);
    const char *const *shown; /* parts of the prefix, ending with NULL; "": all of it */
};

extern const struct toolchain_rule toolchain_rules[];
extern const size_t toolchain_rule_count;

void toolchain_places_find(struct toolchain_places *places, const char *home);

/* May the prefix be shown? It must not be a home or above one, and every directory on its path must
 * belong to root or to the caller. */
bool toolchain_is_safe(const struct toolchain_places *places, const char *prefix);

/* Is it a part of the system, which every view has? */
bool toolchain_is_system(const char *path);

#endif
