/* SPDX-License-Identifier: MIT */
/* Functions that fill in a struct brig_error. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "brig.h"

/* Sets *err (may be NULL) and returns -errnum, or -EINVAL if errnum is 0. The whole text is escaped
 * for a terminal, so callers may format bytes of any origin into it. */
int error_set(struct brig_error *err, enum brig_fault fault, const char *stage, int errnum,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Append advice to an error of the given stage. The program that prints the error supplies the
 * advice, in the terms of its own interface. */
void error_advise(struct brig_error *err, const char *stage, const char *advice);

/* The text of an errno, identical with every C library. */
const char *error_text(int errnum);

#define error_usage(err, stage, ...)   error_set(err, BRIG_FAULT_USAGE, stage, 0, __VA_ARGS__)
#define error_refused(err, stage, ...) error_set(err, BRIG_FAULT_REFUSED, stage, 0, __VA_ARGS__)
#define error_system(err, stage, errnum, ...)                                                      \
    error_set(err, BRIG_FAULT_SYSTEM, stage, errnum, __VA_ARGS__)
#define error_memory(err, stage) error_system(err, stage, ENOMEM, "out of memory")

#endif
