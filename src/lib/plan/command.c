/* Finding commands. */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "lib/cell/view.h"

#define STAGE        "exec"
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* The host's path of what the guest would find there; false if it would find nothing. */
static bool behind(const struct command_place *place, const char *path, char out[PATH_MAX])
{
    char absolute[PATH_MAX];
    if (!place->view)
        return snprintf(out, PATH_MAX, "%s", path) < PATH_MAX;
    if (path[0] == '/')
        return view_resolve(place->view, path, out, PATH_MAX);
    if (snprintf(absolute, sizeof absolute, "%s/%s", place->start, path) >= PATH_MAX)
        return false;
    return view_resolve(place->view, absolute, out, PATH_MAX);
}

/* 0, or the errno that exec would give. */
static int check_file(const struct command_place *place, const char *path)
{
    struct stat st;
    char host[PATH_MAX];
    if (strlen(path) >= PATH_MAX)
        return ENAMETOOLONG;
    if (!behind(place, path, host))
        return ENOENT;
    if (fstatat(place->workdir, host, &st, 0) < 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    if (!S_ISREG(st.st_mode))
        return EACCES;
    return faccessat(place->workdir, host, X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

/* The host's file of that name, which the view does not show. */
static bool find_hidden(const char *name, const char *path, char out[PATH_MAX])
{
    for (const char *start = path;;) {
        size_t len = strcspn(start, ":");
        if (len && snprintf(out, PATH_MAX, "%.*s/%s", (int)len, start, name) < PATH_MAX &&
            access(out, X_OK) == 0)
            return true;
        if (!start[len])
            return false;
        start += len + 1;
    }
}

static int find_in_path(const char *name, const char *path, const struct command_place *place,
                        char **out, struct brig_error *err)
{
    const char *start = path;
    autofree char *denied = NULL; /* the first match that could not be executed */
    char hidden[PATH_MAX];
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
    if (place->view && find_hidden(name, path, hidden))
        return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT,
                         "%.100s: not found in the cell's view; --ro %.300s would show it", name,
                         hidden);
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
    char *copy = strdup(name);
    if (!copy)
        return error_memory(err, STAGE);
    *out = copy;
    return 0;
}

/* The interpreter that a script names, or an empty string. */
static void read_interpreter(const struct command_place *place, const char *path, char *out,
                             size_t size)
{
    char line[256] = "";
    char host[PATH_MAX];
    bool found = behind(place, path, host);
    autofd fd = found ? openat(place->workdir, host, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
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
    char host[PATH_MAX];
    bool shown = behind(place, path, host);
    if (!shown && path[0] != '/')
        return error_set(
            err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT,
            "%.200s: no such file in %.200s, where the cell starts; name the folder it "
            "is in with --workdir",
            path, place->start);
    if (!shown && fstatat(place->workdir, path, &st, 0) == 0)
        return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT,
                         "%.200s: is not in the cell's view; --ro %.200s would show it", path,
                         path);
    if (!shown || fstatat(place->workdir, host, &st, 0) < 0)
        return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT, "%.300s: no such file", path);
    read_interpreter(place, path, interpreter, sizeof interpreter);
    if (*interpreter && place->view && access(interpreter, X_OK) == 0)
        return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, ENOENT,
                         "%.200s: its interpreter %.200s is not in the cell's view; --ro %.200s "
                         "would show it",
                         path, interpreter, interpreter);
    if (*interpreter)
        return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, ENOENT,
                         "%.200s: its interpreter %.200s does not exist", path, interpreter);
    return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, ENOENT,
                     place->view ? "%.300s: is a link to, or needs, something that is not in the "
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
        why = error_text(errnum);
    }
    return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, errnum, "%.300s: %s", path, why);
}
