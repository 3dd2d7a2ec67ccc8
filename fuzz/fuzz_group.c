/* SPDX-License-Identifier: MIT */
/* lib/group.c: the lines of /proc/self/cgroup. A path that is found must be in one of the lines. */
#include "lib/cgroup/group.h"

#include <errno.h>

#include "target.h"

static void check(const char *text, const char *controller)
{
    char names[64], path[256], *line = NULL;
    memset(names, '#', sizeof names);
    memset(path, '#', sizeof path);
    int ret = group_own_path(text, controller, names, sizeof names, path, sizeof path);
    if (ret == -ENOENT) {
        ensure(names[0] == '#' && path[0] == '#');
        return;
    }
    ensure(ret == 0 || ret == -ENAMETOOLONG);
    ensure(memchr(names, 0, sizeof names) && memchr(path, 0, sizeof path));
    ensure(!strchr(names, ':') && !strchr(path, '\n') && !strchr(names, '\n'));
    if (ret < 0 || strlen(names) == sizeof names - 1)
        return;
    ensure(strstr(names, controller));
    ensure(asprintf(&line, ":%s:%s", names, path) >= 0);
    ensure(strstr(text, line));
    free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = target_text(data, size);
    check(text, "");
    check(text, "memory");
    check(text, "cpu");
    check(text, "pids");
    free(text);
    return 0;
}
