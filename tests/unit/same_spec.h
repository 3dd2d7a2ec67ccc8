/* SPDX-License-Identifier: MIT */
/* Are two specs the same? For tests that a refused change changed nothing. */
#ifndef UNIT_SAME_SPEC_H
#define UNIT_SAME_SPEC_H

#include <string.h>

#include "lib/spec/spec.h"

static inline bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static inline bool same_list(const struct strings *a, const struct strings *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->items[i], b->items[i]) == 0;
    return same;
}

static inline bool same_spec(const struct brig_spec *a, const struct brig_spec *b)
{
    bool same = same_list(&a->command, &b->command) && a->stdin_fd == b->stdin_fd;
    for (int i = 0; same && i < KEY_COUNT; i++) {
        const struct spec_value *x = &a->values[i], *y = &b->values[i];
        same = x->origin == y->origin && x->set == y->set && x->number == y->number &&
               same_text(x->text, y->text) && same_list(&x->list, &y->list);
    }
    return same;
}

#endif
