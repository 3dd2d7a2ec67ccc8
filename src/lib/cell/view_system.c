/* SPDX-License-Identifier: MIT */
/* Builds the system's part of a view: the least that programs need, or all of the host read-only;
 * and the cell's own /dev and /proc. Called by view_build.c. */
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

/* Copying a file of a few pages costs less than a mount. */
#define COPY_MAX 16384

/* Make the directories above a path. */
static void make_parents(struct view *view, const char *path)
{
    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        char above[PATH_MAX];
        snprintf(above, sizeof above, "%.*s", (int)(at - path - 1), path + 1);
        view_dir(view, above, 0755);
    }
}

static void add_file(struct view *view, const char *bytes, size_t len, const char *target)
{
    struct cell_op *op = view_add(view, CELL_FILE, bytes, target);
    op->make.mode = 0644;
    op->make.len = len;
}

/* Returns false if the file is not a text, or cannot be read: then it is mounted. */
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

/* Add a symlink that leads into /usr: the cell gets a symlink to the same target, and look-ups get
 * the target itself. */
static bool add_link(struct view *view, const char *path)
{
    char text[PATH_MAX], real[PATH_MAX + 1];
    ssize_t len = readlink(path, text, sizeof text - 1);
    if (len <= 0)
        return false;
    text[len] = 0;
    /* Most of them are in the root, and need no look-up. */
    if (text[0] != '/' && !strchr(path + 1, '/'))
        snprintf(real, sizeof real, "/%s", text);
    else if (strncmp(text, "../", 3) == 0 && strncmp(path, "/etc/", 5) == 0 &&
             !strchr(path + 5, '/'))
        snprintf(real, sizeof real, "%s", text + 2);
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

/* Add a part of the system, if this host has it. */
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

/* Add paths that are symlinks on nearly every host, and so are read as symlinks first. */
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

/* Java keeps its settings in /etc, in a directory of its version: those of
 * /usr/lib/jvm/java-17-openjdk-amd64 are in /etc/java-17-openjdk. */
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

/* Do not use readdir(), which allocates and frees memory while the namespace helper shares it. */
static int add_java(struct view *view, struct brig_error *err)
{
    char entries[4096];
    autofd dir = open("/usr/lib/jvm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long len;
    int ret = 0;
    while (dir >= 0 && ret == 0 &&
           (len = syscall(SYS_getdents64, dir, entries, sizeof entries)) > 0) {
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

/* Show only the files of /etc that programs need to start, and that hold general data. None of them
 * names this machine, its users or its secrets; so neither npmrc, pip.conf, gitconfig, wgetrc nor
 * any other file that may hold a password. */
static int add_etc(struct view *view, bool network, struct brig_error *err)
{
    static const char *const entries[] = {
        "/etc/alternatives", "/etc/fonts",           "/etc/groff",          "/etc/ld.so.cache",
        "/etc/ld.so.conf",   "/etc/ld.so.conf.d",    "/etc/manpath.config", "/etc/matplotlibrc",
        "/etc/mime.types",   "/etc/octave.conf",     "/etc/protocols",      "/etc/services",
        "/etc/ssl/certs",    "/etc/ssl/openssl.cnf", "/etc/timezone",       NULL,
    };
    static const char *const policies[] = {"/etc/ImageMagick-6", "/etc/ImageMagick-7", NULL};
    static const char *const of_r[] = {"/etc/R/Makeconf", "/etc/R/Renviron", "/etc/R/ldpaths",
                                       "/etc/R/repositories", NULL};
    static const char *const links[] = {"/etc/localtime", "/etc/os-release", NULL};
    static const char *const pki[] = {"/etc/pki", NULL};
    /* Without the keys, which root can read. */
    static const char *const certificates[] = {"/etc/pki/ca-trust/extracted", "/etc/pki/java",
                                               "/etc/pki/tls/cert.pem", "/etc/pki/tls/certs", NULL};
    static const char *const resolver[] = {"/etc/resolv.conf", NULL};
    view_dir(view, "etc", 0755);
    int ret = add_parts(view, entries, err);
    if (ret == 0)
        ret = add_parts(view, view->as_root ? certificates : pki, err);
    if (ret == 0)
        ret = add_parts(view, policies, err);
    if (ret == 0 && access("/etc/R", F_OK) == 0) /* one check instead of four */
        ret = add_parts(view, of_r, err);
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

#define BOOT_ID "dev/.boot_id"

/* The files that cover files of /proc: one that no guest may open, and a boot id of zeros. */
static void add_covers(struct view *view)
{
    static const char boot_id[] = "00000000-0000-0000-0000-000000000000\n";
    add_file(view, "", 0, VIEW_NOTHING);
    view->ops[view->count - 1].make.mode = 0;
    add_file(view, boot_id, sizeof boot_id - 1, BOOT_ID);
}

/* Make /dev. An ordinary user cannot make devices, so the host's own are mounted then. */
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
        view->ops[view->count - 1].flags |= CELL_DEVICES;
    }
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        struct cell_op *op = view_add(view, CELL_NODE, nodes[i].target, nodes[i].target + 1);
        op->flags = CELL_OURS | (make ? CELL_MAKE : 0);
        op->device = nodes[i].major << 8 | nodes[i].minor;
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        view_add(view, CELL_LINK, links[i].source, links[i].target);
    view_dir(view, "dev/pts", 0755);
    add_covers(view);
    return 0;
}

/* Add the parts of /dev that belong to a single run. */
static int add_own_devices(struct view *view, struct brig_error *err)
{
    uint64_t shm = view->scratch < SHM_SIZE ? view->scratch : SHM_SIZE;
    view_add(view, CELL_PTS, NULL, "dev/pts")->flags = CELL_OURS;
    return view_tmpfs(view, "/dev/shm", shm, 01777, true, err);
}

/* Cover a file of the host, which may be a symlink. */
static void cover_host(struct view *view, const char *source, const char *path)
{
    char real[PATH_MAX];
    if (realpath(path, real))
        view_cover(view, source, view_text(view, real) + 1, false);
}

/* Mount a new /proc, without files that describe the machine or act on it. If the guest has the id
 * of init, hidepid hides init. */
static void add_proc(struct view *view, bool host)
{
    /* Not in this list, since they are root's alone on every kernel and the guest has an unused id:
     * kcore, kmsg, kpagecount, kpageflags, kpagecgroup, timer_list, sysrq-trigger. */
    static const char *const masked[] = {
        "proc/keys",    "proc/key-users",  "proc/kallsyms",          "proc/sched_debug",
        "proc/cmdline", "proc/bootconfig", "proc/version_signature",
    };
    /* hidepid=2 hides nothing from root's group, which such a guest is in; hidepid=4 does. */
    const char *hide = view->as_root ? "hidepid=4" : "hidepid=2";
    view_add(view, CELL_PROC, view->guest_uid ? NULL : hide, "proc")->flags =
        (host ? 0 : CELL_OURS) | (view->split ? CELL_TAKEN : 0);
    /* Cover them even if the host's /proc does not have them. */
    for (size_t i = 0; i < sizeof masked / sizeof *masked; i++)
        view_cover(view, VIEW_NOTHING, masked[i], true);
    view_cover(view, BOOT_ID, "proc/sys/kernel/random/boot_id", true);
    if (view->as_root)
        view_seal_proc(view);
}

static int build_minimal(struct view *view, bool network, struct brig_error *err)
{
    static const char *const dirs[] = {"dev", "home", "proc", "run", "tmp", "var", "var/tmp"};
    view_add(view, CELL_ROOT, "mode=0755,size=4m,nr_inodes=4096", NULL);
    view_note(view, "/", NULL, false, true);
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        view_dir(view, dirs[i], 0755);
    int ret = add_system(view, err);
    if (ret == 0)
        ret = add_etc(view, network, err);
    if (ret == 0)
        add_files(view);
    return ret;
}

/* Show all of the host read-only, with the private parts of a run on top. The sockets in /run and
 * all of /sys are out of reach. */
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
