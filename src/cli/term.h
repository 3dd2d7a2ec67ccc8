/* The only file that talks to the terminal: brig's own messages, on stderr. */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include <stdbool.h>

struct brig_error;

/* "brig: text" and a newline. The text must be printable; brig's own errors and notes are. */
void term_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
void term_error(const struct brig_error *error);

/* One line that is drawn over again, at the bottom; messages go above it. Only where stderr is a
 * terminal that can do so. A terminal that takes nothing now (stopped, say) misses one. */
bool term_can_redraw(void);
unsigned term_columns(void);
void term_redraw(const char *text); /* "": no line any more */

#endif
