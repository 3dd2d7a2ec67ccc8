/* SPDX-License-Identifier: MIT */
/* The environment of the guest: empty at first, then a short list of the caller's variables, then
 * the env files, then the variables given with --env. */
#ifndef LIB_ENVIRONMENT_H
#define LIB_ENVIRONMENT_H

#include "base/strings.h"
#include "spec.h"
#include "lib/cell/toolchain.h"

/* `host` is the caller's environment; `home` and `tmp` are the guest's HOME and TMPDIR, or NULL to
 * leave them as they are. */
int environment_build(struct strings *out, const struct brig_spec *spec, char *const *host,
                      const char *home, const char *tmp, struct brig_error *err);

/* Add the variables that a tool chain needs, except those given with --env. Returns 0 or -errno. */
int environment_put_toolchain(struct strings *out, const struct brig_spec *spec,
                              const struct toolchain *chain);

/* The value of a variable in a list of NAME=VALUE, or NULL. */
const char *environment_get(char *const *list, const char *name);

#endif
