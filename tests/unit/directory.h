/* SPDX-License-Identifier: MIT */
/* A directory of its own for a test that needs files: made before it, removed after it with all
 * that is in it. */
#ifndef UNIT_DIR_H
#define UNIT_DIR_H

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

struct dir {
    char path[64];
    int fd;
    char file[128]; /* of the last dir_path() */
};

static inline int dir_setup(void **state)
{
    struct dir *dir = calloc(1, sizeof *dir);
    if (!dir)
        return -1;
    snprintf(dir->path, sizeof dir->path, "/tmp/brig-unit.XXXXXX");
    if (!mkdtemp(dir->path))
        return -1;
    dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = dir;
    return dir->fd < 0 ? -1 : 0;
}

static inline int dir_remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline int dir_teardown(void **state)
{
    struct dir *dir = *state;
    close(dir->fd);
    nftw(dir->path, dir_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(dir);
    return 0;
}

static inline const char *dir_path(struct dir *dir, const char *name)
{
    snprintf(dir->file, sizeof dir->file, "%s/%s", dir->path, name);
    return dir->file;
}

/* Write a file with exactly this mode, whatever the umask is, and return its path. */
static inline const char *dir_write(struct dir *dir, const char *name, const void *bytes,
                                    size_t len, mode_t mode)
{
    int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return dir_path(dir, name);
}

static inline const char *dir_text(struct dir *dir, const char *name, const char *text, mode_t mode)
{
    return dir_write(dir, name, text, strlen(text), mode);
}

#define dir_test(test) cmocka_unit_test_setup_teardown(test, dir_setup, dir_teardown)

#endif
