/* SPDX-License-Identifier: MIT */
/* Messages of brig on stderr. No other file writes to the terminal. */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include <stdbool.h>

struct brig_error;

/* Print "brig: text" and a newline. The text must be printable; errors and notes of the library
 * are. If nothing reads stderr, all messages together wait ten seconds at most, and are lost after
 * that. */
void term_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Warn that the run has no cell. This is the only message that -q does not silence. */
void term_degraded(const char *why);
/* Add advice to a refusal for want of a cell: `way`, the option of this verb that allows less
 * isolation, and brig doctor. */
void term_advise(struct brig_error *error, const char *way);
void term_error(const struct brig_error *error);

/* Limit the time that all further messages may wait, because brig is to end or supervises other
 * runs. */
void term_hurry(unsigned ms);

/* The progress line: one line at the bottom that is redrawn, below the messages. Only if stderr is
 * a terminal that can do so. If the terminal takes no output now (it is stopped, for example), one
 * redraw is skipped. */
bool term_can_redraw(void);
unsigned term_columns(void);
void term_redraw(const char *text); /* "" removes the line */

#endif
