/* SPDX-License-Identifier: MIT */
/* Walks /proc/PID/task/TID/children. A child is listed under the thread that created it, so the
 * walk reads the files of all threads. */
#include "tree.h"

#include <linux/errno.h>
#include <linux/fcntl.h>

#include "plain_text.h"

struct list {
    struct tree_node *nodes;
    uint32_t count, max;
};

static long add_children(struct list *list, int taskfd, const char *path, int parent)
{
    char text[1024];
    uint32_t pid = 0;
    long fd = sys4(__NR_openat, taskfd, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    long n;
    while ((n = sys3(__NR_read, fd, text, sizeof text)) > 0) {
        for (long i = 0; i < n; i++) {
            /* NOLINTNEXTLINE(clang-analyzer-core.*): the kernel filled it in */
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (uint32_t)(text[i] - '0');
            } else if (pid) {
                if (list->count < list->max)
                    list->nodes[list->count++] = (struct tree_node){(int32_t)pid, parent};
                pid = 0;
            }
        }
    }
    sys1(__NR_close, fd);
    return n;
}

struct entry { /* struct linux_dirent64, which the kernel headers do not define */
    uint64_t ino;
    int64_t offset;
    uint16_t size;
    uint8_t type;
    char name[];
};

static uint32_t to_number(const char *text)
{
    uint32_t value = 0;
    /* NOLINTNEXTLINE(clang-analyzer-core.*): the kernel filled it in */
    for (; *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (uint32_t)(*text - '0');
    return *text ? 0 : value;
}

static long add_process(struct list *list, int pid)
{
    char path[64];
    union {
        char bytes[2048];
        struct entry align;
    } entries;
    put_text(put_number(put_text(path, "/proc/"), (uint32_t)pid), "/task");
    long fd = sys4(__NR_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    long n, ret = 0;
    while ((n = sys3(__NR_getdents64, fd, entries.bytes, sizeof entries)) > 0) {
        for (long at = 0; at < n;) {
            const struct entry *entry = (const void *)(entries.bytes + at);
            uint32_t tid = to_number(entry->name);
            at += entry->size;
            if (!tid)
                continue;
            put_text(put_number(path, tid), "/children");
            ret = add_children(list, (int)fd, path, pid);
        }
    }
    sys1(__NR_close, fd);
    return n < 0 ? n : ret;
}

long tree_list(int root, struct tree_node *nodes, uint32_t max)
{
    struct list list = {nodes, 0, max};
    long ret = add_process(&list, root);
    if (ret < 0)
        return ret;
    /* A process that has ended since it was listed has no children to add; this is no error. */
    for (uint32_t i = 0; i < list.count; i++)
        add_process(&list, nodes[i].pid);
    return list.count;
}

/* Read the parent from /proc/PID/stat: the field after the state, which follows the last ')'. */
static int read_parent(int pid, char *state)
{
    char path[32], text[512];
    put_text(put_number(put_text(path, "/proc/"), (uint32_t)pid), "/stat");
    long fd = sys4(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    long n = sys3(__NR_read, fd, text, sizeof text - 1);
    sys1(__NR_close, fd);
    if (n <= 0)
        return -1;
    text[n] = 0;
    long close = n;
    while (close > 0 && text[close] != ')')
        close--;
    if (text[close] != ')' || close + 4 >= n)
        return -1;
    int parent = 0;
    *state = text[close + 2];
    for (const char *p = text + close + 4; *p >= '0' && *p <= '9'; p++)
        parent = parent * 10 + (*p - '0');
    return parent;
}

int tree_counts(const struct tree_node *node, int heir)
{
    char state = 0;
    int parent = read_parent(node->pid, &state);
    return parent > 0 && !(state == 'Z' && parent == heir);
}

long tree_signal(const struct tree_node *node, int heir, int signal)
{
    long pidfd = sys2(__NR_pidfd_open, node->pid, 0);
    if (pidfd < 0)
        return pidfd;
    /* Only the heir can reap its children, so their pids cannot have been reused. */
    char state;
    int parent = node->parent == heir ? heir : read_parent(node->pid, &state);
    long ret = -ESRCH;
    if (parent == node->parent || parent == heir)
        ret = sys4(__NR_pidfd_send_signal, pidfd, signal, 0, 0);
    sys1(__NR_close, pidfd);
    return ret;
}
