/* Finding commands. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "view.h"

#define STAGE        "exec"
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* The host's path of what the guest would find there, in new memory; NULL if it is nothing. */
static char *behind(const struct command_place *place, const char *path)
{
    char *absolute = NULL;
    if (!place->cell)
        return strdup(path);
    if (path[0] == '/')
        return view_resolve(place->cell, path);
    if (asprintf(&absolute, "%s/%s", place->start, path) < 0)
        return NULL;
    char *host = view_resolve(place->cell, absolute);
    free(absolute);
    return host;
}

/* 0, or the errno that exec would give. */
static int check_file(const struct command_place *place, const char *path)
{
    struct stat st;
    autofree char *host = behind(place, path);
    if (!host)
        return ENOENT;
    if (fstatat(place->workdir, host, &st, 0) < 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    if (!S_ISREG(st.st_mode))
        return EACCES;
    return faccessat(place->workdir, host, X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static int find_in_path(const char *name, const char *path, const struct command_place *place,
                        char **out, struct brig_error *err)
{
    const char *start = path;
    autofree char *denied = NULL; /* the first match that could not be executed */
    int denied_errno = 0;
    for (;;) {
        size_t len = strcspn(start, ":");
        autofree char *candidate = NULL;
        /* An empty element is the current folder, by tradition. */
        if (asprintf(&candidate, "%.*s/%s", (int)(len ? len : 1), len ? start : ".", name) < 0) {
            candidate = NULL;
            return error_memory(err, STAGE);
        }
        int errnum = check_file(place, candidate);
        if (errnum == 0) {
            *out = candidate;
            candidate = NULL;
            return 0;
        }
        if ((errnum == EACCES || errnum == EISDIR) && !denied) {
            denied = candidate;
            denied_errno = errnum;
            candidate = NULL;
        }
        if (!start[len])
            break;
        start += len + 1;
    }
    if (denied)
        return command_exec_error(denied, place, denied_errno, err);
    return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT, "%.200s: not found in PATH (%.200s)",
                     name, path);
}

int command_find(const char *name, const char *path, const struct command_place *place, char **out,
                 struct brig_error *err)
{
    if (!strchr(name, '/'))
        return find_in_path(name, path && *path ? path : DEFAULT_PATH, place, out, err);
    int errnum = check_file(place, name);
    if (errnum)
        return command_exec_error(name, place, errnum, err);
    *out = strdup(name);
    return *out ? 0 : error_memory(err, STAGE);
}

/* The interpreter that a script names, or an empty string. */
static void read_interpreter(const struct command_place *place, const char *path, char *out,
                             size_t size)
{
    char line[256] = "";
    autofree char *host = behind(place, path);
    autofd fd = host ? openat(place->workdir, host, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    out[0] = 0;
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : 0;
    if (n < 3 || line[0] != '#' || line[1] != '!')
        return;
    line[n] = 0;
    char *start = line + 2 + strspn(line + 2, " \t");
    snprintf(out, size, "%.*s", (int)strcspn(start, " \t\r\n"), start);
}

static int missing(const char *path, const struct command_place *place, struct brig_error *err)
{
    char interpreter[256];
    struct stat st;
    autofree char *host = behind(place, path);
    if (!host && path[0] != '/')
        return error_set(
            err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT,
            "%.200s: no such file in %.200s, where the cell starts; name the folder it "
            "is in with --workdir",
            path, place->start);
    if (!host && fstatat(place->workdir, path, &st, 0) == 0)
        return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT,
                         "%.200s: is not in the cell's view; --ro %.200s would show it", path,
                         path);
    if (!host || fstatat(place->workdir, host, &st, 0) < 0)
        return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT, "%.300s: no such file", path);
    read_interpreter(place, path, interpreter, sizeof interpreter);
    if (*interpreter)
        return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, ENOENT,
                         "%.200s: its interpreter %.200s does not exist%s", path, interpreter,
                         place->cell ? " in the cell's view" : "");
    return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, ENOENT,
                     place->cell ? "%.300s: is a link to, or needs, something that is not in the "
                                   "cell's view; --ro FOLDER shows more"
                                 : "%.300s: its program loader does not exist",
                     path);
}

int command_exec_error(const char *path, const struct command_place *place, int errnum,
                       struct brig_error *err)
{
    const char *why = NULL;
    switch (errnum) {
    case ENOENT:
        return missing(path, place, err);
    case ENOTDIR:
        return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, errnum,
                         "%.300s: a part of the path is not a folder", path);
    case EISDIR:
        why = "is a folder";
        break;
    case EACCES:
        why = "is not executable (permission denied)";
        break;
    case ENOEXEC:
        why = "is neither a program for this machine nor a script with a #! line";
        break;
    case E2BIG:
        why = "the argument list and environment are too long";
        break;
    case ETXTBSY:
        why = "is being written";
        break;
    case ELOOP:
        why = "too many symbolic links, or interpreters of interpreters";
        break;
    default:
        why = strerror(errnum);
    }
    return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, errnum, "%.300s: %s", path, why);
}
