/* SPDX-License-Identifier: MIT */
/* Owns the parts of a handle that do not depend on a run: the place for cgroups, the operator's
 * limits, and the image of init. Called by open.c and start.c. */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "places.h"

#define STAGE "open"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* The program built from src/child, as bytes. */
static const unsigned char init_image[] = {
#include "init_image.inc"
};

/* No process can write to a sealed memory file, even through /proc/PID/exe. */
static int make_init(struct brig_error *err)
{
    autofd fd = memfd_create("brig-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 every memory file was executable */
        fd = memfd_create("brig-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 && errno == EACCES)
        return error_refused(err, STAGE,
                             "memory files may not be executed here; brig needs "
                             "sysctl vm.memfd_noexec=1 or 0");
    if (fd < 0)
        return error_system(err, STAGE, errno, "cannot make a memory file: %s", error_text(errno));
    for (size_t done = 0; done < sizeof init_image;) {
        ssize_t n = write(fd, init_image + done, sizeof init_image - done);
        if (n < 0)
            return error_system(err, STAGE, errno, "cannot fill a memory file: %s",
                                error_text(errno));
        done += (size_t)n;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return error_system(err, STAGE, errno, "cannot seal a memory file: %s", error_text(errno));
    return take_fd(&fd);
}

static int open_self(struct brig *brig, struct brig_error *err)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd < 0)
        return error_system(err, STAGE, errno, "pidfd_open: %s", error_text(errno));
    fd_close_at(&brig->pidfd);
    brig->pidfd = fd;
    brig->pid = getpid();
    return 0;
}

int host_adopt(struct brig *brig, struct brig_error *err)
{
    if (brig->pid == getpid())
        return 0;
    base_mounts_cache_adopt(&brig->base_mounts_cache);
    brig->cells_wanted = 0;
    brig->pool = NULL; /* its thread and its cells belong to the parent process */
    /* Only the supervisor that moved itself to a leaf cgroup may undo the move. */
    fd_close_at(&brig->place.leaf_parent);
    group_place_rename(&brig->place);
    return open_self(brig, err);
}

static uint64_t read_file_max(void)
{
    char text[32];
    ssize_t n = fd_read_file(AT_FDCWD, "/proc/sys/fs/file-max", text, sizeof text);
    return n > 0 ? strtoull(text, NULL, 10) : UINT64_MAX;
}

void host_done(struct brig *brig)
{
    if (brig->pid != getpid())
        fd_close_at(&brig->place.leaf_parent);
    base_mounts_cache_done(&brig->base_mounts_cache);
    group_place_close(&brig->place);
    fd_close_at(&brig->init);
    fd_close_at(&brig->pidfd);
}

int host_init(struct brig *brig, struct brig_error *err)
{
    base_mounts_cache_init(&brig->base_mounts_cache);
    brig->pidfd = -1;
    brig->place.leaf_parent = -1;
    brig->init = make_init(err);
    int ret = brig->init < 0 ? brig->init : 0;
    if (ret == 0)
        ret = operator_read(&brig->maxima, BRIG_SYSCONFDIR "/brig/limits.json", err);
    if (ret == 0)
        ret = open_self(brig, err);
    if (ret < 0) {
        host_done(brig);
        return ret;
    }
    group_place_open(&brig->place);
    brig->file_max = read_file_max();
    return 0;
}
