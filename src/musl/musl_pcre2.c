/* What Debian's libpcre2-8.a, which was compiled for glibc, needs besides what musl has: the
 * checked memcpy of _FORTIFY_SOURCE. Only in the program that is linked with musl. */
#include <stdlib.h>
#include <string.h>

void *__memcpy_chk(void *to, const void *from, size_t len, size_t room); /* NOLINT: its name */

void *__memcpy_chk(void *to, const void *from, size_t len, size_t room) /* NOLINT: its name */
{
    if (len > room)
        abort();
    return memcpy(to, from, len);
}
