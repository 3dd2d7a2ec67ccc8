/* Compiling the file view. */
#include "view.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/units.h"

#define STAGE "view"

/* ---- operations ---------------------------------------------------------------------------- */

struct cell_op *cell_add(struct cell *cell, enum cell_kind kind, const char *source,
                         const char *target)
{
    if (cell->count < CELL_OPS_MAX)
        cell->count++;
    else
        cell->no_memory = true;
    struct cell_op *op = &cell->ops[cell->no_memory ? CELL_OPS_MAX : cell->count - 1];
    *op = (struct cell_op){.kind = kind, .fd = -1, .source = source, .target = target};
    return op;
}

const char *cell_text(struct cell *cell, const char *text)
{
    if (strings_add_text(&cell->text, text) == 0)
        return cell->text.items[cell->text.count - 1];
    cell->no_memory = true;
    return "";
}

int cell_failed(const struct cell *cell)
{
    return cell->no_memory ? -ENOMEM : 0;
}

/* ---- what is where ------------------------------------------------------------------------- */

/* Is path the same as base, or below it? */
static bool is_within(const char *path, const char *base)
{
    size_t len = strlen(base);
    if (strcmp(base, "/") == 0)
        return true;
    return strncmp(path, base, len) == 0 && (path[len] == '/' || !path[len]);
}

/* The mount that a path of the cell is on: the last one that covers it. */
static const struct view_mount *mount_of(const struct cell *cell, const char *path)
{
    for (size_t i = cell->mount_count; i-- > 0;) {
        if (is_within(path, cell->mounts[i].target))
            return &cell->mounts[i];
    }
    return NULL;
}

static void note_mount(struct cell *cell, const char *target, const char *source, bool writable,
                       bool folder)
{
    if (cell->mount_count == VIEW_MAX) {
        cell->no_memory = true;
        return;
    }
    cell->mounts[cell->mount_count++] = (struct view_mount){target, source, writable, folder};
}

char *view_resolve(const struct cell *cell, const char *path)
{
    const struct view_mount *mount = mount_of(cell, path);
    char *out = NULL;
    if (!mount || !mount->source)
        return NULL;
    size_t skip = strcmp(mount->target, "/") == 0 ? 0 : strlen(mount->target);
    const char *base = strcmp(mount->source, "/") == 0 ? "" : mount->source;
    return asprintf(&out, "%s%s", base, path + skip) < 0 ? NULL : out;
}

/* ---- places for mounts --------------------------------------------------------------------- */

/* Make the folders above a target, and the target itself as a folder or an empty file, where they
 * are ours to make; elsewhere they must be there. */
static int make_place(struct cell *cell, const char *target, bool folder, struct brig_error *err)
{
    const struct view_mount *mount = mount_of(cell, target);
    if (mount && mount->source) {
        struct stat st;
        autofree char *behind = view_resolve(cell, target);
        if (behind && lstat(behind, &st) == 0 && !S_ISLNK(st.st_mode))
            return 0;
        return error_refused(err, STAGE,
                             "%.200s: there is no such place in %.200s, and brig makes "
                             "nothing in your folders",
                             target, mount->source);
    }
    for (const char *at = strchr(target + 1, '/'); at; at = strchr(at + 1, '/')) {
        char above[PATH_MAX];
        snprintf(above, sizeof above, "%.*s", (int)(at - target), target);
        if (mount && is_within(mount->target, above))
            continue; /* made already: the mount is on it */
        cell_add(cell, CELL_FOLDER, NULL, cell_text(cell, above + 1))->a = 0755;
    }
    if (mount && strcmp(mount->target, target) == 0)
        return 0;
    const char *relative = cell_text(cell, target + 1);
    if (folder)
        cell_add(cell, CELL_FOLDER, NULL, relative)->a = 0755;
    else
        cell_add(cell, CELL_FILE, "", relative)->a = 0644;
    return 0;
}

static uint64_t device_of(const struct stat *st)
{
    return ((uint64_t)major(st->st_dev) << 32) | minor(st->st_dev);
}

/* source must be free of links. */
static int add_bind(struct cell *cell, const char *source, const char *target, bool writable,
                    struct brig_error *err)
{
    struct stat st;
    if (lstat(source, &st) < 0)
        return error_refused(err, STAGE, "%.300s: %s", source, strerror(errno));
    source = cell_text(cell, source);
    target = cell_text(cell, target);
    int ret = make_place(cell, target, S_ISDIR(st.st_mode), err);
    if (ret < 0)
        return ret;
    struct cell_op *op = cell_add(cell, CELL_BIND, source, target + 1);
    op->a = writable ? 0 : CELL_READ_ONLY;
    if (writable && cell->owner)
        op->a |= CELL_OWNER;
    op->b = device_of(&st);
    op->c = st.st_ino;
    note_mount(cell, target, source, writable, S_ISDIR(st.st_mode));
    return 0;
}

static int add_tmpfs(struct cell *cell, const char *target, const char *size, unsigned mode,
                     struct brig_error *err)
{
    target = cell_text(cell, target);
    int ret = make_place(cell, target, true, err);
    if (ret < 0)
        return ret;
    struct cell_op *op = cell_add(cell, CELL_TMPFS, cell_text(cell, size), target + 1);
    op->a = mode;
    op->b = cell->guest_uid;
    note_mount(cell, target, NULL, true, true);
    return 0;
}

/* ---- the parts of the view ----------------------------------------------------------------- */

static int add_system(struct cell *cell, struct brig_error *err)
{
    static const char *const folders[] = {"/usr",   "/bin",   "/sbin",  "/lib",
                                          "/lib32", "/lib64", "/libx32"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct stat st;
        char link[256];
        if (lstat(folders[i], &st) < 0)
            continue;
        if (S_ISLNK(st.st_mode)) {
            ssize_t n = readlink(folders[i], link, sizeof link - 1);
            if (n <= 0)
                continue;
            link[n] = 0;
            cell_add(cell, CELL_LINK, cell_text(cell, link), folders[i] + 1);
            autofree char *real = realpath(folders[i], NULL);
            if (real) /* for look-ups: what is behind it is another folder of the system */
                note_mount(cell, folders[i], cell_text(cell, real), false, true);
            continue;
        }
        int ret = add_bind(cell, folders[i], folders[i], false, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* Of /etc only what programs need to start and to know about the world; none of it names this
 * machine, its users or its secrets. */
static int add_etc(struct cell *cell, bool network, struct brig_error *err)
{
    static const char *const entries[] = {
        "/etc/alternatives",
        "/etc/ca-certificates",
        "/etc/fonts",
        "/etc/java-17-openjdk",
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
    };
    cell_add(cell, CELL_FOLDER, NULL, "etc")->a = 0755;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        autofree char *real = realpath(entries[i], NULL);
        if (!real)
            continue;
        int ret = add_bind(cell, real, entries[i], false, err);
        if (ret < 0)
            return ret;
    }
    autofree char *resolv = network ? realpath("/etc/resolv.conf", NULL) : NULL;
    return resolv ? add_bind(cell, resolv, "/etc/resolv.conf", false, err) : 0;
}

static void add_identity(struct cell *cell, unsigned uid, unsigned gid)
{
    char passwd[512], group[256];
    snprintf(passwd, sizeof passwd,
             "%sbrig:x:%u:%u:brig:" VIEW_HOME
             ":/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
             uid ? "root:x:0:0:root:/:/bin/false\n" : "", uid, gid);
    snprintf(group, sizeof group, "%sbrig:x:%u:\nnogroup:x:65534:\n", gid ? "root:x:0:\n" : "",
             gid);
    const struct {
        const char *target, *text;
    } files[] = {
        {"etc/passwd", cell_text(cell, passwd)},
        {"etc/group", cell_text(cell, group)},
        {"etc/hosts", "127.0.0.1 localhost brig\n::1 localhost\n"},
        {"etc/hostname", "brig\n"},
        {"etc/machine-id", "00000000000000000000000000000000\n"},
        {"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
                              "networks: files\nprotocols: files\nservices: files\n"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        cell_add(cell, CELL_FILE, files[i].text, files[i].target)->a = 0644;
}

static int add_devices(struct cell *cell, struct brig_error *err)
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
        if (stat(path, &st) < 0 || !S_ISCHR(st.st_mode))
            return error_refused(err, STAGE, "%s: is not a device here", path);
        const char *target = cell_text(cell, path);
        cell_add(cell, CELL_FILE, "", target + 1)->a = 0644;
        struct cell_op *op = cell_add(cell, CELL_BIND, target, target + 1);
        op->a = CELL_DEVICE;
        op->b = device_of(&st);
        op->c = st.st_ino;
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        cell_add(cell, CELL_LINK, links[i].source, links[i].target);
    cell_add(cell, CELL_FOLDER, NULL, "dev/pts")->a = 0755;
    cell_add(cell, CELL_PTS, NULL, "dev/pts");
    return add_tmpfs(cell, "/dev/shm", "64m", 01777, err);
}

/* Fresh /proc, without what tells of the machine or acts on it. */
static void add_proc(struct cell *cell)
{
    static const char *const masked[] = {
        "proc/kcore",      "proc/keys",        "proc/key-users",     "proc/kallsyms",
        "proc/timer_list", "proc/sched_debug", "proc/sysrq-trigger", "proc/kmsg",
        "proc/kpagecount", "proc/kpageflags",  "proc/kpagecgroup",   "proc/version_signature",
    };
    cell_add(cell, CELL_PROC, NULL, "proc");
    for (size_t i = 0; i < sizeof masked / sizeof *masked; i++)
        cell_add(cell, CELL_BIND, "dev/null", masked[i])->a =
            CELL_FROM_ROOT | CELL_READ_ONLY | CELL_OPTIONAL;
    cell_add(cell, CELL_BIND, "dev/.boot_id", "proc/sys/kernel/random/boot_id")->a =
        CELL_FROM_ROOT | CELL_READ_ONLY | CELL_OPTIONAL;
}

/* ---- what the caller adds ------------------------------------------------------------------ */

/* Absolute, not the root, and without "", "." or ".." as a part. */
static bool is_plain(const char *path)
{
    if (path[0] != '/' || !path[1])
        return false;
    for (const char *at = path; *at; at += strcspn(at, "/")) {
        at++;
        size_t len = strcspn(at, "/");
        if (len == 0 || (len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.'))
            return false;
    }
    return true;
}

/* Split P[:DEST], make the source free of links and the target absolute. */
static int split_bind(const char *text, const char *option, char **source, char *target,
                      size_t size, struct brig_error *err)
{
    const char *colon = strrchr(text, ':');
    autofree char *path = colon ? strndup(text, (size_t)(colon - text)) : strdup(text);
    if (!path)
        return error_memory(err, STAGE);
    char *real = realpath(path, NULL);
    if (!real)
        return error_refused(err, STAGE, "--%s: %.200s: %s", option, path, strerror(errno));
    int n = 0;
    if (colon)
        n = snprintf(target, size, "%s", colon + 1);
    else if (path[0] == '/')
        n = snprintf(target, size, "%s", path);
    else
        n = snprintf(target, size, "%s", real);
    size_t len = strlen(target);
    while (len > 1 && target[len - 1] == '/')
        target[--len] = 0;
    if (n >= (int)size || !is_plain(target)) {
        free(real);
        return error_usage(err, STAGE, "--%s: \"%.100s\" is not an absolute, plain path", option,
                           target);
    }
    *source = real;
    return 0;
}

static int add_binds(struct cell *cell, const struct strings *list, bool writable,
                     struct brig_error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        char target[PATH_MAX];
        autofree char *source = NULL;
        int ret =
            split_bind(list->items[i], writable ? "rw" : "ro", &source, target, sizeof target, err);
        if (ret == 0)
            ret = add_bind(cell, source, target, writable, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int add_tmpfs_list(struct cell *cell, const struct strings *list, const char *size,
                          struct brig_error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        char target[PATH_MAX], bytes[24];
        const char *text = list->items[i];
        const char *colon = strrchr(text, ':');
        uint64_t value = 0;
        const char *why = colon ? units_parse_size(colon + 1, &value) : NULL;
        if (why)
            return error_usage(err, STAGE, "--tmpfs: \"%.80s\" %s", colon + 1, why);
        if (colon)
            snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)value);
        snprintf(target, sizeof target, "%.*s", colon ? (int)(colon - text) : (int)strlen(text),
                 text);
        if (!is_plain(target))
            return error_usage(err, STAGE, "--tmpfs: \"%.100s\" is not an absolute, plain path",
                               target);
        int ret = add_tmpfs(cell, target, colon ? bytes : size, 01777, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* The current folder is shown writable unless it is the root or a whole home: those have to be
 * asked for by name. */
static int add_workdir(struct cell *cell, const struct brig_spec *spec, const char *workdir,
                       const char **start, struct brig_error *err)
{
    const char *home = getenv("HOME");
    bool asked = spec_asked(spec, KEY_WORKDIR);
    autofree char *real_home = home ? realpath(home, NULL) : NULL;
    bool whole = strcmp(workdir, "/") == 0 || (real_home && strcmp(workdir, real_home) == 0);
    *start = cell->home;
    if (strcmp(workdir, "/") == 0 && asked)
        return error_refused(err, STAGE, "workdir: / cannot be the work folder of a cell");
    if (whole && !asked)
        return 0;
    *start = cell_text(cell, workdir);
    return add_bind(cell, workdir, workdir, true, err);
}

static int build_minimal(struct cell *cell, bool network, struct brig_error *err)
{
    cell_add(cell, CELL_ROOT, "4m", NULL);
    note_mount(cell, "/", NULL, false, true);
    static const char *const folders[] = {"dev", "home", "proc", "run", "tmp", "var", "var/tmp"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        cell_add(cell, CELL_FOLDER, NULL, folders[i])->a = 0755;
    int ret = add_system(cell, err);
    return ret < 0 ? ret : add_etc(cell, network, err);
}

/* All of the host read-only, with what is private to a run on top. What listens in /run is out of
 * reach. */
static int build_host(struct cell *cell, const char *home, const char *size, struct brig_error *err)
{
    cell_add(cell, CELL_ROOT_HOST, NULL, NULL);
    note_mount(cell, "/", "/", false, true);
    int ret = add_tmpfs(cell, "/dev", "64k", 0755, err);
    if (ret == 0)
        ret = add_tmpfs(cell, "/run", "64k", 0755, err);
    if (ret == 0)
        ret = add_tmpfs(cell, home, size, 0700, err);
    return ret;
}

int view_build(struct cell *cell, const struct brig_spec *spec, const char *workdir,
               uint64_t memory_bytes, const char **start, struct brig_error *err)
{
    char size[24];
    bool network = spec->values[KEY_NETWORK].number == NETWORK_HOST;
    bool root = cell->owner;
    /* Counted against the memory of the run where there is a group; half of it bounds it anyhow. */
    uint64_t scratch = memory_bytes == BRIG_UNLIMITED ? UINT64_C(1) << 30 : memory_bytes / 2;
    snprintf(size, sizeof size, "%llu", (unsigned long long)(scratch > 65536 ? scratch : 65536));
    bool host = spec->values[KEY_VIEW].number == VIEW_HOST;
    const char *own_home = getenv("HOME");
    autofree char *real_home = own_home ? realpath(own_home, NULL) : NULL;
    cell->home = host && real_home ? cell_text(cell, real_home) : VIEW_HOME;
    cell_add(cell, CELL_PRIVATE, NULL, NULL);
    int ret = host ? build_host(cell, cell->home, size, err) : build_minimal(cell, network, err);
    if (ret < 0)
        return ret;
    cell_add(cell, CELL_FILE, "00000000-0000-0000-0000-000000000000\n", "dev/.boot_id")->a = 0444;
    if (!host)
        add_identity(cell, root ? 0 : getuid(), root ? 0 : getgid());
    ret = add_devices(cell, err);
    if (ret == 0)
        add_proc(cell);
    if (ret == 0)
        ret = add_tmpfs(cell, "/tmp", size, 01777, err);
    if (ret == 0 && !host)
        ret = add_tmpfs(cell, VIEW_HOME, size, 0700, err);
    if (ret == 0)
        ret = add_workdir(cell, spec, workdir, start, err);
    if (ret == 0)
        ret = add_tmpfs_list(cell, &spec->values[KEY_TMPFS].list, size, err);
    if (ret == 0)
        ret = add_binds(cell, &spec->values[KEY_RO].list, false, err);
    if (ret == 0)
        ret = add_binds(cell, &spec->values[KEY_RW].list, true, err);
    cell_add(cell, CELL_PIVOT, NULL, NULL);
    cell_add(cell, CELL_SEAL, NULL, NULL);
    if (ret == 0 && cell_failed(cell))
        ret = error_system(err, STAGE, ENOMEM, "the file view is too large");
    return ret;
}
