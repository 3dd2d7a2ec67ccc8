/* SPDX-License-Identifier: MIT */
/* The list of strings of strings.h. */
#include "strings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int make_room(struct strings *list)
{
    if (list->count >= STRINGS_MAX)
        return -E2BIG;
    if (list->count + 2 <= list->size)
        return 0;
    size_t size = list->size ? list->size * 2 : 8;
    char **items = realloc(list->items, size * sizeof *items);
    if (!items)
        return -ENOMEM;
    list->items = items;
    list->size = size;
    return 0;
}

int strings_add(struct strings *list, const char *text, size_t len)
{
    int ret = make_room(list);
    if (ret < 0)
        return ret;
    char *copy = strndup(text, len);
    if (!copy)
        return -ENOMEM;
    list->items[list->count++] = copy;
    list->items[list->count] = NULL;
    return 0;
}

int strings_add_text(struct strings *list, const char *text)
{
    return strings_add(list, text, strlen(text));
}

int strings_put(struct strings *list, const char *name, size_t name_len, const char *value)
{
    size_t value_len = strlen(value);
    char *entry = malloc(name_len + value_len + 2);
    if (!entry)
        return -ENOMEM;
    memcpy(entry, name, name_len);
    entry[name_len] = '=';
    memcpy(entry + name_len + 1, value, value_len + 1);
    for (size_t i = 0; i < list->count; i++) {
        if (strncmp(list->items[i], entry, name_len + 1) == 0) {
            free(list->items[i]);
            list->items[i] = entry;
            return 0;
        }
    }
    int ret = make_room(list);
    if (ret < 0) {
        free(entry);
        return ret;
    }
    list->items[list->count++] = entry;
    list->items[list->count] = NULL;
    return 0;
}

int strings_copy(struct strings *to, const struct strings *from)
{
    for (size_t i = 0; i < from->count; i++) {
        int ret = strings_add_text(to, from->items[i]);
        if (ret < 0)
            return ret;
    }
    return 0;
}

void strings_done(struct strings *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct strings){0};
}
