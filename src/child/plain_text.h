/* SPDX-License-Identifier: MIT */
/* Text functions without libc, for the code between clone and exec. */
#ifndef CHILD_TEXT_H
#define CHILD_TEXT_H

#include <linux/fcntl.h>
#include <stdint.h>

#include "sys.h"

#define NUMBER_MAX 24 /* the digits of any 64-bit number and a NUL */

/* Write a number in decimal, with a NUL. Returns the address of the NUL. */
static inline char *put_number(char *out, uint64_t value)
{
    char digits[NUMBER_MAX];
    int n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n)
        *out++ = digits[--n];
    *out = 0;
    return out;
}

/* Copy a text, with its NUL. Returns the address of the NUL. */
static inline char *put_text(char *out, const char *text)
{
    while (*text)
        *out++ = *text++;
    *out = 0;
    return out;
}

static inline uint64_t text_length(const char *text)
{
    uint64_t n = 0;
    while (text[n])
        n++;
    return n;
}

static inline long write_path(const char *path, const char *text)
{
    long fd = sys4(__NR_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    long n = sys3(__NR_write, fd, text, text_length(text));
    sys1(__NR_close, fd);
    return n < 0 ? n : 0;
}

#endif
