/* Targets. */
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/units.h"

#define STAGE "command line"

static int open_number(const char *target, const char *option, int *fd, struct brig_error *err)
{
    uint64_t number = 0;
    /* 0 is no count, and no place to write to either. */
    const char *why = units_parse_count(target + 3, &number);
    if (why)
        return error_usage(err, STAGE, "%s: \"%.80s\": is not the number of a descriptor", option,
                           target);
    int flags = fcntl((int)number, F_GETFL);
    if (flags < 0)
        return error_usage(err, STAGE, "%s: descriptor %d is not open", option, (int)number);
    if (!(flags & (O_WRONLY | O_RDWR))) /* O_PATH is in neither */
        return error_usage(err, STAGE, "%s: descriptor %d is not open for writing", option,
                           (int)number);
    int own = fcntl((int)number, F_DUPFD_CLOEXEC, 3);
    if (own < 0)
        return error_system(err, STAGE, errno, "%s: %s", option, error_text(errno));
    *fd = own;
    return 0;
}

int target_open(const char *target, const char *option, int *fd, struct brig_error *err)
{
    if (strncmp(target, "fd:", 3) == 0)
        return open_number(target, option, fd, err);
    if (!*target)
        return error_usage(err, STAGE, "%s: is empty", option);
    /* No FIFO that a guest left is waited for. */
    int own = fd_open_plain(target,
                            O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (own < 0 && errno == ELOOP)
        return error_usage(err, STAGE,
                           "%s: %.200s: is a link, or goes through one; name the file "
                           "itself",
                           option, target);
    if (own < 0)
        return error_usage(err, STAGE, "%s: %.200s: %s", option, target,
                           errno == ENXIO ? "nobody reads it" : error_text(errno));
    fcntl(own, F_SETFL, 0);
    *fd = own;
    return 0;
}

int target_write(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EAGAIN) { /* another program made it so */
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, 1000);
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}
