/* SPDX-License-Identifier: MIT */
/* Targets of results and events. */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/writer.h"
#include "base/units.h"
#include "brig.h"

#define STAGE "command line"

static int open_number(const char *target, const char *option, int *fd, struct brig_error *err)
{
    uint64_t number = 0;
    /* units_parse_count() refuses 0, and stdin is not a target. */
    const char *why = units_parse_count(target + 3, &number);
    if (why)
        return error_usage(err, STAGE, "%s: \"%.80s\": is not the number of a file descriptor",
                           option, target);
    int flags = fcntl((int)number, F_GETFL);
    if (flags < 0)
        return error_usage(err, STAGE, "%s: file descriptor %d is not open", option, (int)number);
    if (!(flags & (O_WRONLY | O_RDWR))) /* O_PATH sets neither */
        return error_usage(err, STAGE, "%s: file descriptor %d is not open for writing", option,
                           (int)number);
    int own = fcntl((int)number, F_DUPFD_CLOEXEC, 3);
    if (own < 0)
        return error_system(err, STAGE, errno, "%s: %s", option, error_text(errno));
    *fd = own;
    return 0;
}

int target_open(const char *target, const char *option, int *fd, struct brig_error *err)
{
    if (strncmp(target, "fd:", 3) == 0)
        return open_number(target, option, fd, err);
    if (!*target)
        return error_usage(err, STAGE, "%s: is empty", option);
    /* O_NONBLOCK: do not wait for a reader of a FIFO that a guest left. */
    int own = fd_open_plain(target,
                            O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (own < 0 && errno == ELOOP)
        return error_usage(err, STAGE,
                           "%s: %.200s: is a symlink, or goes through one; name the file itself",
                           option, target);
    if (own < 0)
        return error_usage(err, STAGE, "%s: %.200s: %s", option, target,
                           errno == ENXIO ? "nobody reads it" : error_text(errno));
    fcntl(own, F_SETFL, 0);
    *fd = own;
    return 0;
}

int target_guard(int fd, struct brig_spec *spec, struct brig_error *err)
{
    char link[64], path[PATH_MAX];
    struct stat st, named;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fstat(fd, &st) < 0 || S_ISCHR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink == 0))
        return 0; /* closed, a character device, or a deleted file */
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    if (len > 0 && path[0] != '/' && !S_ISREG(st.st_mode))
        return 0; /* a pipe or a socket */
    if (path[0] == '/' && lstat(path, &named) == 0 && named.st_ino == st.st_ino &&
        named.st_dev == st.st_dev)
        return brig_spec_guard(spec, path, err);
    if (!S_ISREG(st.st_mode) && len > 0)
        return 0; /* a FIFO without a name */
    return error_refused(err, STAGE,
                         "file descriptor %d: its path cannot be found out, so it cannot be "
                         "protected from the guest; use a shorter path, or a pipe",
                         fd);
}

bool target_is_same(int fd, int other)
{
    struct stat a, b;
    if (fstat(fd, &a) < 0 || fstat(other, &b) < 0 || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
        return false;
    return !(S_ISCHR(a.st_mode) && a.st_rdev == makedev(1, 3));
}

bool target_is_kept(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink > 0;
}

int target_write(int fd, const char *bytes, size_t len, uint64_t patience_ns)
{
    return writer_deliver(fd, bytes, len, patience_ns);
}
