/* SPDX-License-Identifier: MIT */
/* Swallows the rest of a secret byte by byte, for each kind of tail in redact_table.h. */
#include "redact_stage.h"

#include <string.h>

void redact_set_add(struct redact_set *set, const char *bytes)
{
    bool others = *bytes == '^';
    for (bytes += others; *bytes; bytes++)
        set->bits[(unsigned char)*bytes / 32] |= UINT32_C(1) << ((unsigned char)*bytes % 32);
    for (size_t i = 0; others && i < 8; i++)
        set->bits[i] = ~set->bits[i];
}

static bool is_base64(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/' || c == '=';
}

/* True if the private key continues with this byte. The key ends with its END line or, without one,
 * before the end of the third consecutive line that contains no part of a key. */
static bool key_takes(struct redact_scan *scan, char c)
{
    static const char word[] = "END";
    if (scan->key.ending) {
        if (c == '\r' || c == '\n' || scan->key.dashes == 5)
            return false;
        scan->key.dashes = c == '-' ? scan->key.dashes + 1 : 0;
        return true;
    }
    if (c == '-') {
        scan->key.dashes++;
        scan->key.letters = 0;
    } else {
        bool in_word = (scan->key.letters || scan->key.dashes >= 5) && c == word[scan->key.letters];
        scan->key.letters = in_word ? scan->key.letters + 1 : 0;
        scan->key.dashes = 0;
        if (scan->key.letters == 3) {
            scan->key.ending = true;
            return true;
        }
    }
    if (c == '\n') {
        if (scan->key.longest >= 16)
            scan->key.misses = 0;
        else if (!scan->key.blank && ++scan->key.misses == 3)
            return false;
        scan->key.run = scan->key.longest = 0;
        scan->key.blank = true;
        return true;
    }
    scan->key.run = is_base64(c) ? scan->key.run + 1 : 0;
    if (scan->key.run > scan->key.longest)
        scan->key.longest = scan->key.run;
    scan->key.blank = scan->key.blank && (c == ' ' || c == '\t' || c == '\r');
    return true;
}

static bool string_takes(struct redact_scan *scan, const struct redact_set *stop, char c)
{
    if (scan->backslashes) {
        scan->backslashes = 0;
        return c != '\r' && c != '\n' && c;
    }
    scan->backslashes = c == '\\';
    return !redact_set_has(stop, c);
}

/* A string within a string ends at \"; a quote after two or more backslashes belongs to it. */
static bool escaped_takes(struct redact_scan *scan, const struct redact_set *stop, char c,
                          struct buf *out)
{
    unsigned before = scan->backslashes;
    scan->backslashes = c == '\\' ? before + 1 : 0;
    if (c != '"' || before == 0)
        return !redact_set_has(stop, c);
    if (before == 1)
        buf_add(out, "\\", 1);
    return before > 1;
}

size_t redact_tail_swallow(struct redact_scan *scan, const char *bytes, size_t at, size_t end,
                           struct buf *out)
{
    enum redact_tail tail = scan->inside->tail;
    const struct redact_set *stop = &scan->stop;
    for (; at < end; at++) {
        bool takes = tail == REDACT_TAIL_KEY ? key_takes(scan, bytes[at])
                     : tail == REDACT_TAIL_DOUBLE || tail == REDACT_TAIL_SINGLE
                         ? string_takes(scan, stop, bytes[at])
                     : tail == REDACT_TAIL_ESCAPED ? escaped_takes(scan, stop, bytes[at], out)
                                                   : !redact_set_has(stop, bytes[at]);
        if (!takes) {
            scan->inside = NULL;
            break;
        }
    }
    return at;
}

void redact_tail_begin(struct redact_scan *scan, const struct redact_rule *rule)
{
    scan->inside = rule;
    scan->stop = (struct redact_set){0};
    redact_set_add(&scan->stop, redact_tails[rule->tail].stop);
    scan->stop.bits[0] |=
        1; /* NUL ends every tail, because it separates the variables of an environment */
    scan->backslashes = 0;
    memset(&scan->key, 0, sizeof scan->key);
    scan->key.blank = true;
}
