/* SPDX-License-Identifier: MIT */
/* The common part of all kinds of cgroup hierarchy: naming, creating, reading, removing, sweeping.
 *
 * A cgroup is named after the supervisor that created it (maker.h), followed by a number. Any brig
 * process may remove a cgroup whose supervisor is dead. */
#include "group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "group_guard.h"
#include "maker.h"

#define STAGE "cgroup"

#define DEPTH_MAX     16
#define REMOVE_WITHIN (5 * NS_PER_S) /* for all processes left in a cgroup to end */

/* ---- sweeping ------------------------------------------------------------------------------ */

void group_place_rename(struct group_place *place)
{
    maker_name(place->prefix, sizeof place->prefix);
}

static void open_dirs(struct group *group)
{
    for (size_t i = 0; i < group->place->count; i++)
        group->dirs[i] = openat(group->place->dirs[i], group->name,
                                O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Remove the cgroups of dead supervisors in one hierarchy. Those that exist in the first hierarchy
 * as well were handled there. */
static void sweep_dir(const struct group_place *place, size_t i)
{
    int fd = openat(place->dirs[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    if (!listing) {
        if (fd >= 0)
            close(fd);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(listing))) {
        if (entry->d_type != DT_DIR ||
            (i > 0 && faccessat(place->dirs[0], entry->d_name, F_OK, 0) == 0) ||
            !maker_is_dead(entry->d_name))
            continue;
        struct group group = GROUP_NONE;
        group.place = place;
        snprintf(group.name, sizeof group.name, "%.*s", (int)sizeof group.name - 1, entry->d_name);
        open_dirs(&group);
        group_remove(&group);
    }
    closedir(listing);
}

/* Sweep every hierarchy: if a supervisor and its init were killed together with their cgroup, the
 * one in the first hierarchy may be gone already, with all below it. */
static void sweep(const struct group_place *place)
{
    for (size_t i = 0; i < place->count; i++)
        sweep_dir(place, i);
}

/* ---- place --------------------------------------------------------------------------------- */

void group_place_open(struct group_place *place)
{
    static const struct group_backend *const backends[] = {&group_backend_v2, &group_backend_v1};
    char why[sizeof place->why] = "";
    char own_groups[8192] = "";
    struct group_place none = {.leaf_parent = -1};
    ssize_t n = fd_read_file(AT_FDCWD, "/proc/self/cgroup", own_groups, sizeof own_groups);
    if (n < 0) {
        own_groups[0] = 0;
        group_note_fault(&none, (int)-n);
    }
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        *place = (struct group_place){.backend = backends[i], .leaf_parent = -1};
        if (backends[i]->find(place, own_groups) == 0) {
            group_place_rename(place);
            sweep(place);
            return;
        }
        /* Report the reason of the first kind that exists on this host: it is the one to act on. */
        if (place->why[0] && !why[0])
            snprintf(why, sizeof why, "%s", place->why);
        if (!none.fault)
            none.fault = place->fault;
    }
    *place = none;
    snprintf(place->why, sizeof place->why, "%s",
             why[0] ? why : "no cgroup file system is mounted at /sys/fs/cgroup");
}

void group_place_close(struct group_place *place)
{
    for (size_t i = 0; i < place->count; i++)
        close(place->dirs[i]);
    place->count = 0;
    if (place->leaf_parent < 0)
        return;
    /* Undo the move of the supervisor: disable the controllers, leave the leaf, remove it. */
    fd_write_file(place->leaf_parent, "cgroup.subtree_control", "-memory -pids -cpu");
    fd_write_file(place->leaf_parent, "cgroup.procs", "0");
    unlinkat(place->leaf_parent, place->leaf, AT_REMOVEDIR);
    fd_close_at(&place->leaf_parent);
}

/* ---- group --------------------------------------------------------------------------------- */

static int make_dirs(struct group *group, const struct group_limits *limits, struct brig_error *err)
{
    const struct group_place *place = group->place;
    for (size_t i = 0; i < place->count; i++) {
        /* A directory that serves accounting only costs time, so it is created only on request. */
        if (place->serves[i] == CONTROL_CPUACCT && !limits->account_cpu)
            continue;
        if (mkdirat(place->dirs[i], group->name, 0755) < 0)
            return error_system(err, STAGE, errno, "cannot create the cgroup %s in %s: %s",
                                group->name, place->path, error_text(errno));
        group->dirs[i] =
            openat(place->dirs[i], group->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (group->dirs[i] < 0)
            return error_system(err, STAGE, errno, "cannot open the cgroup %s in %s: %s",
                                group->name, place->path, error_text(errno));
    }
    return 0;
}

int group_create(struct group *group, struct group_place *place, const struct group_limits *limits,
                 struct group_guard *guard, struct brig_error *err)
{
    *group = GROUP_NONE;
    group->place = place;
    snprintf(group->name, sizeof group->name, "%s-%u", place->prefix,
             __atomic_add_fetch(&place->next, 1, __ATOMIC_RELAXED));
    int ret = guard ? group_guard_start(guard, place, group->name, err) : 0;
    if (ret == 0)
        ret = make_dirs(group, limits, err);
    if (ret == 0)
        ret = place->backend->limit(group, limits, err);
    /* An event file descriptor polls as ready until it is read once. */
    if (ret == 0 && limits->pids != BRIG_UNLIMITED && group_pids_refused(group) == BRIG_UNKNOWN)
        ret = error_system(err, STAGE, EIO, "cannot watch the process limit of the cgroup %s",
                           group->name);
    if (ret < 0)
        group_remove(group);
    return ret;
}

static void read_group(const struct group *group, struct group_counters *counters, bool now)
{
    *counters = (struct group_counters){
        BRIG_UNKNOWN, BRIG_UNKNOWN, BRIG_UNKNOWN, BRIG_UNKNOWN,
        BRIG_UNKNOWN, BRIG_UNKNOWN, BRIG_UNKNOWN, BRIG_UNKNOWN,
    };
    if (group->place)
        group->place->backend->read(group, counters, now);
}

void group_read(const struct group *group, struct group_counters *counters)
{
    read_group(group, counters, true);
}

void group_read_final(const struct group *group, struct group_counters *counters)
{
    read_group(group, counters, false);
}

uint64_t group_pids_refused(const struct group *group)
{
    char text[64];
    ssize_t n = group->pids_events >= 0 ? pread(group->pids_events, text, sizeof text - 1, 0) : -1;
    if (n <= 0)
        return BRIG_UNKNOWN;
    text[n] = 0;
    return strncmp(text, "max ", 4) == 0 ? strtoull(text + 4, NULL, 10) : BRIG_UNKNOWN;
}

void group_kill(const struct group *group)
{
    if (group->place)
        group->place->backend->kill(group);
}

bool group_populated(const struct group *group)
{
    char text[64];
    for (size_t i = 0; group->place && i < group->place->count; i++) {
        if (group->dirs[i] < 0)
            continue;
        ssize_t n = fd_read_file(group->dirs[i], "cgroup.procs", text, sizeof text);
        if (n > 0 || n == -EFBIG)
            return true;
    }
    return false;
}

/* Remove the cgroups that the guest created below its own: kill their processes, deepest first. */
static void clear_below(int dir, const char *group, int depth)
{
    int fd = depth > 0 ? openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    if (!listing) {
        if (fd >= 0)
            close(fd);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(listing))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        autofd below = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (below < 0)
            continue;
        group_kill_listed(below, group);
        clear_below(below, group, depth - 1);
        unlinkat(dir, entry->d_name, AT_REMOVEDIR);
    }
    closedir(listing);
}

/* A cgroup can stay busy for a moment, until its last process is reaped. */
static int remove_dir(const struct group *group, size_t i, uint64_t until)
{
    for (int round = 0;; round++) {
        if (unlinkat(group->place->dirs[i], group->name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        /* EBUSY: it is not empty yet. Any other error may be transient once or twice. */
        if ((errno != EBUSY && round > 2) || clock_now() > until)
            return -errno;
        if (round > 2)
            group_kill(group);
        if (group->dirs[i] >= 0)
            clear_below(group->dirs[i], group->name, DEPTH_MAX);
        poll(NULL, 0, round < 20 ? 1 : 10);
    }
}

void group_forget(struct group *group)
{
    if (!group->place)
        return;
    for (size_t i = 0; i < GROUP_DIRS_MAX; i++)
        fd_close_at(&group->dirs[i]);
    fd_close_at(&group->pids_events);
    fd_close_at(&group->memory_events);
    fd_close_at(&group->kill_fd);
    group->place = NULL;
}

int group_remove(struct group *group)
{
    int ret = 0;
    uint64_t until = clock_now() + REMOVE_WITHIN;
    if (!group->place)
        return 0;
    for (size_t i = group->place->count; i-- > 0;) {
        if (i == 0 && ret < 0)
            break; /* leave the first one, so that the next sweep finds the rest */
        /* Also directories that were created but could not be opened. */
        int one = remove_dir(group, i, until);
        ret = one < 0 ? one : ret;
    }
    group_forget(group);
    return ret;
}
