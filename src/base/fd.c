/* SPDX-License-Identifier: MIT */
/* Opening, reading and writing of small files. */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define WRITE_TRIES 100

/* The kernel returns its own files (procfs, sysfs, cgroupfs) in pieces of up to a page. A clearly
 * shorter piece is the last one, which saves the final read that returns 0. */
#define SURELY_LAST 2048

/* Used where openat2 is blocked, as in some containers: opens the path one component at a time and
 * fails if a component is a symlink. */
static int open_by_parts(const char *path, int flags, mode_t mode)
{
    autofd dir = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char part[NAME_MAX + 1];
    struct stat st;
    while (dir >= 0) {
        path += strspn(path, "/");
        size_t len = strcspn(path, "/");
        bool last = !path[len + strspn(path + len, "/")];
        if (len > NAME_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(part, path, len);
        part[len] = 0;
        path += len;
        if (len && fstatat(dir, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)) {
            errno = ELOOP;
            return -1;
        }
        if (last)
            return openat(dir, len ? part : ".", flags | O_NOFOLLOW, mode);
        int next = openat(dir, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(dir);
        dir = next;
    }
    return -1;
}

int fd_open_plain(const char *path, int flags, mode_t mode)
{
    bool shared = strncmp(path, "/dev/shm/", 9) == 0; /* any user can create symlinks there */
    if ((strncmp(path, "/dev/", 5) == 0 && !shared) || strncmp(path, "/proc/self/fd/", 14) == 0)
        return open(path, flags, mode);
    return fd_open_no_links(path, flags, mode);
}

int fd_open_no_links(const char *path, int flags, mode_t mode)
{
    struct open_how how = {.flags = (unsigned)flags, .mode = mode, .resolve = RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    return fd < 0 && errno == ENOSYS ? open_by_parts(path, flags, mode) : fd;
}

ssize_t fd_read_file(int dirfd, const char *path, char *out, size_t size)
{
    autofd fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t used = 0;
    for (;;) {
        ssize_t n = read(fd, out + used, size - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        used += (size_t)n;
        if (used == size)
            return -EFBIG;
        if (n < SURELY_LAST)
            break;
    }
    out[used] = 0;
    return (ssize_t)used;
}

int fd_write_file(int dirfd, const char *path, const char *text)
{
    autofd fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t len = strlen(text);
    ssize_t n = -1;
    errno = EINTR;
    /* cgroup v1 gives up the write of a limit with EINTR if the kernel has work for this task. */
    for (int i = 0; i < WRITE_TRIES && n < 0 && errno == EINTR; i++)
        n = write(fd, text, len);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

int fd_read_all(int fd, size_t max, char **out, size_t *len)
{
    size_t size = 4096, used = 0;
    autofree char *data = malloc(size);
    if (!data)
        return -ENOMEM;
    for (;;) {
        if (used + 1 == size) {
            size *= 2;
            char *grown = realloc(data, size);
            if (!grown)
                return -ENOMEM;
            data = grown;
        }
        ssize_t n = read(fd, data + used, size - used - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        used += (size_t)n;
        if (used > max)
            return -EFBIG;
    }
    data[used] = 0;
    *len = used;
    *out = data;
    data = NULL;
    return 0;
}
