/* What a cell shows of the system: the least that programs need, or all of it read-only; and what
 * is the cell's own, /dev and /proc. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "view_build.h"

#define STAGE    "view"
#define SHM_SIZE (UINT64_C(64) << 20)

/* A file that fits a page costs less as a copy than as a mount. */
#define COPY_MAX 4096

static int copy_file(struct view *view, const char *path, struct brig_error *err)
{
    char text[COPY_MAX + 1];
    ssize_t len = fd_read_file(AT_FDCWD, path, text, sizeof text);
    if (len < 0)
        return error_system(err, STAGE, (int)-len, "%s: %s", path, strerror((int)-len));
    if (strlen(text) != (size_t)len)
        return error_refused(err, STAGE, "%s: is not a text", path);
    view_add(view, CELL_FILE, view_text(view, text), path + 1)->a = 0644;
    return 0;
}

static int bind_part(struct view *view, const char *path, const char *real, struct brig_error *err)
{
    struct source source;
    int ret = source_open(&source, "view", real, err);
    if (ret == 0) {
        ret = view_bind(view, &source, path, false, false, err);
        source_done(&source);
    }
    return ret;
}

/* A part of the system, if this host has it: a link as a link, and for look-ups what is behind it.
 */
static int add_part(struct view *view, const char *path, struct brig_error *err)
{
    struct stat st;
    char real[PATH_MAX];
    bool deep = view_is_within(path, "/etc") && strchr(path + 5, '/');
    if (lstat(path, &st) < 0)
        return 0;
    if (deep || S_ISLNK(st.st_mode)) {
        if (!realpath(path, real))
            return 0;
        if (deep || !view_is_within(real, "/usr"))
            return bind_part(view, path, real, err);
        const char *to = view_text(view, real);
        view_add(view, CELL_LINK, to, path + 1);
        view_note(view, path, to, false, true);
        return 0;
    }
    /* In the root or in /etc, and no link: there is nothing to resolve. The child compares it. */
    if (S_ISREG(st.st_mode) && st.st_size <= COPY_MAX && (st.st_mode & S_IROTH))
        return copy_file(view, path, err);
    struct source source = {(char *)(uintptr_t)path, source_device(&st), st.st_ino,
                            S_ISDIR(st.st_mode)};
    return view_bind(view, &source, path, false, false, err);
}

static int add_parts(struct view *view, const char *const *paths, struct brig_error *err)
{
    int ret = 0;
    for (; ret == 0 && *paths; paths++)
        ret = add_part(view, *paths, err);
    return ret;
}

static int add_system(struct view *view, struct brig_error *err)
{
    static const char *const folders[] = {"/usr",   "/bin",   "/sbin",   "/lib",
                                          "/lib32", "/lib64", "/libx32", NULL};
    return add_parts(view, folders, err);
}

/* Java keeps its settings in /etc, in a folder of its version. */
static int add_java(struct view *view, struct brig_error *err)
{
    glob_t found;
    int ret = 0;
    if (access("/usr/lib/jvm", F_OK) < 0 || glob("/etc/java-*", 0, NULL, &found) != 0)
        return 0;
    for (size_t i = 0; i < found.gl_pathc && ret == 0; i++)
        ret = add_part(view, found.gl_pathv[i], err);
    globfree(&found);
    return ret;
}

/* Of /etc only what programs need to start and to know about the world; none of it names this
 * machine, its users or its secrets. */
static int add_etc(struct view *view, bool network, struct brig_error *err)
{
    static const char *const entries[] = {
        "/etc/alternatives",
        "/etc/ca-certificates",
        "/etc/fonts",
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/localtime",
        "/etc/magic",
        "/etc/mime.types",
        "/etc/pki",
        "/etc/protocols",
        "/etc/services",
        "/etc/ssl/certs",
        "/etc/ssl/openssl.cnf",
        "/etc/terminfo",
        "/etc/timezone",
        NULL,
    };
    static const char *const resolver[] = {"/etc/resolv.conf", NULL};
    view_add(view, CELL_FOLDER, NULL, "etc")->a = 0755;
    int ret = add_parts(view, entries, err);
    if (ret == 0)
        ret = add_java(view, err);
    return ret == 0 && network ? add_parts(view, resolver, err) : ret;
}

static const char no_machine[] = "00000000000000000000000000000000\n";

static void add_files(struct view *view)
{
    char passwd[512], group[256];
    snprintf(passwd, sizeof passwd,
             "%sbrig:x:%u:%u:brig:" VIEW_HOME
             ":/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
             view->uid ? "root:x:0:0:root:/:/bin/false\n" : "", view->uid, view->gid);
    snprintf(group, sizeof group, "%sbrig:x:%u:\nnogroup:x:65534:\n",
             view->gid ? "root:x:0:\n" : "", view->gid);
    const struct {
        const char *target, *text;
    } files[] = {
        {"etc/passwd", view_text(view, passwd)},
        {"etc/group", view_text(view, group)},
        {"etc/hosts", "127.0.0.1 localhost brig\n::1 localhost\n"},
        {"etc/hostname", "brig\n"},
        {"etc/machine-id", no_machine},
        {"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
                              "networks: files\nprotocols: files\nservices: files\n"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        view_add(view, CELL_FILE, files[i].text, files[i].target)->a = 0644;
}

static int add_devices(struct view *view, struct brig_error *err)
{
    static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const struct {
        const char *target, *source;
    } links[] = {
        {"dev/fd", "/proc/self/fd"},       {"dev/stdin", "/proc/self/fd/0"},
        {"dev/stdout", "/proc/self/fd/1"}, {"dev/stderr", "/proc/self/fd/2"},
        {"dev/ptmx", "pts/ptmx"},
    };
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        char path[32];
        struct stat st;
        snprintf(path, sizeof path, "/dev/%s", nodes[i]);
        if (lstat(path, &st) < 0 || !S_ISCHR(st.st_mode))
            return error_refused(err, STAGE, "%s: is not a device here", path);
        const char *target = view_text(view, path);
        view_add(view, CELL_FILE, "", target + 1)->a = 0644;
        struct cell_op *op = view_add(view, CELL_BIND, target, target + 1);
        op->a = CELL_DEVICE;
        op->b = source_device(&st);
        op->c = st.st_ino;
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        view_add(view, CELL_LINK, links[i].source, links[i].target);
    view_add(view, CELL_FOLDER, NULL, "dev/pts")->a = 0755;
    view_add(view, CELL_PTS, NULL, "dev/pts");
    return view_tmpfs(view, "/dev/shm", view->scratch < SHM_SIZE ? view->scratch : SHM_SIZE, 01777,
                      err);
}

/* Cover a file of the new root with another of it. */
static void cover(struct view *view, const char *source, const char *target)
{
    view_add(view, CELL_BIND, source, target)->a = CELL_FROM_ROOT | CELL_READ_ONLY | CELL_OPTIONAL;
}

/* Fresh /proc, without what tells of the machine or acts on it. Where the guest has init's own id,
 * init is not in it. */
static void add_proc(struct view *view)
{
    static const char *const masked[] = {
        "proc/kcore",      "proc/keys",        "proc/key-users",     "proc/kallsyms",
        "proc/timer_list", "proc/sched_debug", "proc/sysrq-trigger", "proc/kmsg",
        "proc/kpagecount", "proc/kpageflags",  "proc/kpagecgroup",   "proc/version_signature",
        "proc/cmdline",    "proc/bootconfig",
    };
    view_add(view, CELL_PROC, NULL, "proc")->a = !view->guest_uid;
    for (size_t i = 0; i < sizeof masked / sizeof *masked; i++) {
        char path[64];
        struct stat st;
        snprintf(path, sizeof path, "/%s", masked[i]);
        /* What is root's alone is closed to the guest as it is: it has nobody's id, and no rights.
         */
        if (lstat(path, &st) == 0 && (st.st_mode & S_IRWXO))
            cover(view, "dev/null", masked[i]);
    }
    view_add(view, CELL_FILE, "00000000-0000-0000-0000-000000000000\n", "dev/.boot_id")->a = 0444;
    cover(view, "dev/.boot_id", "proc/sys/kernel/random/boot_id");
}

static int build_minimal(struct view *view, bool network, struct brig_error *err)
{
    static const char *const folders[] = {"dev", "home", "proc", "run", "tmp", "var", "var/tmp"};
    view_add(view, CELL_ROOT, "4m", NULL);
    view_note(view, "/", NULL, false, true);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        view_add(view, CELL_FOLDER, NULL, folders[i])->a = 0755;
    int ret = add_system(view, err);
    if (ret == 0)
        ret = add_etc(view, network, err);
    if (ret == 0)
        add_files(view);
    return ret;
}

/* All of the host read-only, with what is private to a run on top. What listens in /run is out of
 * reach, and so is /sys. */
static int build_host(struct view *view, struct brig_error *err)
{
    static const char *const covered[] = {"/dev", "/run", "/sys"};
    struct stat st;
    view_add(view, CELL_ROOT_HOST, NULL, NULL);
    view_note(view, "/", "/", false, true);
    for (size_t i = 0; i < sizeof covered / sizeof *covered; i++) {
        if (lstat(covered[i], &st) < 0 || !S_ISDIR(st.st_mode))
            continue;
        int ret = view_tmpfs(view, covered[i], 65536, 0755, err);
        if (ret < 0)
            return ret;
        /* Only ours to fill, until the root is sealed; the guest's landlock rules leave it out. */
        view->ops[view->count - 1].b = 0;
        view->mounts[view->mount_count - 1].writable = false;
    }
    view_add(view, CELL_FILE, no_machine, "dev/.machine-id")->a = 0444;
    view_add(view, CELL_FILE, "brig\n", "dev/.hostname")->a = 0444;
    cover(view, "dev/.machine-id", "etc/machine-id");
    cover(view, "dev/.machine-id", "var/lib/dbus/machine-id");
    cover(view, "dev/.hostname", "etc/hostname");
    return 0;
}

int view_add_system(struct view *view, bool host, bool network, struct brig_error *err)
{
    int ret = host ? build_host(view, err) : build_minimal(view, network, err);
    if (ret == 0)
        ret = add_devices(view, err);
    if (ret == 0)
        add_proc(view);
    return ret;
}
