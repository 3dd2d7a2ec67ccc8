/* Errors: one line of text, safe to print, with the errno and the stage it came from. */
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
        if (len >= (int)sizeof raw) /* it was cut: not in the middle of a character */
            raw[sizeof raw - 1 - text_utf8_tail((const unsigned char *)raw, sizeof raw - 1)] = 0;
        err->fault = fault;
        err->errnum = errnum;
        err->stage = stage;
        text_escape(raw, strlen(raw), err->text, sizeof err->text);
    }
    return errnum ? -errnum : -EINVAL;
}
