/* Messages. Colour only on a terminal, and not where NO_COLOR is set. */
#include "term.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "brig.h"

static bool use_color(void)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(no && *no) && term && *term && strcmp(term, "dumb") != 0;
}

void term_message(const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    char *shown = brig_redact(line, strlen(line));
    if (use_color())
        fprintf(stderr, "\033[1mbrig:\033[0m %s\n", shown ? shown : "out of memory");
    else
        fprintf(stderr, "brig: %s\n", shown ? shown : "out of memory");
    brig_free(shown);
}

void term_error(const struct brig_error *error)
{
    term_message("%s", error->text);
}
