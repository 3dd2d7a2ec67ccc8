/* Landlock rules. */
#include "landlock.h"

#include <errno.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child/protocol.h"

/* The bits of later versions, whatever the headers of the build know. */
#define ACCESS_FILE_READ  UINT64_C(0x5)    /* execute, read */
#define ACCESS_FOLDER     UINT64_C(0x8)    /* list */
#define ACCESS_FILE_WRITE UINT64_C(0x2)    /* write */
#define ACCESS_ALL_1      UINT64_C(0x1fff) /* all that version 1 knows */
#define ACCESS_REFER      UINT64_C(0x2000) /* 2: move between folders */
#define ACCESS_TRUNCATE   UINT64_C(0x4000) /* 3 */
#define ACCESS_IOCTL      UINT64_C(0x8000) /* 5: of devices */
#define SCOPE_ALL         UINT64_C(0x3)    /* 6: abstract sockets and signals */

int landlock_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return version < 0 ? -errno : (int)version;
}

/* What this version lets a writable folder have, and a device. */
static uint64_t access_all(int version)
{
    uint64_t all = ACCESS_ALL_1;
    all |= version >= 2 ? ACCESS_REFER : 0;
    all |= version >= 3 ? ACCESS_TRUNCATE : 0;
    all |= version >= 5 ? ACCESS_IOCTL : 0;
    return all;
}

static uint64_t access_device(int version)
{
    return ACCESS_FILE_READ | ACCESS_FILE_WRITE | ACCESS_FOLDER |
           (access_all(version) & (ACCESS_TRUNCATE | ACCESS_IOCTL));
}

static void begin_rules(struct view *view, int version)
{
    struct cell_op *rules = view_add(view, CELL_RULES, NULL, NULL);
    rules->a = access_all(version);
    rules->b = version >= 6 ? SCOPE_ALL : 0;
}

static void allow(struct view *view, const char *path, uint64_t access)
{
    view_add(view, CELL_ALLOW, path, NULL)->a = access;
}

static void end_rules(struct view *view)
{
    view_add(view, CELL_KEEP_RULES, NULL, NULL)->fd = SLOT_RULES;
}

void landlock_add_rules(struct view *view, int version)
{
    uint64_t all = access_all(version), device = access_device(version);
    begin_rules(view, version);
    allow(view, "/", ACCESS_FILE_READ | ACCESS_FOLDER);
    allow(view, "/dev", device);
    allow(view, "/proc", device);
    for (size_t i = 0; i < view->mount_count; i++) {
        const struct view_mount *mount = &view->mounts[i];
        if (mount->writable)
            allow(view, mount->target, mount->folder ? all : all & (device & ~ACCESS_FOLDER));
    }
    end_rules(view);
}

static void allow_host(struct view *view, const char *path, uint64_t access)
{
    char real[PATH_MAX];
    if (realpath(path, real))
        allow(view, view_text(view, real), access);
}

void landlock_add_host_rules(struct view *view, int version, const char *const *writable,
                             const char *scratch)
{
    static const char *const readable[] = {"/usr",   "/bin", "/sbin", "/lib", "/lib32",
                                           "/lib64", "/etc", "/opt",  "/proc"};
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                          "/dev/urandom"};
    begin_rules(view, version);
    for (size_t i = 0; i < sizeof readable / sizeof *readable; i++)
        allow_host(view, readable[i], ACCESS_FILE_READ | ACCESS_FOLDER);
    for (; *writable; writable++)
        allow_host(view, *writable, access_all(version));
    allow(view, scratch, access_all(version)); /* which is not there yet */
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        allow_host(view, devices[i], access_device(version) & ~ACCESS_FOLDER);
    end_rules(view);
}
