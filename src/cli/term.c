/* Messages. Colour only on a terminal, and not where NO_COLOR is set. */
#include "term.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "brig.h"

#define ERASE_LINE "\r\033[K"

static bool drawn; /* the line that is drawn over again is there */

bool term_can_redraw(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static bool use_color(void)
{
    const char *no = getenv("NO_COLOR");
    return !(no && *no) && term_can_redraw();
}

unsigned term_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

void term_redraw(const char *text)
{
    char line[512];
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (!*text && !drawn)
        return;
    if (poll(&ready, 1, 0) <= 0 || !(ready.revents & POLLOUT))
        return;
    int n = snprintf(line, sizeof line, ERASE_LINE "%.400s", text);
    drawn = write(STDERR_FILENO, line, (size_t)n) > 0 && *text;
}

void term_message(const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    char *shown = brig_redact(line, strlen(line));
    term_redraw("");
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
