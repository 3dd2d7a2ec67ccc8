/* SPDX-License-Identifier: MIT */
/* The memory file of a call of a template (brig_run_memory() of brig.h). The file is ours, its
 * content and size are the guest's: it counts only if the guest can change neither any more. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "run.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int brig_run_memory(const struct brig_run *run, uint64_t *size)
{
    struct stat st;
    int fd = run->spawned.memory;
    /* The seals come first: the size is final only behind them. */
    int seals = fd >= 0 ? fcntl(fd, F_GET_SEALS) : 0;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
        return -ENOENT;
    if (seals < 0 || (seals & SEALS) != SEALS)
        return -EPERM;
    if ((uint64_t)st.st_size > run->plan.limits.result_bytes)
        return -EFBIG;
    *size = (uint64_t)st.st_size;
    return fd;
}
