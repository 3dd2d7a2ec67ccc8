/* SPDX-License-Identifier: MIT */
/* Access to the small files of cgroupfs and to /proc/self/cgroup, and killing the processes that a
 * cgroup lists. Used by group.c and the backends; independent of the kind of hierarchy.
 */
#include "group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

uint64_t group_read_key(int dir, const char *file, const char *key)
{
    char text[4096];
    if (fd_read_file(dir, file, text, sizeof text) < 0)
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

uint64_t group_read_number(int dir, const char *file)
{
    char text[64], *end;
    if (fd_read_file(dir, file, text, sizeof text) <= 0)
        return BRIG_UNKNOWN;
    uint64_t value = strtoull(text, &end, 10);
    return end == text ? BRIG_UNKNOWN : value;
}

int group_write_number(int dir, const char *file, uint64_t value)
{
    char text[24];
    if (value == BRIG_UNLIMITED)
        return 0;
    snprintf(text, sizeof text, "%" PRIu64, value);
    return fd_write_file(dir, file, text);
}

/* True if `name` is in the list, which is separated by commas. */
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

/* Check that the process belongs to the cgroup, while a pidfd pins it: its pid may have been reused
 * since the list was read. */
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

int group_kill_listed(int dir, const char *group)
{
    char text[4096];
    long pid = 0;
    int count = 0;
    ssize_t n;
    autofd fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    /* Read in pieces: the list may have as many entries as the machine has pids. */
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

/* An error that says "does not exist" or "not permitted" is an answer, and no fault. */
void group_note_fault(struct group_place *place, int errnum)
{
    static const int answers[] = {0, ENOENT, ENOTDIR, EACCES, EROFS};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        if (errnum == answers[i])
            return;
    }
    place->fault = errnum;
}

bool group_may_write(struct group_place *place, int dir, const char *name)
{
    bool may = faccessat(dir, name, W_OK, AT_EACCESS) == 0;
    group_note_fault(place, may ? 0 : errno);
    return may;
}
