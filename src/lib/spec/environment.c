/* SPDX-License-Identifier: MIT */
/* Builds the environment of the guest, for plan.c. */
#include "environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"

#define STAGE    "environment"
#define FILE_MAX (1u << 20)

#define VARIABLES_MAX 4096

static const char *const passed[] = {
    "PATH", "HOME", "USER", "LANG", "TERM", "SHELL", "TZ", "TMPDIR",
};

static bool is_passed(const char *entry)
{
    size_t len = strcspn(entry, "=");
    if (len > 3 && strncmp(entry, "LC_", 3) == 0)
        return true;
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        if (strlen(passed[i]) == len && memcmp(passed[i], entry, len) == 0)
            return true;
    }
    return false;
}

const char *environment_get(char *const *list, const char *name)
{
    size_t len = strlen(name);
    for (; list && *list; list++) {
        if (strncmp(*list, name, len) == 0 && (*list)[len] == '=')
            return *list + len + 1;
    }
    return NULL;
}

static int put_entry(struct strings *out, const char *entry)
{
    size_t len = strcspn(entry, "=");
    if (out->count >= VARIABLES_MAX)
        return -E2BIG;
    return strings_put(out, entry, len, entry + len + 1);
}

static int read_lines(struct strings *out, char *text, size_t len, const char *path,
                      struct brig_error *err)
{
    int number = 0;
    if (memchr(text, 0, len))
        return error_usage(err, STAGE, "%s: holds a NUL byte", path);
    for (char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        char *next = line + n + (line[n] == '\n');
        line[n] = 0;
        number++;
        if (*line && *line != '#') {
            size_t name = strcspn(line, "=");
            if (name == 0 || !line[name])
                return error_usage(err, STAGE, "%s: line %d: is not NAME=VALUE", path, number);
            int ret = put_entry(out, line);
            if (ret < 0)
                return error_system(err, STAGE, -ret, "%s: %s", path, error_text(-ret));
        }
        line = next;
    }
    return 0;
}

static int read_file(struct strings *out, const char *path, struct brig_error *err)
{
    struct stat st;
    /* O_NONBLOCK: opening a FIFO must not block. */
    autofd fd = fd_open_plain(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0 && errno == ELOOP)
        return error_usage(
            err, STAGE, "env-file: %.300s: is a symlink, or goes through one; name the file itself",
            path);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_usage(err, STAGE, "env-file: %s: %s", path, error_text(errno));
    if (!S_ISREG(st.st_mode))
        return error_usage(err, STAGE, "env-file: %s: is not a regular file", path);
    autofree char *text = NULL;
    size_t len = 0;
    int ret = fd_read_all(fd, FILE_MAX, &text, &len);
    if (ret == -EFBIG)
        return error_usage(err, STAGE, "env-file: %s: is larger than %u bytes", path, FILE_MAX);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "env-file: %s: %s", path, error_text(-ret));
    return read_lines(out, text, len, path, err);
}

static int add_named(struct strings *out, const struct strings *named, char *const *host,
                     struct brig_error *err)
{
    for (size_t i = 0; i < named->count; i++) {
        const char *entry = named->items[i];
        int ret = 0;
        if (strchr(entry, '=')) {
            ret = put_entry(out, entry);
        } else {
            const char *value = environment_get(host, entry);
            if (!value)
                return error_usage(err, STAGE,
                                   "env: \"%.80s\" is not set here; write NAME=VALUE to "
                                   "set it",
                                   entry);
            ret = strings_put(out, entry, strlen(entry), value);
        }
        if (ret < 0)
            return error_system(err, STAGE, -ret, "env: %s", error_text(-ret));
    }
    return 0;
}

int environment_put_toolchain(struct strings *out, const struct brig_spec *spec,
                              const struct toolchain *chain)
{
    const struct strings *named = &spec->values[KEY_ENV].list;
    int ret = chain->path ? strings_put(out, "PATH", 4, chain->path) : 0;
    for (size_t i = 0; i < chain->environment.count && ret == 0; i++) {
        const char *entry = chain->environment.items[i];
        size_t len = strcspn(entry, "=");
        bool given = false;
        for (size_t j = 0; j < named->count; j++)
            given = given || (strcspn(named->items[j], "=") == len &&
                              strncmp(named->items[j], entry, len) == 0);
        if (!given)
            ret = strings_put(out, entry, len, entry + len + 1);
    }
    return ret;
}

int environment_build(struct strings *out, const struct brig_spec *spec, char *const *host,
                      const char *home, const char *tmp, struct brig_error *err)
{
    for (char *const *entry = host; entry && *entry; entry++) {
        if (strchr(*entry, '=') && is_passed(*entry)) {
            int ret = put_entry(out, *entry);
            if (ret < 0)
                return error_system(err, STAGE, -ret, "environment: %s", error_text(-ret));
        }
    }
    if (home && (strings_put(out, "HOME", 4, home) < 0 || strings_put(out, "TMPDIR", 6, tmp) < 0))
        return error_memory(err, STAGE);
    const struct strings *files = &spec->values[KEY_ENV_FILE].list;
    for (size_t i = 0; i < files->count; i++) {
        int ret = read_file(out, files->items[i], err);
        if (ret < 0)
            return ret;
    }
    return add_named(out, &spec->values[KEY_ENV].list, host, err);
}
