/* SPDX-License-Identifier: MIT */
/* Opens the files that the caller names, without following symlinks. source.h has the interface. */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

#define STAGE "view"

static int open_plainly(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

static int explain(const char *what, const char *path, int errnum, struct brig_error *err)
{
    struct stat st;
    bool link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    if (errnum == ELOOP) {
        char buffer[PATH_MAX];
        const char *real = realpath(path, buffer);
        if (!real && link)
            return error_set(err, BRIG_FAULT_REFUSED, STAGE, errnum,
                             "%s: %.200s: is a symlink to something that does not exist", what,
                             path);
        return error_set(err, BRIG_FAULT_REFUSED, STAGE, errnum,
                         "%s: %.200s: is or goes through a symlink, which a guest could have put "
                         "there; name the real path%s%.200s",
                         what, path, real ? ": " : "", real ? real : "");
    }
    const char *why = errnum == ENOENT ? "does not exist" : error_text(errnum);
    return error_set(err, BRIG_FAULT_REFUSED, STAGE, errnum, "%s: %.300s: %s", what, path, why);
}

/* The kernel's own file systems are not shown: a cell has its own. */
static const char *unfit(int fd, const struct stat *st)
{
    static const long kernel[] = {PROC_SUPER_MAGIC,   SYSFS_MAGIC,         DEBUGFS_MAGIC,
                                  TRACEFS_MAGIC,      SECURITYFS_MAGIC,    BPF_FS_MAGIC,
                                  CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEVPTS_SUPER_MAGIC,
                                  SELINUX_MAGIC,      EFIVARFS_MAGIC,      NSFS_MAGIC,
                                  PSTOREFS_MAGIC};
    struct statfs fs;
    if (st->st_nlink == 0)
        return "was deleted";
    if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
        return "is a device; a cell has only its own";
    if (fstatfs(fd, &fs) < 0)
        return error_text(errno);
    for (size_t i = 0; i < sizeof kernel / sizeof *kernel; i++) {
        if ((long)fs.f_type == kernel[i])
            return "is a part of the kernel's own file systems, which are not shown in a cell";
    }
    return NULL;
}

/* Is a path without symlinks also the real path of its file? */
static bool is_canonical(const char *path)
{
    size_t len = strlen(path);
    return path[0] == '/' && !strstr(path, "//") && !strstr(path, "/.") &&
           (len == 1 || path[len - 1] != '/');
}

int source_open(struct source *source, const char *what, const char *path, struct brig_error *err)
{
    struct stat st;
    autofd fd = open_plainly(path);
    if (fd < 0 && errno == ENOSYS) /* a seccomp filter cannot check its arguments, and refuses it */
        return error_system(err, "cell", ENOSYS, "openat2: %s", error_text(ENOSYS));
    if (fd < 0)
        return explain(what, path, errno, err);
    if (fstat(fd, &st) < 0)
        return error_system(err, STAGE, errno, "%s: %.300s: %s", what, path, error_text(errno));
    const char *why = unfit(fd, &st);
    if (why)
        return error_refused(err, STAGE, "%s: %.300s: %s", what, path, why);
    char real[PATH_MAX];
    if (!is_canonical(path) && !realpath(path, real))
        return error_refused(err, STAGE, "%s: %.300s: %s", what, path, error_text(errno));
    char *copy = strdup(is_canonical(path) ? path : real);
    if (!copy)
        return error_memory(err, STAGE);
    *source = (struct source){
        .path = copy,
        .device = source_device(&st),
        .inode = st.st_ino,
        .dir = S_ISDIR(st.st_mode),
    };
    return 0;
}

uint64_t source_device(const struct stat *st)
{
    return ((uint64_t)major(st->st_dev) << 32) | minor(st->st_dev);
}

void source_done(struct source *source)
{
    free(source->path);
    source->path = NULL;
}
