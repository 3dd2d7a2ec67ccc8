/* SPDX-License-Identifier: MIT */
/* Moves file descriptors to the numbers that init expects. */
#ifndef CHILD_PLACE_H
#define CHILD_PLACE_H

#include <linux/close_range.h>
#include <linux/fcntl.h>

#include "sys.h"

/* Move every file descriptor to its slot. A slot may have the number of a file descriptor that is
 * not yet moved, so all of them are first duplicated above the slots. `image` stays open under any
 * number above the slots. */
static inline long place_fds(const int *fds, int *scratch, uint32_t count, int *image)
{
    long above = sys3(__NR_fcntl, *image, F_DUPFD_CLOEXEC, count);
    if (above < 0)
        return above;
    *image = (int)above;
    for (uint32_t i = 0; i < count; i++) {
        long fd = sys3(__NR_fcntl, fds[i], F_DUPFD_CLOEXEC, count);
        if (fd < 0)
            return fd;
        scratch[i] = (int)fd;
    }
    for (uint32_t i = 0; i < count; i++) {
        long fd = sys3(__NR_dup3, scratch[i], i, 0);
        if (fd < 0)
            return fd;
    }
    /* Close on exec also the file descriptors that another thread of the host opened without
     * O_CLOEXEC. */
    return sys3(__NR_close_range, count, ~0u, CLOSE_RANGE_CLOEXEC);
}

#endif
