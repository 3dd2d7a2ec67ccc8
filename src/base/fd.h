/* SPDX-License-Identifier: MIT */
/* File descriptors and memory that are released at the end of a scope, and functions for small
 * files. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <stddef.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static inline void fd_close_at(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static inline void free_at(void *pointer)
{
    free(*(void **)pointer);
}

static inline int take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#define autofd   __attribute__((cleanup(fd_close_at))) int
#define autofree __attribute__((cleanup(free_at)))

/* Open a path in a place where a guest may have created symlinks. Symlinks are not followed, except
 * for those of the system in /dev (/dev/stdin) and /proc/self/fd. Returns -1 with errno set; ELOOP
 * means that the path is a symlink or leads through one. */
int fd_open_plain(const char *path, int flags, mode_t mode);
/* Like fd_open_plain(), without the exception for system symlinks. */
int fd_open_no_links(const char *path, int flags, mode_t mode);

/* Read a whole small kernel file (a counter, for example) into out, NUL-terminated. Returns its
 * length or -errno; -EFBIG if it does not fit. */
ssize_t fd_read_file(int dirfd, const char *path, char *out, size_t size);

/* Write the text to an existing file. Returns 0 or -errno. */
int fd_write_file(int dirfd, const char *path, const char *text);

/* Read fd to its end into new memory, NUL-terminated. Returns -EFBIG if there are more than `max`
 * bytes. */
int fd_read_all(int fd, size_t max, char **out, size_t *len);

#endif
