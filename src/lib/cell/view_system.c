/* What a cell shows of the system: the least that programs need, or all of it read-only; and what
 * is the cell's own, /dev and /proc. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "view_build.h"

#define STAGE    "view"
#define SHM_SIZE (UINT64_C(64) << 20)
#define DEV_SIZE 65536

/* A file that fits a few pages costs less as a copy than as a mount. */
#define COPY_MAX 16384

/* The folders above a path of ours. */
static void make_parents(struct view *view, const char *path)
{
    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        char above[PATH_MAX];
        snprintf(above, sizeof above, "%.*s", (int)(at - path - 1), path + 1);
        view_folder(view, above, 0755);
    }
}

static void add_file(struct view *view, const char *bytes, size_t len, const char *target)
{
    struct cell_op *op = view_add(view, CELL_FILE, bytes, target);
    op->a = 0644;
    op->b = len;
}

/* False if it is not a text, or cannot be read: then it is mounted. */
static bool copy_file(struct view *view, const char *path)
{
    char text[COPY_MAX + 1];
    ssize_t len = fd_read_file(AT_FDCWD, path, text, sizeof text);
    if (len < 0 || strlen(text) != (size_t)len)
        return false;
    make_parents(view, path);
    add_file(view, view_text(view, text), (size_t)len, path + 1);
    return true;
}

static int bind_part(struct view *view, const char *path, const char *real, struct brig_error *err)
{
    struct source source;
    int ret = source_open(&source, "view", real, err);
    if (ret == 0) {
        ret = view_bind(view, &source, path, false, VIEW_SYSTEM, err);
        source_done(&source);
    }
    return ret;
}

/* A link, if it leads into /usr: shown as a link, and for look-ups what is behind it. */
static bool add_link(struct view *view, const char *path)
{
    char text[PATH_MAX], real[PATH_MAX + 1];
    ssize_t len = readlink(path, text, sizeof text - 1);
    if (len <= 0)
        return false;
    text[len] = 0;
    /* Of a link in the root, which is what most of them are, nothing has to be looked up. */
    if (text[0] != '/' && !strchr(path + 1, '/'))
        snprintf(real, sizeof real, "/%s", text);
    else
        snprintf(real, sizeof real, "%s", text);
    if (!view_is_within(real, "/usr") || strstr(real, "..")) {
        if (!realpath(path, real) || !view_is_within(real, "/usr"))
            return false;
    }
    const char *to = view_text(view, real);
    make_parents(view, path);
    view_add(view, CELL_LINK, to, path + 1);
    view_note(view, path, to, false, true);
    return true;
}

/* A part of the system, if this host has it. */
static int add_part(struct view *view, const char *path, struct brig_error *err)
{
    struct stat st;
    char real[PATH_MAX];
    if (lstat(path, &st) < 0)
        return 0;
    if (S_ISLNK(st.st_mode)) {
        if (add_link(view, path) || !realpath(path, real))
            return 0;
        return bind_part(view, path, real, err);
    }
    if (S_ISREG(st.st_mode) && st.st_size <= COPY_MAX && (st.st_mode & S_IROTH) &&
        copy_file(view, path))
        return 0;
    struct source source = {(char *)(uintptr_t)path, source_device(&st), st.st_ino,
                            S_ISDIR(st.st_mode)};
    return view_bind(view, &source, path, false, VIEW_SYSTEM, err);
}

static int add_parts(struct view *view, const char *const *paths, struct brig_error *err)
{
    int ret = 0;
    for (; ret == 0 && *paths; paths++)
        ret = add_part(view, *paths, err);
    return ret;
}

/* What is a link on nearly every host, and so is taken for one at first. */
static int add_links(struct view *view, const char *const *paths, struct brig_error *err)
{
    int ret = 0;
    for (; ret == 0 && *paths; paths++) {
        errno = 0;
        if (!add_link(view, *paths) && errno != ENOENT)
            ret = add_part(view, *paths, err);
    }
    return ret;
}

static int add_system(struct view *view, struct brig_error *err)
{
    static const char *const links[] = {"/bin",   "/sbin",   "/lib", "/lib32",
                                        "/lib64", "/libx32", NULL};
    int ret = add_part(view, "/usr", err);
    return ret == 0 ? add_links(view, links, err) : ret;
}

/* Java keeps its settings in /etc, in a folder of its version: /usr/lib/jvm/java-17-openjdk-amd64
 * has them in /etc/java-17-openjdk. */
static int add_java_of(struct view *view, const char *name, struct brig_error *err)
{
    char path[64];
    bool java = strncmp(name, "java-", 5) == 0;
    size_t version = java ? strspn(name + 5, "0123456789") : 0;
    if (!version || strncmp(name + 5 + version, "-openjdk", 8) != 0)
        return 0;
    snprintf(path, sizeof path, "/etc/java-%.*s-openjdk", (int)version, name + 5);
    return add_part(view, view_text(view, path), err);
}

/* Without the C library's list, which takes memory and gives it back while the holder shares it. */
static int add_java(struct view *view, struct brig_error *err)
{
    char entries[4096];
    autofd folder = open("/usr/lib/jvm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long len;
    int ret = 0;
    while (folder >= 0 && ret == 0 &&
           (len = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
        for (long at = 0; at < len && ret == 0;) {
            const char *entry = entries + at;
            unsigned short size;
            memcpy(&size, entry + offsetof(struct dirent, d_reclen), sizeof size);
            if (entry[offsetof(struct dirent, d_type)] != DT_LNK)
                ret = add_java_of(view, entry + offsetof(struct dirent, d_name), err);
            at += size;
        }
    }
    return ret;
}

/* Of /etc only what programs need to start and to know about the world; none of it names this
 * machine, its users or its secrets. */
static int add_etc(struct view *view, bool network, struct brig_error *err)
{
    static const char *const entries[] = {
        "/etc/alternatives",
        "/etc/fonts",
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/mime.types",
        "/etc/pki",
        "/etc/protocols",
        "/etc/services",
        "/etc/ssl/certs",
        "/etc/ssl/openssl.cnf",
        "/etc/timezone",
        NULL,
    };
    static const char *const links[] = {"/etc/localtime", NULL};
    static const char *const resolver[] = {"/etc/resolv.conf", NULL};
    view_folder(view, "etc", 0755);
    int ret = add_parts(view, entries, err);
    if (ret == 0)
        ret = add_links(view, links, err);
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
        add_file(view, files[i].text, strlen(files[i].text), files[i].target);
}

#define NOTHING "dev/.nothing"
#define BOOT_ID "dev/.boot_id"

/* What covers files of /proc: something that nobody may open, and a name that says nothing. */
static void add_covers(struct view *view)
{
    static const char boot_id[] = "00000000-0000-0000-0000-000000000000\n";
    add_file(view, "", 0, NOTHING);
    view->ops[view->count - 1].a = 0;
    add_file(view, boot_id, sizeof boot_id - 1, BOOT_ID);
}

/* A folder of devices in memory. An ordinary user cannot make devices: the host's own are shown
 * then. */
static int add_devices(struct view *view, struct brig_error *err)
{
    static const struct {
        const char *target;
        unsigned major, minor;
    } nodes[] = {{"/dev/null", 1, 3},   {"/dev/zero", 1, 5},    {"/dev/full", 1, 7},
                 {"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}, {"/dev/tty", 5, 0}};
    static const struct {
        const char *target, *source;
    } links[] = {
        {"dev/fd", "/proc/self/fd"},       {"dev/stdin", "/proc/self/fd/0"},
        {"dev/stdout", "/proc/self/fd/1"}, {"dev/stderr", "/proc/self/fd/2"},
        {"dev/ptmx", "pts/ptmx"},
    };
    bool make = view->split;
    if (make) {
        int ret = view_tmpfs(view, "/dev", DEV_SIZE, 0755, false, err);
        if (ret < 0)
            return ret;
        view->ops[view->count - 1].a |= CELL_DEVICES;
    }
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        struct cell_op *op = view_add(view, CELL_NODE, nodes[i].target, nodes[i].target + 1);
        op->a = CELL_OURS | (make ? CELL_MAKE : 0);
        op->b = nodes[i].major << 8 | nodes[i].minor;
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        view_add(view, CELL_LINK, links[i].source, links[i].target);
    view_folder(view, "dev/pts", 0755);
    add_covers(view);
    return 0;
}

/* What in /dev is of one run alone. */
static int add_own_devices(struct view *view, struct brig_error *err)
{
    uint64_t shm = view->scratch < SHM_SIZE ? view->scratch : SHM_SIZE;
    view_add(view, CELL_PTS, NULL, "dev/pts")->a = CELL_OURS;
    return view_tmpfs(view, "/dev/shm", shm, 01777, true, err);
}

/* Cover a file of the new root with another of it, which is in /dev: that has been sealed when the
 * run's part begins. */
static void cover(struct view *view, const char *source, const char *target, bool ours)
{
    uint64_t sealed = view->split ? CELL_SEALED : 0;
    view_add(view, CELL_COVER, source, target)->a = (ours ? CELL_OURS : 0) | sealed;
}

/* The same for a file of the host, which may be a link to where the names are kept. */
static void cover_host(struct view *view, const char *source, const char *path)
{
    char real[PATH_MAX];
    if (realpath(path, real))
        cover(view, source, view_text(view, real) + 1, false);
}

/* Fresh /proc, without what tells of the machine or acts on it. Where the guest has init's own id,
 * init is not in it. */
static void add_proc(struct view *view, bool host)
{
    /* Others tell or do more, but are root's alone on every kernel: kcore, kmsg, kpagecount,
     * kpageflags, kpagecgroup, timer_list, sysrq-trigger. The guest has nobody's id. */
    static const char *const masked[] = {
        "proc/keys",    "proc/key-users",  "proc/kallsyms",          "proc/sched_debug",
        "proc/cmdline", "proc/bootconfig", "proc/version_signature",
    };
    view_add(view, CELL_PROC, view->guest_uid ? NULL : "hidepid=2", "proc")->a =
        (host ? 0 : CELL_OURS) | (view->split ? CELL_TAKEN : 0);
    for (size_t i = 0; i < sizeof masked / sizeof *masked;
         i++) /* whatever the host's /proc shows */
        cover(view, NOTHING, masked[i], true);
    cover(view, BOOT_ID, "proc/sys/kernel/random/boot_id", true);
}

static int build_minimal(struct view *view, bool network, struct brig_error *err)
{
    static const char *const folders[] = {"dev", "home", "proc", "run", "tmp", "var", "var/tmp"};
    view_add(view, CELL_ROOT, "mode=0755,size=4m,nr_inodes=4096", NULL);
    view_note(view, "/", NULL, false, true);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        view_folder(view, folders[i], 0755);
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
        int ret = view_tmpfs(view, covered[i], 65536, 0755, false, err);
        if (ret < 0)
            return ret;
    }
    add_file(view, no_machine, sizeof no_machine - 1, "dev/.machine-id");
    add_file(view, "brig\n", 5, "dev/.hostname");
    cover_host(view, "dev/.machine-id", "/etc/machine-id");
    cover_host(view, "dev/.machine-id", "/var/lib/dbus/machine-id");
    cover_host(view, "dev/.hostname", "/etc/hostname");
    return 0;
}

int view_add_system(struct view *view, bool host, bool network, struct brig_error *err)
{
    int ret = host ? build_host(view, err) : build_minimal(view, network, err);
    if (ret == 0)
        ret = add_devices(view, err);
    view_begin(view, CELL_PART_RUN);
    if (ret < 0)
        return ret;
    add_proc(view, host);
    return add_own_devices(view, err);
}
