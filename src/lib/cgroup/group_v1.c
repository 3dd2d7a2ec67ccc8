/* SPDX-License-Identifier: MIT */
/* cgroup v1 and hybrid: one hierarchy per controller. A run has a cgroup of the same name in each,
 * below the caller's own. */
#include "group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/error.h"
#include "base/fd.h"

#define STAGE "cgroup"
#define ROOT  "/sys/fs/cgroup"

#define SOCKET_PART  8
#define SOCKET_LEAST (UINT64_C(1) << 20)
#define SOCKET_MOST  (UINT64_C(64) << 20)

/* Memory comes first: group.c looks for leftovers in the first hierarchy. */
static const struct {
    const char *name;
    unsigned bit;
} controllers[] = {
    {"memory", CONTROL_MEMORY},
    {"pids", CONTROL_PIDS},
    {"cpu", CONTROL_CPU},
    {"cpuacct", CONTROL_CPUACCT},
};

static int open_v1(const char *path)
{
    struct statfs fs;
    if (statfs(path, &fs) < 0)
        return -errno;
    if (fs.f_type != CGROUP_SUPER_MAGIC)
        return -ENOENT;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Open the caller's own cgroup in the hierarchy of a controller. In a container without a cgroup
 * namespace the path lies outside of the container, and the mount itself is the container's own
 * cgroup. */
static int open_own(const char *own_groups, const char *controller, char *path, size_t size)
{
    char names[64], own[256];
    int ret = group_own_path(own_groups, controller, names, sizeof names, own, sizeof own);
    if (ret < 0)
        return ret;
    const char *const mounts[] = {names, controller};
    const char *const below[] = {strcmp(own, "/") == 0 ? "" : own, ""};
    for (size_t i = 0; i < 4; i++) {
        if (snprintf(path, size, ROOT "/%s%s", mounts[i % 2], below[i / 2]) >= (int)size)
            continue;
        ret = open_v1(path);
        if (ret >= 0)
            return ret;
    }
    return ret;
}

static void add_dir(struct group_place *place, int fd, unsigned bit, dev_t *devices)
{
    struct stat st = {0};
    place->controllers |= bit;
    if (fstat(fd, &st) < 0)
        st.st_dev = 0;
    devices[place->count] = st.st_dev;
    for (size_t i = 0; i < place->count; i++) {
        if (st.st_dev && devices[i] == st.st_dev) { /* mounted together, like cpu,cpuacct */
            place->serves[i] |= bit;
            close(fd);
            return;
        }
    }
    place->dirs[place->count] = fd;
    place->serves[place->count] = bit;
    place->count++;
}

static int find(struct group_place *place, const char *own_groups)
{
    dev_t devices[sizeof controllers / sizeof *controllers];
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++) {
        char path[sizeof place->path];
        autofd fd = open_own(own_groups, controllers[i].name, path, sizeof path);
        if (fd < 0) {
            group_note_fault(place, -fd);
            continue;
        }
        if (!group_may_write(place, fd, ".")) {
            if (!place->why[0])
                snprintf(place->why, sizeof place->why, "%.200s is not writable", path);
            continue;
        }
        if (place->count == 0)
            snprintf(place->path, sizeof place->path, "%s", path);
        add_dir(place, take_fd(&fd), controllers[i].bit, devices);
    }
    if (!(place->controllers & CONTROL_MEMORY) || !(place->controllers & CONTROL_PIDS)) {
        for (size_t i = 0; i < place->count; i++)
            close(place->dirs[i]);
        place->count = 0;
        return -ENOENT;
    }
    return 0;
}

static int dir_of(const struct group *group, unsigned bit)
{
    for (size_t i = 0; i < group->place->count; i++) {
        if (group->place->serves[i] & bit)
            return group->dirs[i];
    }
    return -1;
}

static int write_limit(const struct group *group, unsigned bit, const char *file, uint64_t value,
                       struct brig_error *err)
{
    int ret = group_write_number(dir_of(group, bit), file, value);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "cannot write %" PRIu64 " to %s of the cgroup %s: %s",
                            value, file, group->name, error_text(-ret));
    return 0;
}

static int limit_memory(struct group *group, uint64_t bytes, struct brig_error *err)
{
    int dir = dir_of(group, CONTROL_MEMORY);
    int ret = write_limit(group, CONTROL_MEMORY, "memory.limit_in_bytes", bytes, err);
    if (ret < 0 || bytes == BRIG_UNLIMITED)
        return ret;
    /* Limits memory and swap together; the file is absent where swap is not accounted. */
    ret = group_write_number(dir, "memory.memsw.limit_in_bytes", bytes);
    if (ret < 0 && ret != -ENOENT)
        return error_system(err, STAGE, -ret, "cannot limit swap of the cgroup %s: %s", group->name,
                            error_text(-ret));
    return 0;
}

/* v1 counts the buffers of TCP and UDP sockets separately, and only if they have a limit. They get
 * a fraction of the memory limit, in addition to it: enough for many connections, and never too
 * little for a single one. */
static int limit_sockets(struct group *group, uint64_t memory, struct brig_error *err)
{
    uint64_t bytes = memory / SOCKET_PART;
    if (memory == BRIG_UNLIMITED)
        return 0;
    bytes = bytes < SOCKET_LEAST ? SOCKET_LEAST : bytes;
    bytes = bytes > SOCKET_MOST ? SOCKET_MOST : bytes;
    int ret =
        group_write_number(dir_of(group, CONTROL_MEMORY), "memory.kmem.tcp.limit_in_bytes", bytes);
    if (ret < 0 && ret != -ENOENT) /* the kernel does not count them */
        return error_system(err, STAGE, -ret, "cannot limit sockets of the cgroup %s: %s",
                            group->name, error_text(-ret));
    return 0;
}

static int limit_cpu(struct group *group, uint64_t milli_cpus, struct brig_error *err)
{
    int ret = write_limit(group, CONTROL_CPU, "cpu.cfs_quota_us", milli_cpus * 100, err);
    /* EINVAL: more than the quota of a parent cgroup, which is tighter and applies. */
    return ret == -EINVAL ? 0 : ret;
}

/* A tenth of the default weight of a cgroup, which is 1024. */
static int lower_priority(struct group *group, struct brig_error *err)
{
    return write_limit(group, CONTROL_CPU, "cpu.shares", 102, err);
}

/* v1 kills one process and not the whole cgroup, so an event is needed to kill the rest. */
static void watch_memory(struct group *group)
{
    int dir = dir_of(group, CONTROL_MEMORY);
    char text[48];
    autofd control = openat(dir, "memory.oom_control", O_RDONLY | O_CLOEXEC);
    autofd event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (control < 0 || event < 0)
        return;
    snprintf(text, sizeof text, "%d %d", event, control);
    if (fd_write_file(dir, "cgroup.event_control", text) == 0)
        group->memory_events = take_fd(&event);
}

static int limit(struct group *group, const struct group_limits *limits, struct brig_error *err)
{
    int pids = dir_of(group, CONTROL_PIDS);
    int ret = limit_memory(group, limits->memory_bytes, err);
    if (ret == 0)
        ret = limit_sockets(group, limits->memory_bytes, err);
    if (ret == 0)
        ret = write_limit(group, CONTROL_PIDS, "pids.max", limits->pids, err);
    if (ret == 0 && limits->milli_cpus != BRIG_UNLIMITED &&
        (group->place->controllers & CONTROL_CPU))
        ret = limit_cpu(group, limits->milli_cpus, err);
    if (ret == 0 && limits->low_priority)
        ret = lower_priority(group, err);
    if (ret < 0)
        return ret;
    if (limits->memory_bytes != BRIG_UNLIMITED)
        watch_memory(group);
    group->pids_events = openat(pids, "pids.events", O_RDONLY | O_CLOEXEC);
    /* v1 cannot kill a cgroup: init stops its growth and kills its processes. */
    group->kill_fd = openat(pids, "pids.max", O_WRONLY | O_CLOEXEC);
    group->kill_byte = '0';
    return 0;
}

static void read_counters(const struct group *group, struct group_counters *c, bool now)
{
    int memory = dir_of(group, CONTROL_MEMORY);
    int pids = dir_of(group, CONTROL_PIDS);
    int account = dir_of(group, CONTROL_CPUACCT);
    if (now) {
        c->memory_now = group_read_number(memory, "memory.usage_in_bytes");
        c->pids_now = group_read_number(pids, "pids.current");
        c->pids_refused = group_read_key(pids, "pids.events", "max");
    }
    c->memory_peak = group_read_number(memory, "memory.max_usage_in_bytes");
    c->pids_peak = group_read_number(pids, "pids.peak");
    c->oom_kills = group_read_key(memory, "memory.oom_control", "oom_kill");
    if (account >= 0) {
        c->cpu_user_ns = group_read_number(account, "cpuacct.usage_user");
        c->cpu_system_ns = group_read_number(account, "cpuacct.usage_sys");
    }
}

static void kill_group(const struct group *group)
{
    int dir = dir_of(group, CONTROL_PIDS);
    if (dir < 0)
        return;
    fd_write_file(dir, "pids.max", "0");
    group_kill_listed(dir, group->name);
}

const struct group_backend group_backend_v1 = {
    .name = "cgroup v1",
    .find = find,
    .limit = limit,
    .read = read_counters,
    .kill = kill_group,
};
