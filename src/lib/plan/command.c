/* SPDX-License-Identifier: MIT */
/* Finds commands, and explains why one cannot be executed. command.h has the interface. */
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

#define STAGE "exec"

/* The host's path of a path that the guest sees. Returns false if the guest sees nothing there. */
static bool find_host_path(const struct command_place *place, const char *path, char out[PATH_MAX])
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

/* Returns 0, or the errno that exec would give. */
static int check_file(const struct command_place *place, const char *path)
{
    struct stat st;
    char host[PATH_MAX];
    if (strlen(path) >= PATH_MAX)
        return ENAMETOOLONG;
    if (!find_host_path(place, path, host))
        return ENOENT;
    if (fstatat(place->workdir, host, &st, 0) < 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    if (!S_ISREG(st.st_mode))
        return EACCES;
    return faccessat(place->workdir, host, X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

/* Find the host's file of this name in PATH, which the view does not show. */
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

/* Is there a program at this path that the guest does not see? */
static bool is_hidden(const struct command_place *place, const char *path)
{
    struct stat st;
    char host[PATH_MAX];
    return place->view && !place->hides_host && path[0] == '/' && strlen(path) < PATH_MAX &&
           !find_host_path(place, path, host) && access(path, X_OK) == 0 && stat(path, &st) == 0 &&
           S_ISREG(st.st_mode);
}

static int find_in_path(const char *name, const char *path, const struct command_place *place,
                        char **out, struct brig_error *err)
{
    const char *start = path;
    autofree char *denied = NULL; /* the first match that could not be executed */
    char hidden[PATH_MAX];
    int denied_errno = 0;
    bool passed = false; /* a program that the caller's shell would run is hidden from the guest */
    for (;;) {
        size_t len = strcspn(start, ":");
        autofree char *candidate = NULL;
        /* An empty element means the current directory, by tradition. */
        if (asprintf(&candidate, "%.*s/%s", (int)(len ? len : 1), len ? start : ".", name) < 0) {
            candidate = NULL;
            return error_memory(err, STAGE);
        }
        int errnum = check_file(place, candidate);
        if (errnum == 0 && passed)
            return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT,
                             "%.60s: is %.150s by your PATH, which is not in the cell's view; --ro "
                             "%.150s shows it, or name %.60s by its path",
                             name, hidden, hidden, candidate);
        if (errnum == 0) {
            *out = candidate;
            candidate = NULL;
            return 0;
        }
        if (errnum == ENOENT && !passed && is_hidden(place, candidate)) {
            passed = true;
            snprintf(hidden, sizeof hidden, "%s", candidate);
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
        return find_in_path(name, path && *path ? path : COMMAND_DEFAULT_PATH, place, out, err);
    int errnum = check_file(place, name);
    if (errnum)
        return command_exec_error(name, place, errnum, err);
    char *copy = strdup(name);
    if (!copy)
        return error_memory(err, STAGE);
    *out = copy;
    return 0;
}

/* Read the interpreter of a script, or an empty string. Returns true if the line ends with a
 * carriage return, which the kernel takes as a part of the last word. */
static bool read_interpreter(const struct command_place *place, const char *path, char *out,
                             size_t size)
{
    char line[256] = "";
    char host[PATH_MAX];
    struct stat st;
    bool found = find_host_path(place, path, host);
    out[0] = 0;
    /* The guest may have replaced the file by a device or a FIFO, and opening one has side effects.
     * So open it with O_PATH first. */
    autofd seen = found ? openat(place->workdir, host, O_PATH | O_CLOEXEC) : -1;
    if (seen < 0 || fstat(seen, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    snprintf(host, sizeof host, "/proc/self/fd/%d", seen);
    autofd fd = open(host, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : 0;
    if (n < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[n] = 0;
    char *start = line + 2 + strspn(line + 2, " \t");
    snprintf(out, size, "%.*s", (int)strcspn(start, " \t\r\n"), start);
    size_t end = strcspn(start, "\n");
    return end > 0 && start[end] && start[end - 1] == '\r';
}

bool command_ends_with_return(const char *path, const struct command_place *place)
{
    char interpreter[256];
    return read_interpreter(place, path, interpreter, sizeof interpreter);
}

static int explain_missing(const char *path, const struct command_place *place,
                           struct brig_error *err)
{
    char interpreter[256];
    struct stat st;
    char host[PATH_MAX];
    bool shown = find_host_path(place, path, host);
    if (!shown && path[0] != '/')
        return error_set(
            err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT,
            "%.200s: no such file in %.200s, where the cell starts; name the directory it "
            "is in with --workdir",
            path, place->start);
    if (!shown && fstatat(place->workdir, path, &st, 0) == 0)
        return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT,
                         "%.200s: is not in the cell's view; --ro %.200s would show it", path,
                         path);
    if (!shown || fstatat(place->workdir, host, &st, 0) < 0)
        return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, ENOENT, "%.300s: no such file", path);
    if (read_interpreter(place, path, interpreter, sizeof interpreter))
        return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, ENOENT,
                         "%.200s: its first line ends with a carriage return, so that its "
                         "interpreter is \"%.100s\\r\", which does not exist; remove it from all "
                         "lines: sed -i 's/\\r$//' %.100s",
                         path, interpreter, path);
    if (*interpreter && place->view && access(interpreter, X_OK) == 0)
        return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, ENOENT,
                         "%.200s: its interpreter %.200s is not in the cell's view; --ro %.200s "
                         "would show it",
                         path, interpreter, interpreter);
    if (*interpreter)
        return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, ENOENT,
                         "%.200s: its interpreter %.200s does not exist", path, interpreter);
    return error_set(err, BRIG_FAULT_NOT_EXECUTABLE, STAGE, ENOENT,
                     place->view ? "%.300s: is a symlink to, or needs, a file that is not in the "
                                   "cell's view; --ro DIR shows more"
                                 : "%.300s: its program loader does not exist",
                     path);
}

int command_exec_error(const char *path, const struct command_place *place, int errnum,
                       struct brig_error *err)
{
    const char *why = NULL;
    switch (errnum) {
    case ENOENT:
        return explain_missing(path, place, err);
    case ENOTDIR:
        return error_set(err, BRIG_FAULT_NOT_FOUND, STAGE, errnum,
                         "%.300s: a part of the path is not a directory", path);
    case EISDIR:
        why = "is a directory";
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
