/* SPDX-License-Identifier: MIT */
/* A list of strings, always NULL-terminated, bounded by STRINGS_MAX. */
#ifndef BASE_STRINGS_H
#define BASE_STRINGS_H

#include <stddef.h>

#define STRINGS_MAX (1u << 20)

struct strings {
    char **items;
    size_t count, size;
};

int strings_add(struct strings *list, const char *text, size_t len); /* copies; 0 or -errno */
int strings_add_text(struct strings *list, const char *text);
/* Add NAME=VALUE, or replace the entry of that name. */
int strings_put(struct strings *list, const char *name, size_t name_len, const char *value);
int strings_copy(struct strings *to, const struct strings *from); /* appends all of `from` */
void strings_done(struct strings *list);

#endif
