/* Filling in a struct brig_error. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "brig.h"

/* Sets *err (may be NULL) and returns -errnum, or -EINVAL where errnum is 0. The text is made safe
 * for a terminal as a whole, so callers may format bytes of any origin into it. */
int error_set(struct brig_error *err, enum brig_fault fault, const char *stage, int errnum,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

/* What an errno says, the same words with every C library. */
const char *error_text(int errnum);

#define error_usage(err, stage, ...)   error_set(err, BRIG_FAULT_USAGE, stage, 0, __VA_ARGS__)
#define error_refused(err, stage, ...) error_set(err, BRIG_FAULT_REFUSED, stage, 0, __VA_ARGS__)
#define error_system(err, stage, errnum, ...)                                                      \
    error_set(err, BRIG_FAULT_SYSTEM, stage, errnum, __VA_ARGS__)
#define error_memory(err, stage) error_system(err, stage, ENOMEM, "out of memory")

#endif
