/* Private folders on disk. Their content is the guest's: no name in it is trusted, no link
 * followed. */
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

static int open_folder(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- removing ------------------------------------------------------------------------------ */

/* A folder that is not empty is moved up to the top, to be emptied there: no tree is too deep, and
 * no more than two folders are open at a time. */
struct removal {
    int top;
    unsigned long moved;
    uint64_t until;
};

static int lift(struct removal *removal, int folder, const char *name)
{
    char to[32];
    for (;;) {
        snprintf(to, sizeof to, "brig-%lu", removal->moved++);
        if (syscall(SYS_renameat2, folder, name, removal->top, to, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return -errno;
    }
}

static int remove_entry(struct removal *removal, int folder, const char *name)
{
    struct stat st;
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISDIR(st.st_mode))
        return unlinkat(folder, name, 0) < 0 ? -errno : 0;
    if (unlinkat(folder, name, AT_REMOVEDIR) == 0)
        return 0;
    /* The owner needs these to move it, and to look into it. Root does not, and must not: this
     * follows a link, should somebody put one there. */
    if (geteuid() != 0 && fchmodat(folder, name, 0700, 0) < 0)
        return -errno;
    return folder == removal->top ? 1 : lift(removal, folder, name);
}

/* Remove what is in a folder. Returns how many folders are left in it, for the top alone, or
 * -errno. */
static int empty_folder(struct removal *removal, int folder)
{
    int left = 0, ret = 0;
    int fd = open_folder(folder, ".");
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        ret = -errno;
        fd_close_at(&fd);
        return ret;
    }
    const struct dirent *entry;
    while (ret >= 0 && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        ret = remove_entry(removal, folder, entry->d_name);
        left += ret > 0;
        if (clock_now() > removal->until)
            ret = -ETIMEDOUT;
    }
    closedir(dir);
    return ret < 0 ? ret : left;
}

/* Empty every folder that is at the top; what is in those comes to the top itself. */
static int empty_all(struct removal *removal)
{
    int fd = open_folder(removal->top, ".");
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    int ret = dir ? 0 : -errno;
    const struct dirent *entry;
    while (dir && ret >= 0 && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        autofd folder = open_folder(removal->top, entry->d_name);
        if (folder >= 0)
            ret = empty_folder(removal, folder);
        if (folder >= 0 && ret >= 0)
            unlinkat(removal->top, entry->d_name, AT_REMOVEDIR);
    }
    if (dir)
        closedir(dir);
    else
        fd_close_at(&fd);
    return ret;
}

static int remove_at(int parent, const char *name)
{
    autofd top = open_folder(parent, name);
    if (top < 0)
        return errno == ENOENT ? 0 : -errno;
    struct removal removal = {.top = top, .until = clock_now() + REMOVE_WITHIN};
    int left = empty_folder(&removal, top);
    while (left > 0) {
        left = empty_all(&removal);
        if (left >= 0)
            left = empty_folder(&removal, top);
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
    int fd = open_folder(AT_FDCWD, PARENT);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        struct stat st;
        /* Anybody may make a folder of such a name: only what is ours, or was given to a guest. */
        if (maker_is_dead(entry->d_name) &&
            fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            (st.st_uid == geteuid() || (geteuid() == 0 && cell_is_guest(st.st_uid))))
            remove_at(fd, entry->d_name);
    }
    if (dir)
        closedir(dir);
    else
        fd_close_at(&fd);
}

int scratch_make(const char *path, uint64_t owner, struct brig_error *err)
{
    sweep();
    if (mkdir(path, 0700) < 0)
        return error_system(err, STAGE, errno, "%.200s: cannot be made: %s", path,
                            error_text(errno));
    autofd folder = open_folder(AT_FDCWD, path);
    if (folder >= 0 && (!owner || fchown(folder, (uid_t)owner, (gid_t)owner) == 0))
        return 0;
    int errnum = errno;
    rmdir(path);
    return error_system(err, STAGE, errnum, "%.200s: cannot be given to the guest: %s", path,
                        error_text(errnum));
}
