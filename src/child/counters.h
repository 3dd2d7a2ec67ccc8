/* SPDX-License-Identifier: MIT */
/* Limits on the counters that the kernel keeps per user. It charges them to the owner of a user
 * namespace too, and all runs of that owner share them, so one run gets only a part of each. The
 * limit on user namespaces is 0: the guest cannot create any, even without a seccomp filter. */
#ifndef CHILD_COUNTERS_H
#define CHILD_COUNTERS_H

#include <linux/errno.h>

#include "plain_text.h"

static inline long bound_counters(void)
{
    static const struct {
        const char *path, *value;
    } counters[] = {
        {"/proc/sys/user/max_user_namespaces", "0"},
        {"/proc/sys/user/max_inotify_instances", "32"},
        {"/proc/sys/user/max_inotify_watches", "16384"},
    };
    for (uint32_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        long ret = write_path(counters[i].path, counters[i].value);
        if (ret < 0 && ret != -ENOENT) /* the kernel has no such counter */
            return ret;
    }
    return 0;
}

#endif
