/* SPDX-License-Identifier: MIT */
/* The checked memcpy of _FORTIFY_SOURCE, which musl does not have: Debian's libpcre2-8.a, compiled
 * for glibc, calls it. Only in the program that is linked with musl. */
#include <stdlib.h>
#include <string.h>

void *__memcpy_chk(void *to, const void *from, size_t len, size_t room); /* NOLINT: reserved name */

void *__memcpy_chk(void *to, const void *from, size_t len, size_t room) /* NOLINT: reserved name */
{
    if (len > room)
        abort();
    return memcpy(to, from, len);
}
