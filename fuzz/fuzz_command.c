/* SPDX-License-Identifier: MIT */
/* lib/command.c: a script with a missing interpreter. The error has the name from the script,
 * escaped. */
#include "lib/plan/command.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target.h"

/* A script that names an interpreter: "#!", blanks, and a character that is not a newline. */
static bool names_interpreter(const uint8_t *data, size_t size)
{
    size_t at = 2;
    if (size < 3 || data[0] != '#' || data[1] != '!')
        return false;
    while (at < size && at < 255 && (data[at] == ' ' || data[at] == '\t'))
        at++;
    if (at < size && at < 255 && data[at] && !strchr("\r\n", data[at]))
        return true;
    /* A line that is a carriage return alone is told as such, with an empty interpreter. */
    for (size_t end = at; end < size && end < 255 && data[end]; end++) {
        if (data[end] == '\n')
            return end > at && data[end - 1] == '\r';
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct brig_error err = {0};
    int fd = memfd_create("script", MFD_CLOEXEC);
    ensure(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const struct command_place place = {.workdir = AT_FDCWD};
    ensure(command_exec_error(path, &place, ENOENT, &err) == -ENOENT);
    ensure(err.fault == BRIG_FAULT_NOT_EXECUTABLE && is_printable(err.text));
    ensure(names_interpreter(data, size) == (strstr(err.text, "its interpreter ") != NULL));
    close(fd);
    return 0;
}
