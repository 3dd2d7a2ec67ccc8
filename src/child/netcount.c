/* SPDX-License-Identifier: MIT */
/* Reads the counters of a network namespace. The order of the columns in /proc/net/snmp is fixed:
 * the kernel only adds new ones at the end. */
#include "netcount.h"

#include <linux/fcntl.h>

#include "sys.h"

#define IP_OUT_NO_ROUTES 12
#define UDP_NO_PORTS     2

static char text[8192]; /* fits either file; the rest of a larger one is ignored */

static const char *read_text(const char *path)
{
    long fd = sys4(__NR_openat, -100 /* AT_FDCWD */, path, O_RDONLY | O_CLOEXEC, 0);
    long len = 0, n = 0;
    text[0] = 0;
    if (fd < 0)
        return text;
    while (len < (long)sizeof text - 1 &&
           (n = sys3(__NR_read, fd, text + len, sizeof text - 1 - (uint64_t)len)) > 0)
        len += n;
    sys1(__NR_close, fd);
    text[len] = 0;
    return text;
}

/* The text after the name, if the line begins with it; otherwise NULL. */
static const char *behind_name(const char *line, const char *name)
{
    while (*name && *line == *name) {
        line++;
        name++;
    }
    return *name ? NULL : line;
}

static const char *next_line(const char *at)
{
    while (*at && *at != '\n')
        at++;
    return *at ? at + 1 : at;
}

/* The number in a column of the line that begins with a name. Skips the line of column heads, which
 * begins with the same name. */
static uint64_t find_number(const char *at, const char *name, int column)
{
    for (; *at; at = next_line(at)) {
        const char *values = behind_name(at, name);
        for (int i = 0; values && i < column; i++) {
            while (*values == ' ' || *values == '\t')
                values++;
            if (*values < '0' || *values > '9') {
                values = NULL;
                break;
            }
            uint64_t number = 0;
            for (; *values >= '0' && *values <= '9'; values++)
                number = number * 10 + (uint64_t)(*values - '0');
            if (i == column - 1)
                return number;
        }
    }
    return 0;
}

uint64_t netcount_no_routes(void)
{
    uint64_t v4 = find_number(read_text("/proc/self/net/snmp"), "Ip:", IP_OUT_NO_ROUTES);
    return v4 + find_number(read_text("/proc/self/net/snmp6"), "Ip6OutNoRoutes", 1);
}

uint64_t netcount_no_ports(void)
{
    return find_number(read_text("/proc/self/net/snmp"), "Udp:", UDP_NO_PORTS);
}
