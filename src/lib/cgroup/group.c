/* What the kinds of cgroup hierarchy have in common: names, making, reading, removing, sweeping.
 *
 * A group is named after the supervisor that made it (maker.h), with a number of its own behind:
 * who finds one whose supervisor is dead may remove it. */
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
#include "maker.h"

#define STAGE "cgroup"

#define DEPTH_MAX     16
#define REMOVE_WITHIN (5 * NS_PER_S) /* for all of what is left in a group to end */

/* ---- small files --------------------------------------------------------------------------- */

uint64_t group_read_key(int folder, const char *file, const char *key)
{
    char text[4096];
    if (fd_read_file(folder, file, text, sizeof text) < 0)
        return BRIG_UNKNOWN;
    size_t len = strlen(key);
    for (const char *line = text; *line;) {
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            return strtoull(line + len + 1, NULL, 10);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return BRIG_UNKNOWN;
}

uint64_t group_read_number(int folder, const char *file)
{
    char text[64], *end;
    if (fd_read_file(folder, file, text, sizeof text) <= 0)
        return BRIG_UNKNOWN;
    uint64_t value = strtoull(text, &end, 10);
    return end == text ? BRIG_UNKNOWN : value;
}

int group_write_number(int folder, const char *file, uint64_t value)
{
    char text[24];
    if (value == BRIG_UNLIMITED)
        return 0;
    snprintf(text, sizeof text, "%" PRIu64, value);
    return fd_write_file(folder, file, text);
}

/* Is `name` one of the names, separated by commas? */
static bool lists(const char *names, size_t len, const char *name)
{
    size_t name_len = strlen(name);
    for (size_t at = 0; at <= len; at++) {
        size_t n = strcspn(names + at, ",:");
        if (n == name_len && memcmp(names + at, name, n) == 0)
            return true;
        at += n;
    }
    return false;
}

int group_own_path(const char *own_groups, const char *controller, char *controllers,
                   size_t controllers_size, char *path, size_t path_size)
{
    for (const char *line = own_groups; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        /* "NUMBER:NAME,NAME:PATH" */
        size_t end = strcspn(line, "\n");
        const char *names = memchr(line, ':', end);
        const char *own = names ? memchr(names + 1, ':', end - (size_t)(names + 1 - line)) : NULL;
        if (!own || !lists(names + 1, (size_t)(own - names - 1), controller))
            continue;
        snprintf(controllers, controllers_size, "%.*s", (int)(own - names - 1), names + 1);
        int len = (int)(end - (size_t)(own + 1 - line));
        return snprintf(path, path_size, "%.*s", len, own + 1) < (int)path_size ? 0 : -ENAMETOOLONG;
    }
    return -ENOENT;
}

/* Is this process one of the group's, now that it is held by a pidfd? Its number may have been
 * given to another since the list was read. */
static bool is_member(long pid, const char *group)
{
    char path[48], text[8192];
    snprintf(path, sizeof path, "/proc/%ld/cgroup", pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
        return false;
    size_t len = strlen(group);
    for (const char *at = strstr(text, group); at; at = strstr(at + 1, group)) {
        if (at[-1] == '/' && (at[len] == '\n' || at[len] == '/'))
            return true;
    }
    return false;
}

static bool kill_member(long pid, const char *group)
{
    if (pid <= 1)
        return false;
    autofd pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    return pidfd >= 0 && is_member(pid, group) &&
           syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0;
}

int group_kill_listed(int folder, const char *group)
{
    char text[4096];
    long pid = 0;
    int count = 0;
    ssize_t n;
    autofd fd = openat(folder, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    /* In pieces: there may be as many as the machine has numbers for. */
    while (fd >= 0 && (n = read(fd, text, sizeof text)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
            } else {
                count += kill_member(pid, group);
                pid = 0;
            }
        }
    }
    return count;
}

/* ---- sweeping ------------------------------------------------------------------------------ */

void group_place_rename(struct group_place *place)
{
    maker_name(place->prefix, sizeof place->prefix);
}

static void open_folders(struct group *group)
{
    for (size_t i = 0; i < group->place->count; i++)
        group->folders[i] = openat(group->place->folders[i], group->name,
                                   O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Only the first folder is listed: groups are made there first and removed there last, so a group
 * that is anywhere is there as well. */
/* Those that are in the first hierarchy as well were looked at there. */
static void sweep_folder(const struct group_place *place, size_t i)
{
    int fd = openat(place->folders[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (entry->d_type != DT_DIR ||
            (i > 0 && faccessat(place->folders[0], entry->d_name, F_OK, 0) == 0) ||
            !maker_is_dead(entry->d_name))
            continue;
        struct group group = GROUP_NONE;
        group.place = place;
        snprintf(group.name, sizeof group.name, "%.*s", (int)sizeof group.name - 1, entry->d_name);
        open_folders(&group);
        group_remove(&group);
    }
    closedir(dir);
}

/* In every hierarchy: who killed a supervisor and its init with their group may have removed that
 * one, and what was below it, by then. */
static void sweep(const struct group_place *place)
{
    for (size_t i = 0; i < place->count; i++)
        sweep_folder(place, i);
}

/* ---- place --------------------------------------------------------------------------------- */

void group_place_open(struct group_place *place)
{
    static const struct group_backend *const backends[] = {&group_backend_v2, &group_backend_v1};
    char why[sizeof place->why] = "";
    char own_groups[8192] = "";
    if (fd_read_file(AT_FDCWD, "/proc/self/cgroup", own_groups, sizeof own_groups) < 0)
        own_groups[0] = 0;
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        *place = (struct group_place){.backend = backends[i], .leaf_parent = -1};
        if (backends[i]->find(place, own_groups) == 0) {
            group_place_rename(place);
            sweep(place);
            return;
        }
        /* The reason of the first kind that exists here at all is the one to act on. */
        if (place->why[0] && !why[0])
            snprintf(why, sizeof why, "%s", place->why);
    }
    *place = (struct group_place){.leaf_parent = -1};
    snprintf(place->why, sizeof place->why, "%s",
             why[0] ? why : "no cgroup file system is mounted at /sys/fs/cgroup");
}

void group_place_close(struct group_place *place)
{
    for (size_t i = 0; i < place->count; i++)
        close(place->folders[i]);
    place->count = 0;
    if (place->leaf_parent < 0)
        return;
    /* Undo the move of the supervisor: controllers off, back to where it was, leaf gone. */
    fd_write_file(place->leaf_parent, "cgroup.subtree_control", "-memory -pids -cpu");
    fd_write_file(place->leaf_parent, "cgroup.procs", "0");
    unlinkat(place->leaf_parent, place->leaf, AT_REMOVEDIR);
    fd_close_at(&place->leaf_parent);
}

/* ---- group --------------------------------------------------------------------------------- */

static int make_folders(struct group *group, const struct group_limits *limits,
                        struct brig_error *err)
{
    const struct group_place *place = group->place;
    for (size_t i = 0; i < place->count; i++) {
        /* A folder that serves accounting only is not worth its price unless it is asked for. */
        if (place->serves[i] == CONTROL_CPUACCT && !limits->account_cpu)
            continue;
        if (mkdirat(place->folders[i], group->name, 0755) < 0)
            return error_system(err, STAGE, errno, "cannot make the group %s in %s: %s",
                                group->name, place->path, error_text(errno));
        group->folders[i] =
            openat(place->folders[i], group->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (group->folders[i] < 0)
            return error_system(err, STAGE, errno, "cannot open the group %s in %s: %s",
                                group->name, place->path, error_text(errno));
    }
    return 0;
}

int group_create(struct group *group, struct group_place *place, const struct group_limits *limits,
                 struct brig_error *err)
{
    *group = GROUP_NONE;
    group->place = place;
    snprintf(group->name, sizeof group->name, "%s-%u", place->prefix,
             __atomic_add_fetch(&place->next, 1, __ATOMIC_RELAXED));
    int ret = make_folders(group, limits, err);
    if (ret == 0)
        ret = place->backend->limit(group, limits, err);
    /* An event descriptor polls as ready until it was read once. */
    if (ret == 0 && limits->pids != BRIG_UNLIMITED && group_pids_refused(group) == BRIG_UNKNOWN)
        ret = error_system(err, STAGE, EIO, "cannot watch the process limit of the group %s",
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
        if (group->folders[i] < 0)
            continue;
        ssize_t n = fd_read_file(group->folders[i], "cgroup.procs", text, sizeof text);
        if (n > 0 || n == -EFBIG)
            return true;
    }
    return false;
}

/* Groups that the guest made below its own: end what is in them, remove them, deepest first. */
static void clear_below(int folder, const char *group, int depth)
{
    int fd = depth > 0 ? openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        autofd below =
            openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (below < 0)
            continue;
        group_kill_listed(below, group);
        clear_below(below, group, depth - 1);
        unlinkat(folder, entry->d_name, AT_REMOVEDIR);
    }
    closedir(dir);
}

/* A group that was just emptied can be busy for a moment more, until its last process is reaped. */
static int remove_folder(const struct group *group, size_t i, uint64_t until)
{
    for (int round = 0;; round++) {
        if (unlinkat(group->place->folders[i], group->name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        /* EBUSY: it is not empty yet. Anything else may pass once or twice. */
        if ((errno != EBUSY && round > 2) || clock_now() > until)
            return -errno;
        if (round > 2)
            group_kill(group);
        if (group->folders[i] >= 0)
            clear_below(group->folders[i], group->name, DEPTH_MAX);
        poll(NULL, 0, round < 20 ? 1 : 10);
    }
}

void group_forget(struct group *group)
{
    if (!group->place)
        return;
    for (size_t i = 0; i < GROUP_FOLDERS_MAX; i++)
        fd_close_at(&group->folders[i]);
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
            break; /* where the next sweep looks: it has to find that something is left */
        int one = remove_folder(group, i, until); /* also what was made and could not be opened */
        ret = one < 0 ? one : ret;
    }
    group_forget(group);
    return ret;
}
