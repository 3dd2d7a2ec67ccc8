/* SPDX-License-Identifier: MIT */
/* Compiles the landlock rules of a cell. landlock.h has the interface. */
#include "landlock.h"

#include <errno.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child/protocol.h"

/* The bits of all versions, also of those that the headers of the build do not have. */
#define ACCESS_FILE_READ  UINT64_C(0x5)    /* execute, read */
#define ACCESS_DIR        UINT64_C(0x8)    /* list */
#define ACCESS_FILE_WRITE UINT64_C(0x2)    /* write */
#define ACCESS_ALL_1      UINT64_C(0x1fff) /* all of version 1 */
#define ACCESS_REFER      UINT64_C(0x2000) /* since 2: move between directories */
#define ACCESS_TRUNCATE   UINT64_C(0x4000) /* since 3 */
#define ACCESS_IOCTL      UINT64_C(0x8000) /* since 5: of devices */
#define SCOPE_ALL         UINT64_C(0x3)    /* since 6: abstract sockets and signals */

int landlock_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return version < 0 ? -errno : (int)version;
}

const char *landlock_describe(int version, bool alone)
{
    static const struct {
        int below;
        const char *behind, *alone;
    } rows[] = {
        {LANDLOCK_TRUNCATES,
         "a second wall around the same view; older than version 3: not against cutting files off, "
         "ioctls of devices, signals to init, abstract sockets",
         "the host's files by an allow-list; older than version 3: files are not cut off by path, "
         "signals reach other processes of the same user"},
        {5,
         "a second wall around the same view; older than version 5: not against ioctls of devices, "
         "signals to init, abstract sockets",
         "the host's files by an allow-list; older than version 6: signals reach other processes "
         "of "
         "the same user"},
        {LANDLOCK_SCOPES,
         "a second wall around the same view; older than version 6: not against signals to init, "
         "abstract sockets",
         "the host's files by an allow-list; older than version 6: signals reach other processes "
         "of "
         "the same user"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (version < rows[i].below)
            return alone ? rows[i].alone : rows[i].behind;
    }
    return alone ? "the host's files by an allow-list" : "a second wall around the same view";
}

/* All rights that this version has, for a writable directory. */
static uint64_t access_all(int version)
{
    uint64_t all = ACCESS_ALL_1;
    all |= version >= 2 ? ACCESS_REFER : 0;
    all |= version >= LANDLOCK_TRUNCATES ? ACCESS_TRUNCATE : 0;
    all |= version >= 5 ? ACCESS_IOCTL : 0;
    return all;
}

static uint64_t access_device(int version)
{
    return ACCESS_FILE_READ | ACCESS_FILE_WRITE | ACCESS_DIR |
           (access_all(version) & (ACCESS_TRUNCATE | ACCESS_IOCTL));
}

static void begin_rules(struct view *view, int version)
{
    struct cell_op *rules = view_add(view, CELL_RULES, NULL, NULL);
    rules->rules.access = access_all(version);
    rules->rules.scopes = version >= LANDLOCK_SCOPES ? SCOPE_ALL : 0;
}

static void allow(struct view *view, const char *path, uint64_t access)
{
    view_add(view, CELL_ALLOW, path, NULL)->rules.access = access;
}

static void end_rules(struct view *view)
{
    view_add(view, CELL_KEEP_RULES, NULL, NULL)->fd = SLOT_RULES;
}

void landlock_add_rules(struct view *view, int version)
{
    uint64_t all = access_all(version), device = access_device(version);
    begin_rules(view, version);
    allow(view, "/", ACCESS_FILE_READ | ACCESS_DIR);
    allow(view, "/dev", device);
    allow(view, "/proc", view->as_root ? ACCESS_FILE_READ | ACCESS_DIR : device);
    for (size_t i = 0; i < view->mount_count; i++) {
        const struct view_mount *mount = &view->mounts[i];
        if (mount->writable)
            allow(view, mount->target, mount->dir ? all : all & (device & ~ACCESS_DIR));
    }
    end_rules(view);
}

/* Allow the paths that exist on this host. A rule for a file must not have the rights of a
 * directory. */
static void allow_hosts(struct view *view, const char *const *paths, size_t count, uint64_t access)
{
    for (size_t i = 0; i < count; i++) {
        char real[PATH_MAX];
        struct stat st;
        if (realpath(paths[i], real) && stat(real, &st) == 0)
            allow(view, view_text(view, real), S_ISDIR(st.st_mode) ? access : access & ~ACCESS_DIR);
    }
}

void landlock_add_host_rules(struct view *view, int version, const char *workdir,
                             const char *scratch)
{
    static const char *const system[] = {"/usr",   "/bin",   "/sbin", "/lib",
                                         "/lib32", "/lib64", "/proc"};
    static const char *const readable[] = {"/etc", "/opt"};
    /* If the guest has root's id: no file that only root can read. */
    static const char *const harmless[] = {
        "/etc/alternatives",    "/etc/fonts",         "/etc/group",        "/etc/hosts",
        "/etc/ld.so.cache",     "/etc/ld.so.conf",    "/etc/ld.so.conf.d", "/etc/localtime",
        "/etc/mime.types",      "/etc/nsswitch.conf", "/etc/os-release",   "/etc/passwd",
        "/etc/pki/tls/certs",   "/etc/protocols",     "/etc/resolv.conf",  "/etc/services",
        "/etc/ssl/openssl.cnf", "/etc/ssl/certs",     "/etc/timezone",
    };
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                          "/dev/urandom"};
    const uint64_t read = ACCESS_FILE_READ | ACCESS_DIR;
    const uint64_t device = access_device(version) & ~ACCESS_DIR;
    begin_rules(view, version);
    allow_hosts(view, system, sizeof system / sizeof *system, read);
    if (view->as_root)
        allow_hosts(view, harmless, sizeof harmless / sizeof *harmless, read);
    else
        allow_hosts(view, readable, sizeof readable / sizeof *readable, read);
    if (workdir) { /* the directory that was opened, even if its name was given to another since */
        struct cell_op *op = view_add(view, CELL_ALLOW, workdir, NULL);
        op->rules.access = access_all(version);
        op->fd = SLOT_WORKDIR;
    }
    allow(view, scratch, access_all(version)); /* it does not exist yet */
    allow_hosts(view, devices, sizeof devices / sizeof *devices, device);
    end_rules(view);
}
