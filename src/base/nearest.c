/* SPDX-License-Identifier: MIT */
/* Edit distance of two words: the number of characters that have to be inserted, deleted, replaced
 * or swapped with their neighbour. '-' and '_' are equal, and case is ignored. */
#include "nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static char fold(char c)
{
    return (char)(c == '_' ? '-' : tolower((unsigned char)c));
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Computed with three rows of the usual table. Both words are at most NEAREST_MAX bytes long. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][NEAREST_MAX + 1] = {{0}};
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            bool same = fold(a[i - 1]) == fold(b[j - 1]);
            now[j] = least(before[j - 1] + !same, 1 + least(before[j], now[j - 1]));
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) &&
                fold(a[i - 2]) == fold(b[j - 1]))
                now[j] = least(now[j], earlier[j - 2] + 1);
        }
    }
    return rows[a_len % 3][b_len];
}

static bool is_prefix(const char *word, size_t len, const char *name, size_t name_len)
{
    if (len < 2 || len >= name_len)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (fold(word[i]) != fold(name[i]))
            return false;
    }
    return true;
}

void nearest_init(struct nearest *nearest, const char *word, size_t len)
{
    /* One in three characters may be wrong. A single letter is too little to guess from. */
    *nearest = (struct nearest){word, len, NULL, len / 3 + (len == 2) + 1};
}

static void try_name(struct nearest *nearest, const char *name, size_t len)
{
    if (nearest->len == 0 || nearest->len > NEAREST_MAX || len > NEAREST_MAX)
        return;
    size_t far = is_prefix(nearest->word, nearest->len, name, len)
                     ? 1 /* the word is an abbreviation of the name */
                     : distance(nearest->word, nearest->len, name, len);
    if (far < nearest->distance) {
        nearest->distance = far;
        nearest->name = name;
    }
}

void nearest_try(struct nearest *nearest, const char *name)
{
    try_name(nearest, name, strlen(name));
}

void nearest_try_list(struct nearest *nearest, const char *names)
{
    while (*names) {
        size_t len = strcspn(names, "|");
        try_name(nearest, names, len);
        names += len + (names[len] == '|');
    }
}

const char *nearest_hint(const struct nearest *nearest, const char *prefix,
                         char out[NEAREST_HINT_SIZE])
{
    out[0] = 0;
    if (nearest->name)
        snprintf(out, NEAREST_HINT_SIZE, " (did you mean %s%.*s?)", prefix,
                 (int)strcspn(nearest->name, "|"), nearest->name);
    return out;
}
