/* SPDX-License-Identifier: MIT */
/* Messages on the terminal. Colour is used only on a terminal, and not if NO_COLOR is set. */
#include "term.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/writer.h"
#include "base/error.h"
#include "brig.h"

#define ERASE_LINE "\r\033[K"

static bool drawn; /* the progress line is on the screen */

/* The time that all messages together may wait for a reader. */
static uint64_t patience_ns = 10 * NS_PER_S;

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

/* A stuck reader must not keep brig from ending: a message that it does not take in time is
 * lost. */
static void show(const char *text, size_t len)
{
    uint64_t before = clock_now();
    writer_deliver(STDERR_FILENO, text, len, patience_ns);
    uint64_t waited = clock_now() - before;
    patience_ns -= waited < patience_ns ? waited : patience_ns;
}

void term_message(const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    char *shown = brig_redact(line, strlen(line)), *whole = NULL;
    term_redraw("");
    int len =
        asprintf(&whole, "%s %s\n",
                 use_color() ? "\033[1mbrig:\033[0m" : "brig:", shown ? shown : "out of memory");
    static const char no_memory[] = "brig: out of memory\n"; /* needs no memory */
    if (len > 0) {
        show(whole, (size_t)len);
        free(whole);
    } else {
        show(no_memory, sizeof no_memory - 1);
    }
    brig_free(shown);
}

void term_hurry(unsigned ms)
{
    if (patience_ns > ms * NS_PER_MS)
        patience_ns = ms * NS_PER_MS;
}

void term_error(const struct brig_error *error)
{
    term_message("%s", error->text);
}

void term_degraded(const char *why)
{
    term_message("warning: no cell can be built here (%s): landlock and seccomp alone confine this "
                 "run, as isolation auto allows; brig doctor tells more",
                 why);
}

void term_advise(struct brig_error *error, const char *way)
{
    char advice[160];
    snprintf(advice, sizeof advice, "or allow less with %s; brig doctor tells more", way);
    error_advise(error, BRIG_STAGE_ISOLATION, advice);
}
