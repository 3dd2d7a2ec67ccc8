/* Descriptors and memory that free themselves, and reads of small files. */
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

/* Open a file that somebody named where a guest may have been: no link that it left is followed,
 * but for the system's own (/dev/stdin). -1 with errno; ELOOP: the path is a link, or leads through
 * one. */
int fd_open_plain(const char *path, int flags, mode_t mode);

/* Read a whole small file of the kernel's (a counter, say) into out, NUL-terminated. Returns its
 * length or -errno; -EFBIG if it does not fit. */
ssize_t fd_read_file(int dirfd, const char *path, char *out, size_t size);

/* Write the text to an existing file. Returns 0 or -errno. */
int fd_write_file(int dirfd, const char *path, const char *text);

/* Read all of fd up to `max` bytes into new memory, NUL-terminated. -EFBIG if there is more. */
int fd_read_all(int fd, size_t max, char **out, size_t *len);

#endif
