/* SPDX-License-Identifier: MIT */
/* The target of a result or of events: FILE or fd:N. */
#ifndef CLI_TARGET_H
#define CLI_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct brig_error;
struct brig_spec;

/* Open a target for writing, close-on-exec. The caller owns *fd. A file is created or truncated. */
int target_open(const char *target, const char *option, int *fd, struct brig_error *err);

/* Keep the guest of the spec from changing the file behind `fd`, if it has a name. */
int target_guard(int fd, struct brig_spec *spec, struct brig_error *err);

/* True if both are the same file. /dev/null is never the same. */
bool target_is_same(int fd, int other);

/* False if `fd` is a regular file without a name. */
bool target_is_kept(int fd);

/* The default of the time for which a reader of a result may take no bytes: the default timeout of
 * a run. */
#define TARGET_PATIENCE (UINT64_C(1800) * 1000000000)

/* Write all bytes. Returns 0 or -errno: -ETIMEDOUT if the reader took no bytes for
 * `patience_ns`. */
int target_write(int fd, const char *bytes, size_t len, uint64_t patience_ns);

#endif
