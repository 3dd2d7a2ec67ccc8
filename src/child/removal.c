/* SPDX-License-Identifier: MIT */
/* Removes cgroups when the supervisor is not there to do it. */
#include "removal.h"

#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/time_types.h>

#include <stdbool.h>

#include "sys.h"

#define REMOVE_ROUNDS 500
#define REMOVE_EVERY  2000000 /* ns */

static void write_file(int dir, const char *name, const char *text, size_t len)
{
    long fd = sys4(__NR_openat, dir, name, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    sys3(__NR_write, fd, text, len);
    sys1(__NR_close, fd);
}

/* A cgroup can stay busy for a moment after its last process was reaped. */
void removal_one(int parent, const char *name)
{
    for (int round = 0; round < REMOVE_ROUNDS; round++) {
        struct __kernel_timespec pause = {.tv_nsec = REMOVE_EVERY};
        if (sys3(__NR_unlinkat, parent, name, AT_REMOVEDIR) != -EBUSY)
            return;
        sys5(__NR_ppoll, 0, 0, &pause, 0, 0);
    }
}

/* True if the name belongs to the same supervisor: only the last part of the names may differ. */
static bool is_sibling(const struct init_setup *setup, const char *name)
{
    uint64_t len = 0;
    for (uint64_t i = 0; setup->group_name[i]; i++)
        len = setup->group_name[i] == '-' ? i + 1 : len;
    for (uint64_t i = 0; i < len; i++) {
        if (name[i] != setup->group_name[i])
            return false;
    }
    return len > 0;
}

/* The forks of a template, which are dead by now, had cgroups of the same supervisor. Their own
 * inits cannot remove them. */
static void remove_siblings(const struct init_setup *setup, int parent)
{
    static char entries[8192] __attribute__((aligned(8)));
    struct entry { /* the layout of getdents64 */
        uint64_t inode;
        int64_t next;
        uint16_t size;
        uint8_t type;
        char name[];
    };
    long fd = sys4(__NR_openat, parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    for (;;) {
        long len = fd < 0 ? 0 : sys3(__NR_getdents64, fd, entries, sizeof entries);
        if (len <= 0)
            break;
        for (long at = 0; at < len;) {
            const struct entry *entry = (const struct entry *)(entries + at);
            if (is_sibling(setup, entry->name))
                removal_one(parent, entry->name);
            at += entry->size;
        }
    }
    if (fd >= 0)
        sys1(__NR_close, fd);
}

void removal_run(const struct init_setup *setup)
{
    for (uint32_t i = setup->group_count; i-- > 0;) {
        removal_one(setup->group_parents[i], setup->group_name);
        if (setup->template)
            remove_siblings(setup, setup->group_parents[i]);
    }
    if (setup->leaf_parent < 0)
        return;
    /* Undo the preparation by the supervisor: disable the controllers, leave the leaf, remove it.
     * If it has other runs left, only the last one succeeds. */
    static const char off[] = "-memory -pids -cpu";
    write_file(setup->leaf_parent, "cgroup.subtree_control", off, sizeof off - 1);
    write_file(setup->leaf_parent, "cgroup.procs", "0", 1);
    sys3(__NR_unlinkat, setup->leaf_parent, setup->leaf, AT_REMOVEDIR);
}
