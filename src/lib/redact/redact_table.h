/* The built-in rules of redaction, as data. */
#ifndef LIB_REDACT_TABLE_H
#define LIB_REDACT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

/* How a secret goes on behind what its rule's regex matched. Any length of it is swallowed, byte by
 * byte; redact_table.c says the same again as a regex. */
enum redact_tail {
    REDACT_TAIL_WORD,    /* letters, digits, - and _ */
    REDACT_TAIL_BASE64,  /* these, and . ~ + / = */
    REDACT_TAIL_BARE,    /* up to a space or what ends a bare value */
    REDACT_TAIL_DOUBLE,  /* up to " or the end of the line; \ keeps the next byte */
    REDACT_TAIL_SINGLE,  /* the same up to ' */
    REDACT_TAIL_ESCAPED, /* up to \" : JSON in a string */
    REDACT_TAIL_USER,    /* the password in a URL: up to @ and what ends a URL */
    REDACT_TAIL_LINE,    /* up to the end of the line */
    REDACT_TAIL_KEY,     /* up to the END line, or what is not a key any more */
    REDACT_TAILS
};

struct redact_tail_info {
    const char *regex; /* what is matched again and again; NULL for REDACT_TAIL_KEY */
    const char *stop;  /* the bytes that end it; with ^ before them: all but these */
};

struct redact_rule {
    const char *name, *set;
    /* Where it may match: one of these, with a | between them, is there. */
    const char *triggers;
    bool fold; /* in any case */
    bool word; /* the byte before it is no letter, digit or _ */
    /* What must follow the trigger, known without a regex: any of [0], one of [1], any of [2], one
     * of [3]; "" for [1] or [3]: no more is known. With ^ before them: any but these. */
    const char *shape[4];
    /* Matched at the trigger. It decides after a bounded number of bytes. Group 1 is where the
     * secret begins, if it does not begin at the trigger. */
    const char *regex;
    enum redact_tail tail;
};

extern const struct redact_rule redact_table[];
extern const size_t redact_table_len;
extern const struct redact_tail_info redact_tails[REDACT_TAILS];

/* No regex looks back further than this, or needs more than this to decide. */
#define REDACT_LOOK_BACK 16
#define REDACT_DECIDES   8192

#endif
