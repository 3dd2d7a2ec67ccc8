/* SPDX-License-Identifier: MIT */
/* Errors: one line of text, safe to print, with its errno and the stage that failed. */
#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

int error_set(struct brig_error *err, enum brig_fault fault, const char *stage, int errnum,
              const char *format, ...)
{
    if (err) {
        char raw[sizeof err->text];
        va_list args;
        va_start(args, format);
        int len = vsnprintf(raw, sizeof raw, format, args);
        va_end(args);
        if (len >= (int)sizeof raw) /* truncated: drop the incomplete character at the end */
            raw[sizeof raw - 1 - text_utf8_tail((const unsigned char *)raw, sizeof raw - 1)] = 0;
        err->fault = fault;
        err->errnum = errnum;
        err->stage = stage;
        err->key = NULL;
        text_escape(raw, strlen(raw), err->text, sizeof err->text);
    }
    return errnum ? -errnum : -EINVAL;
}

void error_advise(struct brig_error *err, const char *stage, const char *advice)
{
    if (err->stage && strcmp(err->stage, stage) == 0) {
        size_t len = strlen(err->text);
        snprintf(err->text + len, sizeof err->text - len, "; %s", advice);
    }
}

const char *error_text(int errnum)
{
    static const struct {
        int errnum;
        const char *text;
    } rows[] = {
        {EIO, "Input/output error"},
        {ECHILD, "No child processes"},
        {ENOMEM, "Cannot allocate memory"},
        {EBUSY, "Device or resource busy"},
        {EXDEV, "Invalid cross-device link"},
        {ENFILE, "Too many open files in system"},
        {EMFILE, "Too many open files"},
        {ESPIPE, "Illegal seek"},
        {ENAMETOOLONG, "File name too long"},
        {ELOOP, "Too many levels of symbolic links"},
        {ETIMEDOUT, "Timed out"},
        {EDQUOT, "Disk quota exceeded"},
        {ESTALE, "Stale file handle"},
        {EUSERS, "Too many users"},
        {EOPNOTSUPP, "Operation not supported"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].errnum == errnum)
            return rows[i].text;
    }
    return strerror(errnum);
}
