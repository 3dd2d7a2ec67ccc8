/* A folder of its own for a test that needs files: made before it, removed after it with all that
 * is in it. */
#ifndef UNIT_FOLDER_H
#define UNIT_FOLDER_H

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

struct folder {
    char path[64];
    int fd;
    char file[128]; /* of the last folder_path() */
};

static inline int folder_setup(void **state)
{
    struct folder *folder = calloc(1, sizeof *folder);
    if (!folder)
        return -1;
    snprintf(folder->path, sizeof folder->path, "/tmp/brig-unit.XXXXXX");
    if (!mkdtemp(folder->path))
        return -1;
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = folder;
    return folder->fd < 0 ? -1 : 0;
}

static inline int folder_remove_one(const char *path, const struct stat *st, int flag,
                                    struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline int folder_teardown(void **state)
{
    struct folder *folder = *state;
    close(folder->fd);
    nftw(folder->path, folder_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
    return 0;
}

static inline const char *folder_path(struct folder *folder, const char *name)
{
    snprintf(folder->file, sizeof folder->file, "%s/%s", folder->path, name);
    return folder->file;
}

/* Write a file with exactly this mode, whatever the umask is, and return its path. */
static inline const char *folder_write(struct folder *folder, const char *name, const void *bytes,
                                       size_t len, mode_t mode)
{
    int fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return folder_path(folder, name);
}

static inline const char *folder_text(struct folder *folder, const char *name, const char *text,
                                      mode_t mode)
{
    return folder_write(folder, name, text, strlen(text), mode);
}

#define folder_test(test) cmocka_unit_test_setup_teardown(test, folder_setup, folder_teardown)

#endif
