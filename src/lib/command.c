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

#define STAGE        "exec"
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* 0, or the errno that exec would give. */
static int check_file(int workdir, const char *path)
{
    struct stat st;
    if (fstatat(workdir, path, &st, 0) < 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    if (!S_ISREG(st.st_mode))
        return EACCES;
    return faccessat(workdir, path, X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static int find_in_path(const char *name, const char *path, int workdir, char **out,
                        struct brig_error *err)
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
        int errnum = check_file(workdir, candidate);
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
        return command_exec_error(denied, workdir, denied_errno, err);
    return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT, "%.200s: not found in PATH (%.200s)",
                     name, path);
}

int command_find(const char *name, const char *path, int workdir, char **out,
                 struct brig_error *err)
{
    if (!strchr(name, '/'))
        return find_in_path(name, path && *path ? path : DEFAULT_PATH, workdir, out, err);
    int errnum = check_file(workdir, name);
    if (errnum)
        return command_exec_error(name, workdir, errnum, err);
    char *copy = strdup(name);
    if (!copy)
        return error_memory(err, STAGE);
    *out = copy;
    return 0;
}

/* The interpreter that a script names, or an empty string. */
static void read_interpreter(int workdir, const char *path, char *out, size_t size)
{
    char line[256] = "";
    autofd fd = openat(workdir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    out[0] = 0;
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : 0;
    if (n < 3 || line[0] != '#' || line[1] != '!')
        return;
    line[n] = 0;
    char *start = line + 2 + strspn(line + 2, " \t");
    snprintf(out, size, "%.*s", (int)strcspn(start, " \t\r\n"), start);
}

static int missing(const char *path, int workdir, struct brig_error *err)
{
    char interpreter[256];
    struct stat st;
    if (fstatat(workdir, path, &st, 0) < 0)
        return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT, "%.300s: no such file", path);
    read_interpreter(workdir, path, interpreter, sizeof interpreter);
    if (*interpreter)
        return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, ENOENT,
                         "%.200s: its interpreter %.200s does not exist", path, interpreter);
    return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, ENOENT,
                     "%.300s: its program loader does not exist", path);
}

int command_exec_error(const char *path, int workdir, int errnum, struct brig_error *err)
{
    const char *why = NULL;
    switch (errnum) {
    case ENOENT:
        return missing(path, workdir, err);
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
    case ENOMEM:
        return error_system(err, STAGE, errnum,
                            "%.300s: not enough memory to start it; its limit may be too low",
                            path);
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
