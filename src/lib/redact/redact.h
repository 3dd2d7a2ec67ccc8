/* Redaction: secrets in a stream of bytes become "[redacted:NAME]".
 *
 * A pure module: bytes in, bytes out; no descriptor, no thread, no global. Whatever way a text is
 * cut into pieces, what comes out is what matching the whole text at once gives.
 *
 * First the built-in rules (redact_table.c): at each place the first rule of the table that matches
 * there; after a match it goes on at its end. Then each pattern of the user in their order, each on
 * what the one before it gave: leftmost match, after a match it goes on at its end. */
#ifndef LIB_REDACT_H
#define LIB_REDACT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "brig.h"

/* What a stage holds at most. A match of a built-in rule may be of any length; what a pattern of
 * the user wants to see more of than this is redacted, and the pattern starts anew behind it. */
#define REDACT_HOLD 65536

/* Does not change any more for its caller; the streams of one run share it. It and its streams are
 * one handle: one thread at a time. */
struct redact_rules;

/* `sets`: names of built-in sets, comma separated; NULL: all of them, "": none. They are "tokens",
 * "assignments", "headers", "urls" and "private-keys".
 *
 * `patterns`: patterns of the user, NULL-terminated, or NULL. A pattern is a regular expression of
 * PCRE2 on bytes, ^ and $ being those of lines. All that it matches is the secret, or if it has a
 * named group, (?<NAME>...), what the first of these matches; NAME is then what the reader sees,
 * and "pattern-1" where there is none. A pattern that can match nothing at all, or whose matches
 * would depend on how the text comes (\G, \Z, verbs), is refused. */
int redact_rules_new(struct redact_rules **out, const char *sets, const char *const *patterns,
                     struct brig_error *err);
void redact_rules_free(struct redact_rules *rules);

/* One stream. It must end before its rules do. */
struct redactor;
int redactor_new(struct redactor **out, const struct redact_rules *rules);
void redactor_free(struct redactor *r);

/* Appends to `out` what may be shown now; 0 or -errno, after which the stream is of no use. */
int redactor_feed(struct redactor *r, const char *bytes, size_t len, struct buf *out);

/* No more comes: the rest. */
int redactor_end(struct redactor *r, struct buf *out);

size_t redactor_held(const struct redactor *r);    /* bytes that are waiting for what follows */
uint64_t redactor_count(const struct redactor *r); /* secrets replaced */

/* The name of the user's pattern that had to be stopped, since when nothing is shown; or NULL. */
const char *redactor_failure(const struct redactor *r);

/* A whole text at once. `count` may be NULL. -ETIMEDOUT: a pattern of the user had to be stopped,
 * and the rest is not there. */
int redact_text(const struct redact_rules *rules, const char *text, size_t len, struct buf *out,
                uint64_t *count);

/* redact_message.c. A text in new memory; what cannot be looked at is not shown: "[withheld]". NULL
 * without memory. */
char *redact_copy(const struct redact_rules *rules, const char *text);
/* In place, in a message about a run of this spec (NULL: of any), if that has redaction on; and in
 * each of a list of NAME=VALUE. */
struct brig_spec;
struct strings;
void redact_error(const struct brig_spec *spec, struct brig_error *err);
int redact_strings(const struct redact_rules *rules, struct strings *list);

#endif
