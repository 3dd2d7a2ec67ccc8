/* SPDX-License-Identifier: MIT */
/* Redaction: replaces secrets in a stream of bytes by "[redacted:NAME]".
 *
 * A pure module: bytes in, bytes out; no file descriptor, no thread, no global. The result does not
 * depend on how the text is cut into pieces: it equals the result of matching the whole text at
 * once.
 *
 * The built-in rules (redact_table.c) come first: at each position the first matching rule of the
 * table applies, and the scan continues at the end of its match. Then each pattern of the user is
 * applied, in order, to the result of the one before: leftmost match, continuing at its end. */
#ifndef LIB_REDACT_H
#define LIB_REDACT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "brig.h"

/* The largest number of bytes that a stage holds back. A match of a built-in rule may have any
 * length. A pattern of the user that needs to see more than this has the held bytes redacted and
 * starts anew after them. */
#define REDACT_HOLD 65536

/* Constant for its caller and shared by the streams of one run. The rules and their streams
 * together may be used by one thread at a time. */
struct redact_rules;

/* `sets`: names of built-in sets, separated by commas; NULL means all, "" means none. The sets are
 * "tokens", "assignments", "headers", "urls" and "private-keys".
 *
 * `patterns`: patterns of the user, NULL-terminated, or NULL. A pattern is a PCRE2 regular
 * expression on bytes, with ^ and $ matching at lines. The secret is the whole match, or the match
 * of the first named group, (?<NAME>...). The reader sees NAME, or "pattern-1" for a pattern
 * without a named group. A pattern is refused if it can match the empty text, or if its matches
 * would depend on how the text is cut into pieces (\G, \Z, verbs). */
int redact_rules_new(struct redact_rules **out, const char *sets, const char *const *patterns,
                     struct brig_error *err);
void redact_rules_free(struct redact_rules *rules);

/* One stream. It must be freed before its rules. */
struct redactor;
int redactor_new(struct redactor **out, const struct redact_rules *rules);
void redactor_free(struct redactor *r);

/* Append the bytes that may be shown now to `out`. Returns 0, or -errno, after which the stream
 * cannot be used. */
int redactor_feed(struct redactor *r, const char *bytes, size_t len, struct buf *out);

/* End the stream and append the remaining bytes. */
int redactor_end(struct redactor *r, struct buf *out);

size_t redactor_held(const struct redactor *r);    /* bytes held back until more follow */
uint64_t redactor_count(const struct redactor *r); /* number of secrets replaced */

/* The number of bytes taken that were neither given out nor are held. It has no bound, because a
 * secret of any length is replaced by a few bytes. Bytes after a pattern was stopped count too. */
uint64_t redactor_swallowed(const struct redactor *r);

/* The name of the user's pattern that was stopped, after which nothing more is shown; or NULL. */
const char *redactor_failure(const struct redactor *r);

/* Redact a whole text. `count` may be NULL. Returns -ETIMEDOUT if a pattern of the user was
 * stopped, in which case the rest of the text is missing. */
int redact_text(const struct redact_rules *rules, const char *text, size_t len, struct buf *out,
                uint64_t *count);

/* Defined in redact_message.c. Returns a redacted copy, or "[withheld]" if the text could not be
 * checked; NULL without memory. */
char *redact_copy(const struct redact_rules *rules, const char *text);
/* Redact each NAME=VALUE of a list in place. Returns 0 or -errno. */
struct brig_spec;
struct strings;
int redact_strings(const struct redact_rules *rules, struct strings *list);

#endif
