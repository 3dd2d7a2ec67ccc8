/* SPDX-License-Identifier: MIT */
/* What every unit test includes: cmocka with the headers it needs before it, and a few assertions
 * that say more than "not equal". */
#ifndef UNIT_CHECK_H
#define UNIT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define assert_contains(text, part) check_contains(text, part, __FILE__, __LINE__)

static inline void check_contains(const char *text, const char *part, const char *file, int line)
{
    if (text && strstr(text, part))
        return;
    print_error("\"%s\" does not contain \"%s\"\n", text ? text : "(null)", part);
    _fail(file, line);
}

/* A skipped test says why. */
static inline void skip_because(const char *why)
{
    fprintf(stderr, "skipped: %s\n", why);
    skip();
}

/* The test says what is right, and src/ does not do it yet. Take the call away with the fix; with
 * BRIG_KNOWN_BUGS set in the environment the test runs, to see it fail. */
static inline void known_bug(const char *where)
{
    if (getenv("BRIG_KNOWN_BUGS"))
        return;
    fprintf(stderr, "skipped, a known bug: %s\n", where);
    skip();
}

#endif
