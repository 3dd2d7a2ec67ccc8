/* The guest's environment: cleared, then a short list of the caller's variables, then env files,
 * then what --env names. */
#ifndef LIB_ENVIRONMENT_H
#define LIB_ENVIRONMENT_H

#include "base/strings.h"
#include "spec.h"

/* `host` is the caller's environment; `home` and `tmp` are the guest's HOME and TMPDIR, or NULL to
 * leave them as they are. */
int environment_build(struct strings *out, const struct brig_spec *spec, char *const *host,
                      const char *home, const char *tmp, struct brig_error *err);

/* The value of a variable in a list of NAME=VALUE, or NULL. */
const char *environment_get(char *const *list, const char *name);

#endif
