/* SPDX-License-Identifier: MIT */
/* Names objects after their creator, and tells whether the creator is dead. */
#include "maker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

static uint64_t pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* Field 22 of /proc/PID/stat, in clock ticks since boot; 0 if there is no such process. */
static uint64_t start_time(long pid)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return 0;
    const char *p = strrchr(text, ')');
    for (int field = 2; p && field < 22; field++) {
        p = strchr(p + 1, ' ');
    }
    return p ? strtoull(p + 1, NULL, 10) : 0;
}

void maker_name(char *out, size_t size)
{
    uint32_t random = 0;
    long pid = getpid();
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = (uint32_t)clock_now();
    snprintf(out, size, "brig.%" PRIu64 ".%ld.%" PRIu64 ".%08" PRIx32, pid_namespace(), pid,
             start_time(pid), random);
}

bool maker_is_dead(const char *name)
{
    if (strncmp(name, "brig.", 5) != 0)
        return false;
    unsigned long long namespace, start;
    long pid;
    char rest[MAKER_NAME_SIZE];
    if (sscanf(name, "brig.%llu.%ld.%llu.%79s", &namespace, &pid, &start, rest) != 4)
        return false;
    /* Without /proc, or from another pid namespace, the state of the creator is unknown. */
    if (namespace == 0 || start == 0 || namespace != pid_namespace())
        return false;
    if (kill((pid_t)pid, 0) < 0 && errno == ESRCH)
        return true;
    /* A start time that cannot be read proves nothing. */
    uint64_t now = start_time(pid);
    return now != 0 && now != start;
}
