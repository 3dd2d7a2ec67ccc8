/* SPDX-License-Identifier: MIT */
/* The built-in rules of redaction, as data. Used by the scan and by the tests. */
#ifndef LIB_REDACT_TABLE_H
#define LIB_REDACT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

/* How a secret continues after the match of its rule's regex. The tail may have any length and is
 * swallowed byte by byte. redact_table.c states each kind a second time as a regex. */
enum redact_tail {
    REDACT_TAIL_WORD,    /* letters, digits, - and _ */
    REDACT_TAIL_BASE64,  /* these, and . ~ + / = */
    REDACT_TAIL_BARE,    /* up to a space or a byte that ends a bare value */
    REDACT_TAIL_DOUBLE,  /* up to " or the end of the line; \ escapes the next byte */
    REDACT_TAIL_SINGLE,  /* like REDACT_TAIL_DOUBLE, up to ' */
    REDACT_TAIL_ESCAPED, /* up to \" : JSON within a string */
    REDACT_TAIL_USER,    /* the password in a URL: up to @ or a byte that ends a URL */
    REDACT_TAIL_LINE,    /* up to the end of the line */
    REDACT_TAIL_KEY,     /* up to the END line, or up to text that is no longer a key */
    REDACT_TAILS
};

struct redact_tail_info {
    const char *regex; /* matches one element of the tail; NULL for REDACT_TAIL_KEY */
    const char *stop;  /* the bytes that end it; with a leading ^: all except these */
};

struct redact_rule {
    const char *name, *set;
    /* The rule can match only where one of these literals, separated by |, occurs. */
    const char *triggers;
    bool fold; /* ignore case */
    bool word; /* the byte before the trigger is no letter, digit or _ */
    /* A cheap test of the text after the trigger, without the regex: any number of bytes of [0],
     * one of [1], any number of [2], one of [3]. An empty [1] or [3] ends the test. A leading ^
     * means all bytes except these. */
    const char *shape[4];
    /* Matched at the trigger. It decides after a bounded number of bytes. Group 1 marks the start
     * of the secret if that is not the trigger. */
    const char *regex;
    enum redact_tail tail;
};

extern const struct redact_rule redact_table[];
extern const size_t redact_table_len;
extern const struct redact_tail_info redact_tails[REDACT_TAILS];

/* The largest number of bytes that a regex looks back, and that it needs to decide. */
#define REDACT_LOOK_BACK 16
#define REDACT_DECIDES   8192

#endif
