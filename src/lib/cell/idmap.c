/* SPDX-License-Identifier: MIT */
/* Finds out whether an id-mapped mount can give root's files on a file system to a guest. Most
 * local file systems allow it; overlayfs, NFS, 9p and most of FUSE do not. It tries on a detached
 * mount that nobody sees. Called by view.c as root. */
#include "idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "ns_helper.h"

#define XFS_MAGIC 0x58465342

/* These have supported it since id-mapped mounts exist, or soon after: no need to try. */
static bool is_known(int fd)
{
    static const long known[] = {EXT4_SUPER_MAGIC, XFS_MAGIC, BTRFS_SUPER_MAGIC};
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if ((long)fs.f_type == known[i])
            return true;
    }
    return false;
}

static bool try_map(int fd, int user)
{
    struct mount_attr map = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)user};
    autofd tree =
        (int)syscall(SYS_open_tree, fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    return tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &map, sizeof map) == 0 ||
           errno != EINVAL; /* the real mount reports any other failure */
}

bool idmap_works(const char *path, uint64_t guest_uid)
{
    autofd fd = fd_open_no_links(path, O_PATH | O_CLOEXEC, 0);
    if (fd < 0 || is_known(fd))
        return true;
    struct ns_helper helper = NS_HELPER_NONE;
    int ret = ns_helper_start(&helper, false, NULL);
    if (ret == 0)
        ret = ns_helper_map(&helper, guest_uid, NULL);
    bool works = ret < 0 || try_map(fd, helper.user);
    ns_helper_done(&helper);
    return works;
}
