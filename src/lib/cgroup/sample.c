/* SPDX-License-Identifier: MIT */
/* Samples the usage of a process tree where there is no cgroup. */
#include "sample.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "child/tree.h"

#define TREE_MAX 8192

static uint64_t read_rss(int pid)
{
    char path[32], text[128];
    unsigned long long size, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) > 0)
        sscanf(text, "%llu %llu", &size, &resident);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t read_pss(int pid)
{
    char path[40], text[4096];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
        return read_rss(pid); /* not permitted: use the public figure */
    uint64_t kib = 0;
    const char *line = strstr(text, "\nPss:");
    const char *swap = strstr(text, "\nSwapPss:");
    if (line)
        kib += strtoull(line + 5, NULL, 10);
    if (swap)
        kib += strtoull(swap + 9, NULL, 10);
    return kib * 1024;
}

/* For root itself, count only the usage of the children it waited for. A zombie that root has yet
 * to reap is no longer a process of the guest. */
static void add_stat(int pid, int root, struct sample *out)
{
    bool own = pid != root;
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
        return;
    const char *p = strrchr(text, ')');
    unsigned long long utime, stime, cutime, cstime;
    long threads;
    char state;
    int parent;
    if (!p ||
        sscanf(p + 2, "%c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %ld",
               &state, &parent, &utime, &stime, &cutime, &cstime, &threads) != 7)
        return;
    uint64_t tick = NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
    out->cpu_user_ns += (own ? utime + cutime : cutime) * tick;
    out->cpu_system_ns += (own ? stime + cstime : cstime) * tick;
    if (own && !(state == 'Z' && parent == root))
        out->pids += (uint64_t)(threads > 0 ? threads : 1);
}

int sample_tree(int root, uint64_t exact_from, struct sample *out)
{
    autofree struct tree_node *nodes = malloc(TREE_MAX * sizeof *nodes);
    if (!nodes)
        return -ENOMEM;
    *out = (struct sample){0};
    long count = tree_list(root, nodes, TREE_MAX);
    if (count < 0)
        return (int)count;
    add_stat(root, root, out);
    for (long i = 0; i < count; i++) {
        add_stat(nodes[i].pid, root, out);
        out->memory_bytes += read_rss(nodes[i].pid);
    }
    if (out->memory_bytes >= exact_from) {
        out->memory_bytes = 0;
        for (long i = 0; i < count; i++)
            out->memory_bytes += read_pss(nodes[i].pid);
    }
    return 0;
}
