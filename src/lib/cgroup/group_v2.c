/* SPDX-License-Identifier: MIT */
/* cgroup v2.
 *
 * Runs go to the nearest directory, from the caller's own cgroup upwards, that is writable, can
 * hand memory and pids to its children, and is reached without leaving a limit that binds the
 * caller. v2 gives controllers only to the children of cgroups without processes (except for the
 * root), so the caller's own cgroup usually does not qualify. If the caller is alone in it, it
 * moves to a leaf of its own for as long as it has the library open. */
#include "group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/error.h"
#include "base/fd.h"

#define STAGE "cgroup"
#define ROOT  "/sys/fs/cgroup"

static const struct {
    const char *name, *enable;
    unsigned bit;
} controllers[] = {
    {"memory", "+memory", CONTROL_MEMORY},
    {"pids", "+pids", CONTROL_PIDS},
    {"cpu", "+cpu", CONTROL_CPU},
};

/* The controllers that a file lists. */
static unsigned read_controllers(int dir, const char *file)
{
    char text[512], *save = NULL;
    unsigned found = 0;
    if (fd_read_file(dir, file, text, sizeof text) < 0)
        return 0;
    for (char *name = strtok_r(text, " \n", &save); name; name = strtok_r(NULL, " \n", &save)) {
        for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++)
            found |= strcmp(name, controllers[i].name) == 0 ? controllers[i].bit : 0;
    }
    return found;
}

/* Enable controllers one by one, so that a missing one does not block the others. Memory comes
 * first, and without it none is enabled: pids and cpu can be enabled in a cgroup with processes,
 * but turn it into a threaded domain, below which no process can be put. */
static unsigned enable_controllers(int dir)
{
    unsigned on = read_controllers(dir, "cgroup.subtree_control");
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++) {
        if (on & controllers[i].bit)
            continue;
        int ret = fd_write_file(dir, "cgroup.subtree_control", controllers[i].enable);
        if (ret < 0 && controllers[i].bit == CONTROL_MEMORY)
            return on;
    }
    return read_controllers(dir, "cgroup.subtree_control");
}

/* cgroup.procs has to be writable too: the kernel requires this of the common ancestor of the
 * cgroups between which a process is moved. */
static bool is_writable(struct group_place *place, int dir)
{
    return group_may_write(place, dir, ".") && group_may_write(place, dir, "cgroup.procs");
}

static bool has_limit(int dir)
{
    char text[64];
    return group_read_number(dir, "memory.max") != BRIG_UNKNOWN ||
           group_read_number(dir, "memory.high") != BRIG_UNKNOWN ||
           group_read_number(dir, "pids.max") != BRIG_UNKNOWN ||
           (fd_read_file(dir, "cpu.max", text, sizeof text) > 0 && strncmp(text, "max", 3) != 0);
}

static bool is_alone(int dir)
{
    char text[64], *end;
    ssize_t n = fd_read_file(dir, "cgroup.procs", text, sizeof text);
    return n > 0 && strtol(text, &end, 10) == getpid() && end[0] == '\n' && end[1] == 0;
}

static const unsigned needed = CONTROL_MEMORY | CONTROL_PIDS;

/* Make room in a cgroup that contains only this process. */
static unsigned move_to_leaf(struct group_place *place, int dir)
{
    snprintf(place->leaf, sizeof place->leaf, "brig-supervisor.%d", (int)getpid());
    if (mkdirat(dir, place->leaf, 0755) < 0)
        return 0;
    autofd leaf = openat(dir, place->leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unsigned on = 0;
    if (leaf >= 0 && fd_write_file(leaf, "cgroup.procs", "0") == 0)
        on = enable_controllers(dir);
    if ((on & needed) != needed) {
        fd_write_file(dir, "cgroup.procs", "0");
        unlinkat(dir, place->leaf, AT_REMOVEDIR);
        return 0;
    }
    place->leaf_parent = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    return on;
}

static void strip_last(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
}

static int search_upwards(struct group_place *place, const char *root, char *own)
{
    char path[sizeof place->path];
    for (bool first = true;; first = false) {
        if (snprintf(path, sizeof path, "%s%s", root, own) >= (int)sizeof path)
            return -ENAMETOOLONG;
        autofd dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0) {
            int errnum = errno;
            group_note_fault(place, errnum);
            return -errnum;
        }
        unsigned on = is_writable(place, dir) ? enable_controllers(dir) : 0;
        bool leaf = strstr(own, "/brig-supervisor.") != NULL; /* of another handle: do not nest */
        if ((on & needed) != needed && first && !leaf && is_writable(place, dir) && is_alone(dir))
            on = move_to_leaf(place, dir);
        if ((on & needed) == needed) {
            place->controllers = on;
            place->dirs[0] = take_fd(&dir);
            place->serves[0] = on;
            place->count = 1;
            snprintf(place->path, sizeof place->path, "%s", path);
            return 0;
        }
        if (!*own || has_limit(dir)) {
            snprintf(place->why, sizeof place->why,
                     "no cgroup for a run can be created in %.100s; as an ordinary user, start "
                     "brig in a delegated one: systemd-run --user --scope -p Delegate=yes brig ...",
                     path);
            return -EACCES;
        }
        strip_last(own);
    }
}

static int find(struct group_place *place, const char *own_groups)
{
    static const char *const roots[] = {ROOT, ROOT "/unified"};
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        struct statfs fs;
        char names[8], own[sizeof place->path];
        if (statfs(roots[i], &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
            continue;
        if (group_own_path(own_groups, "", names, sizeof names, own, sizeof own) < 0)
            continue;
        /* A v2 tree without memory is the empty half of a hybrid setup; v1 has the rest. */
        autofd root = open(roots[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (root < 0 || !(read_controllers(root, "cgroup.controllers") & CONTROL_MEMORY))
            continue;
        if (strcmp(own, "/") == 0)
            own[0] = 0;
        int ret = search_upwards(place, roots[i], own);
        if (ret == 0 && !(place->controllers & CONTROL_CPU))
            snprintf(place->why, sizeof place->why, "the cpu controller is not delegated to %.150s",
                     place->path);
        return ret;
    }
    return -ENOENT;
}

static int write_limit(const struct group *group, const char *file, const char *text,
                       struct brig_error *err)
{
    int ret = fd_write_file(group->dirs[0], file, text);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "cannot write %s to %s of the cgroup %s: %s", text,
                            file, group->name, error_text(-ret));
    return 0;
}

static int limit_memory(struct group *group, uint64_t bytes, struct brig_error *err)
{
    char text[24];
    if (bytes == BRIG_UNLIMITED)
        return 0;
    snprintf(text, sizeof text, "%" PRIu64, bytes);
    int ret = write_limit(group, "memory.max", text, err);
    if (ret < 0)
        return ret;
    /* Swap counts as memory, and the simplest way to count it is to allow none. The file is missing
     * if the kernel has no swap accounting, and then usually no swap. */
    ret = fd_write_file(group->dirs[0], "memory.swap.max", "0");
    if (ret < 0 && ret != -ENOENT)
        return error_system(err, STAGE, -ret, "cannot turn off swap for the cgroup %s: %s",
                            group->name, error_text(-ret));
    return write_limit(group, "memory.oom.group", "1", err);
}

static int limit(struct group *group, const struct group_limits *limits, struct brig_error *err)
{
    char text[48];
    int dir = group->dirs[0];
    int ret = limit_memory(group, limits->memory_bytes, err);
    if (ret == 0 && limits->pids != BRIG_UNLIMITED) {
        snprintf(text, sizeof text, "%" PRIu64, limits->pids);
        ret = write_limit(group, "pids.max", text, err);
    }
    if (ret == 0 && limits->milli_cpus != BRIG_UNLIMITED &&
        (group->place->controllers & CONTROL_CPU)) {
        snprintf(text, sizeof text, "%" PRIu64 " 100000", limits->milli_cpus * 100);
        ret = write_limit(group, "cpu.max", text, err);
    }
    if (ret == 0 && limits->low_priority) /* a tenth of the default weight */
        ret = write_limit(group, "cpu.weight", "10", err);
    if (ret < 0)
        return ret;
    group->pids_events = openat(dir, "pids.events", O_RDONLY | O_CLOEXEC);
    group->kill_fd = openat(dir, "cgroup.kill", O_WRONLY | O_CLOEXEC);
    group->kill_byte = '1';
    return 0;
}

static void read_counters(const struct group *group, struct group_counters *c, bool now)
{
    int dir = group->dirs[0];
    if (now) {
        c->memory_now = group_read_number(dir, "memory.current");
        c->pids_now = group_read_number(dir, "pids.current");
        c->pids_refused = group_read_key(dir, "pids.events", "max");
    }
    c->memory_peak = group_read_number(dir, "memory.peak");
    c->pids_peak = group_read_number(dir, "pids.peak");
    c->oom_kills = group_read_key(dir, "memory.events", "oom_kill");
    uint64_t user = group_read_key(dir, "cpu.stat", "user_usec");
    uint64_t system = group_read_key(dir, "cpu.stat", "system_usec");
    c->cpu_user_ns = user == BRIG_UNKNOWN ? user : user * 1000;
    c->cpu_system_ns = system == BRIG_UNKNOWN ? system : system * 1000;
}

static void kill_group(const struct group *group)
{
    /* cgroup.kill exists since Linux 5.14; it also kills processes that are forked meanwhile. */
    if (fd_write_file(group->dirs[0], "cgroup.kill", "1") < 0) {
        fd_write_file(group->dirs[0], "pids.max", "0");
        group_kill_listed(group->dirs[0], group->name);
    }
}

const struct group_backend group_backend_v2 = {
    .name = "cgroup v2",
    .find = find,
    .limit = limit,
    .read = read_counters,
    .kill = kill_group,
};
