/* SPDX-License-Identifier: MIT */
/* Builds /proc for a guest that has root's id on the host. The kernel shows more to that id, and
 * lets it change all of /proc/sys without any capability. So files that are not readable by
 * everybody are covered, and nothing in /proc is writable. Called by view_system.c. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "view_build.h"

#define NO_DIR      "dev/.none" /* a directory that no guest may open */
#define DEPTH_MAX   8
#define ENTRIES_MAX 65536
#define COVERS_MAX  40 /* in a directory of /proc; with more, the whole directory is covered */

struct walk {
    struct view *view;
    /* The device of /proc. A directory on another one is a mount of the host, and says nothing
     * about the cell's /proc. */
    dev_t device;
    unsigned entries;
    uint32_t begin; /* the first operation for this directory of /proc */
};

static void walk_dir(struct walk *walk, int fd, const char *path, unsigned depth);

static void cover_dir(struct walk *walk, const char *path)
{
    view_dir(walk->view, NO_DIR, 0);
    view_cover(walk->view, NO_DIR, view_text(walk->view, path), true);
}

/* Is the directory not to be searched? The entries per network device come and go, and hold
 * secrets. The entries of interrupts are all readable by everybody, and there are thousands. */
static bool is_left_out(struct walk *walk, const char *path)
{
    if (strcmp(path, "proc/sys/net/ipv6/conf") == 0) {
        cover_dir(walk, path);
        return true;
    }
    return strcmp(path, "proc/irq") == 0;
}

/* Search one of /proc's directories. If there is too much to cover in it, cover it as a whole. */
static void walk_into(struct walk *walk, int above, const char *name, const char *path,
                      unsigned depth)
{
    autofd fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (depth == 1)
        walk->begin = walk->view->count;
    if (fd < 0 || depth == DEPTH_MAX)
        cover_dir(walk, path);
    else
        walk_dir(walk, fd, path, depth);
    if (depth == 1 && walk->view->count - walk->begin > COVERS_MAX) {
        walk->view->count = walk->begin;
        cover_dir(walk, path);
    }
}

static void look_at(struct walk *walk, int above, const char *name, const char *dir, unsigned depth)
{
    char path[PATH_MAX];
    struct stat st;
    bool process = depth == 0 && *name >= '0' && *name <= '9';
    if (process || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ||
        snprintf(path, sizeof path, "%s/%s", dir, name) >= PATH_MAX)
        return;
    /* A container mounts /dev/null over files that it hides. */
    if (S_ISCHR(st.st_mode) || (S_ISREG(st.st_mode) && !(st.st_mode & S_IROTH)))
        view_cover(walk->view, VIEW_NOTHING, view_text(walk->view, path), true);
    if (!S_ISDIR(st.st_mode) || is_left_out(walk, path))
        return;
    if (st.st_dev != walk->device || (st.st_mode & (S_IROTH | S_IXOTH)) != (S_IROTH | S_IXOTH))
        cover_dir(walk, path);
    else
        walk_into(walk, above, name, path, depth + 1);
}

static void walk_dir(struct walk *walk, int fd, const char *path, unsigned depth)
{
    char entries[2048];
    long len;
    while ((len = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        for (long at = 0; at < len;) {
            const char *entry = entries + at;
            unsigned short size;
            memcpy(&size, entry + offsetof(struct dirent, d_reclen), sizeof size);
            if (++walk->entries > ENTRIES_MAX) {
                walk->view->too_many = true; /* the rest is unknown, so the view fails */
                return;
            }
            look_at(walk, fd, entry + offsetof(struct dirent, d_name), path, depth);
            at += size;
        }
    }
}

void view_seal_proc(struct view *view)
{
    struct stat st;
    autofd fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    view_add(view, CELL_COUNTERS, NULL, NULL);
    if (fd < 0 || fstat(fd, &st) < 0) {
        view->no_memory = true; /* nothing is known of /proc, so the view fails */
        return;
    }
    struct walk walk = {.view = view, .device = st.st_dev};
    walk_dir(&walk, fd, "proc", 0);
    view_cover(view, "proc", "proc", true);
}
