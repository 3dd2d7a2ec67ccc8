/* SPDX-License-Identifier: MIT */
/* Makes and removes scratch directories. scratch.h has the interface. Their content belongs to the
 * guest: no name in it is trusted, and no symlink is followed. */
#include "scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "lib/cell/cell.h"
#include "lib/cgroup/maker.h"

#define STAGE         "scratch"
#define PARENT        "/tmp"
#define REMOVE_WITHIN (10 * NS_PER_S)

void scratch_choose(char *path, size_t size)
{
    char name[MAKER_NAME_SIZE];
    maker_name(name, sizeof name);
    snprintf(path, size, PARENT "/%s", name);
}

static int open_dir(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- removing ------------------------------------------------------------------------------ */

/* A directory that is not empty is moved to the top, to be emptied there. So no tree is too deep,
 * and no more than two directories are open at a time. */
struct removal {
    int top;
    unsigned long moved;
    uint64_t until;
};

static int lift(struct removal *removal, int dir, const char *name)
{
    char to[32];
    for (;;) {
        snprintf(to, sizeof to, "brig-%lu", removal->moved++);
        if (syscall(SYS_renameat2, dir, name, removal->top, to, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return -errno;
    }
}

static int remove_entry(struct removal *removal, int dir, const char *name)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISDIR(st.st_mode))
        return unlinkat(dir, name, 0) < 0 ? -errno : 0;
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
        return 0;
    /* The owner needs these permissions to move the directory and to list it. Root does not need
     * them and must not set them, because fchmodat() would follow a symlink put in its place. */
    if (geteuid() != 0 && fchmodat(dir, name, 0700, 0) < 0)
        return -errno;
    return dir == removal->top ? 1 : lift(removal, dir, name);
}

/* Remove the content of a directory. Returns the number of directories left in it (for the top
 * only), or -errno. */
static int empty_dir(struct removal *removal, int dir)
{
    int left = 0, ret = 0;
    int fd = open_dir(dir, ".");
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    if (!listing) {
        ret = -errno;
        fd_close_at(&fd);
        return ret;
    }
    const struct dirent *entry;
    while (ret >= 0 && (entry = readdir(listing))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ret = remove_entry(removal, dir, entry->d_name);
        left += ret > 0;
        if (clock_now() > removal->until)
            ret = -ETIMEDOUT;
    }
    closedir(listing);
    return ret < 0 ? ret : left;
}

/* Empty every directory at the top; its subdirectories are moved to the top. */
static int empty_all(struct removal *removal)
{
    int fd = open_dir(removal->top, ".");
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    int ret = listing ? 0 : -errno;
    const struct dirent *entry;
    while (listing && ret >= 0 && (entry = readdir(listing))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        autofd dir = open_dir(removal->top, entry->d_name);
        if (dir >= 0)
            ret = empty_dir(removal, dir);
        if (dir >= 0 && ret >= 0)
            unlinkat(removal->top, entry->d_name, AT_REMOVEDIR);
    }
    if (listing)
        closedir(listing);
    else
        fd_close_at(&fd);
    return ret;
}

static int remove_at(int parent, const char *name)
{
    autofd top = open_dir(parent, name);
    if (top < 0)
        return errno == ENOENT ? 0 : -errno;
    struct removal removal = {.top = top, .until = clock_now() + REMOVE_WITHIN};
    int left = empty_dir(&removal, top);
    while (left > 0) {
        left = empty_all(&removal);
        if (left >= 0)
            left = empty_dir(&removal, top);
    }
    if (left < 0)
        return left;
    return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int scratch_remove(const char *path)
{
    return remove_at(AT_FDCWD, path);
}

/* ---- making -------------------------------------------------------------------------------- */

static void sweep(void)
{
    int fd = open_dir(AT_FDCWD, PARENT);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    while (listing && (entry = readdir(listing))) {
        struct stat st;
        /* Any user may make a directory of such a name, so remove only our own. Root may have given
         * its directory to any user, and removing one follows no symlink. */
        if (maker_is_dead(entry->d_name) &&
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            (st.st_uid == geteuid() || geteuid() == 0))
            remove_at(fd, entry->d_name);
    }
    if (listing)
        closedir(listing);
    else
        fd_close_at(&fd);
}

int scratch_make(const char *path, uint64_t owner, struct brig_error *err)
{
    sweep();
    if (mkdir(path, 0700) < 0)
        return error_system(err, STAGE, errno, "%.200s: cannot be made: %s", path,
                            error_text(errno));
    autofd dir = open_dir(AT_FDCWD, path);
    if (dir >= 0 && (!owner || fchown(dir, (uid_t)owner, (gid_t)owner) == 0))
        return 0;
    int errnum = errno;
    rmdir(path);
    return error_system(err, STAGE, errnum, "%.200s: cannot be given to the guest: %s", path,
                        error_text(errnum));
}
