/* SPDX-License-Identifier: MIT */
/* The bytes that a stage of redaction holds; see redact_stage.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "redact_stage.h"

int redact_window_add(struct redact_window *window, const char *bytes, size_t len)
{
    if (window->len + len > window->size) {
        size_t size = window->size ? window->size : 1024;
        while (size < window->len + len)
            size *= 2;
        char *data = realloc(window->data, size);
        if (!data)
            return -ENOMEM;
        window->data = data;
        window->size = size;
    }
    if (len)
        memcpy(window->data + window->len, bytes, len);
    window->len += len;
    return 0;
}

void redact_window_drop(struct redact_window *window, size_t start, size_t back)
{
    size_t first = start > back ? start - back : 0;
    if (first)
        memmove(window->data, window->data + first, window->len - first);
    window->len -= first;
    window->start = start - first;
}
