/* FILE or fd:N, where a result or events go. */
#ifndef CLI_TARGET_H
#define CLI_TARGET_H

#include <stddef.h>

struct brig_error;

/* A descriptor of our own, close-on-exec, open for writing. A file is made, or emptied. */
int target_open(const char *target, const char *option, int *fd, struct brig_error *err);

/* Write all of it, waiting as long as it takes. 0 or -errno. */
int target_write(int fd, const char *bytes, size_t len);

#endif
