/* SPDX-License-Identifier: MIT */
/* Executes the operations that build a cell, for enter.c, fork.c and mount_builder.c. */
#include "cell_ops.h"

#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/prctl.h>
#include <linux/stat.h>

#include "counters.h"
#include "plain_text.h"

#define MNT_DETACH_   2
#define PERMISSIONS   07777
#define AT_RECURSIVE_ 0x8000

struct state {
    int root;  /* root of the new tree, or -1 */
    int rules; /* landlock ruleset, or -1 */
    const struct cell_way *way;
    const struct cell_op *ops;
    uint32_t count;
    uint32_t *failed;
    int taken[CELL_OPS_MAX];    /* by operation: its mount, if it is CELL_TAKEN */
    int lifted[CELL_LIFTS_MAX]; /* mounts, in the order in which they were lifted */
    uint32_t lift_count, lower_count;
};

/* An unprivileged user may map its own id, and only after denying setgroups. */
static long map_self(const struct cell_op *op)
{
    long ret = write_path("/proc/self/setgroups", "deny");
    if (ret == 0)
        ret = write_path("/proc/self/uid_map", op->source);
    return ret < 0 ? ret : write_path("/proc/self/gid_map", op->target);
}

/* ---- paths --------------------------------------------------------------------------------- */

/* Open a path in the new root, without following symlinks or leaving the root. */
static long open_target(const struct state *state, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH,
    };
    return sys4(__NR_openat2, state->root, path, &how, sizeof how);
}

static long open_source(const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_NO_SYMLINKS,
    };
    return sys4(__NR_openat2, AT_FDCWD, path, &how, sizeof how);
}

/* Check that the source is still the file that the plan examined. */
static long check_source(long fd, const struct cell_op *op)
{
    struct statx st;
    st.stx_ino = st.stx_dev_major = st.stx_dev_minor = 0;
    long ret = sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_INO, &st);
    uint64_t device = ((uint64_t)st.stx_dev_major << 32) | st.stx_dev_minor;
    if (ret == 0 && (device != op->device || st.stx_ino != op->inode))
        ret = -ESTALE;
    return ret;
}

/* ---- file systems -------------------------------------------------------------------------- */

#define OPTIONS_MAX 160
#define PARENT_MAX  4096

/* Set the options of "KEY=VALUE,KEY=VALUE" one by one. */
static long set_options(long fs, const char *options)
{
    char text[OPTIONS_MAX];
    if (text_length(options) >= sizeof text)
        return -ENAMETOOLONG;
    put_text(text, options);
    long ret = 0;
    for (char *at = text; *at && ret == 0;) {
        char *key = at, *value;
        /* NOLINTNEXTLINE(clang-analyzer-core.*): put_text() filled it in */
        while (*at && *at != '=')
            at++;
        if (*at)
            *at++ = 0;
        value = at;
        while (*at && *at != ',')
            at++;
        if (*at)
            *at++ = 0;
        ret = sys5(__NR_fsconfig, fs, FSCONFIG_SET_STRING, key, value, 0);
    }
    return ret;
}

/* Create a file system that is not yet attached anywhere. */
static long new_mount(const char *type, const char *options, uint64_t attributes)
{
    long fs = sys2(__NR_fsopen, type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return fs;
    long ret = options ? set_options(fs, options) : 0;
    if (ret == 0)
        ret = sys5(__NR_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
    if (ret == 0)
        ret = sys3(__NR_fsmount, fs, FSMOUNT_CLOEXEC, attributes);
    sys1(__NR_close, fs);
    return ret;
}

/* Attach a mount in the new root and close its file descriptor. */
static long attach(const struct state *state, long mount, const struct cell_op *op)
{
    long ret;
    if (mount < 0)
        return mount;
    if (op->flags & CELL_OURS) { /* the current directory is the new root */
        ret = sys5(__NR_move_mount, mount, "", AT_FDCWD, op->target, MOVE_MOUNT_F_EMPTY_PATH);
    } else {
        long place = open_target(state, op->target);
        ret = place;
        if (place >= 0) {
            ret = sys5(__NR_move_mount, mount, "", place, "",
                       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
            sys1(__NR_close, place);
        }
    }
    sys1(__NR_close, mount);
    return ret;
}

/* Mount a file system in the new root. */
static long mount_new(const struct state *state, const char *type, uint64_t attributes,
                      const char *options, const struct cell_op *op)
{
    /* mount() needs one call; its flags have the same values as the attributes. */
    if (op->flags & CELL_OURS)
        return sys5(__NR_mount, type, op->target, type, attributes, options);
    return attach(state, new_mount(type, options, attributes), op);
}

/* Mount over the old root, which stays reachable by path until the pivot. */
static long cover_root(struct state *state, long mount)
{
    if (mount < 0)
        return mount;
    state->root = (int)mount;
    long ret = sys5(__NR_move_mount, mount, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH);
    return ret < 0 ? ret : sys1(__NR_fchdir, mount);
}

static long make_root(struct state *state, const char *options)
{
    return cover_root(state, new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
}

static long open_tree(long dir, const char *path, uint64_t flags)
{
    return sys3(__NR_open_tree, dir, path,
                flags | AT_RECURSIVE_ | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

/* Set the attributes of a tree, and the owner of its files if `owner` is a user namespace. Closes
 * the tree on failure. */
static long set_tree(long tree, uint64_t attributes, int owner)
{
    struct mount_attr attr = {.attr_set = attributes};
    if (tree < 0)
        return tree;
    long ret =
        sys5(__NR_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE_, &attr, sizeof attr);
    if (ret == 0 && owner >= 0) {
        /* Map only the top mount, not the mounts below it: some file systems do not support it. */
        struct mount_attr map = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)owner};
        ret = sys5(__NR_mount_setattr, tree, "", AT_EMPTY_PATH, &map, sizeof map);
    }
    if (ret < 0)
        sys1(__NR_close, tree);
    return ret < 0 ? ret : tree;
}

static long make_host_root(struct state *state)
{
    long tree = open_tree(AT_FDCWD, "/", 0);
    return cover_root(state,
                      set_tree(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1));
}

static long take_root(struct state *state)
{
    long ret = sys1(__NR_chdir, "/");
    if (ret == 0)
        ret = sys4(__NR_openat, AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    state->root = (int)ret;
    return ret < 0 ? ret : 0;
}

/* Clone a mount that the caller named, with its files mapped to the guest if CELL_IDMAP is set. */
static long clone_named(const struct cell_op *op, uint64_t attributes)
{
    long source = open_source(op->source);
    if (source < 0)
        return source;
    int owner = op->flags & CELL_IDMAP ? op->fd : -1;
    long tree = check_source(source, op);
    if (tree == 0)
        tree = set_tree(open_tree(source, "", AT_EMPTY_PATH), attributes, owner);
    /* Without an idmapped mount the files keep their owners: the guest can read less, not more. */
    if (tree == -EINVAL && owner >= 0 && (op->flags & CELL_READ_ONLY))
        tree = set_tree(open_tree(source, "", AT_EMPTY_PATH), attributes, -1);
    sys1(__NR_close, source);
    return tree;
}

static long clone_source(const struct cell_op *op)
{
    uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    if (op->flags & CELL_READ_ONLY)
        attributes |= MOUNT_ATTR_RDONLY;
    return op->flags & CELL_SYSTEM
               ? set_tree(open_tree(AT_FDCWD, op->source, AT_SYMLINK_NOFOLLOW), attributes, -1)
               : clone_named(op, attributes);
}

static long bind_tree(const struct state *state, const struct cell_op *op)
{
    long tree = op->flags & CELL_TAKEN ? state->taken[op - state->ops] : clone_source(op);
    return attach(state, tree, op);
}

static long lift(struct state *state, const struct cell_op *op)
{
    if (state->lift_count == CELL_LIFTS_MAX)
        return -EMFILE;
    long tree = open_tree(state->root, op->target, AT_SYMLINK_NOFOLLOW);
    if (tree < 0)
        return tree;
    state->lifted[state->lift_count++] = (int)tree;
    return 0;
}

static long lower(struct state *state, const struct cell_op *op)
{
    if (state->lower_count == state->lift_count)
        return -EINVAL;
    return attach(state, state->lifted[state->lower_count++], op);
}

#define PROC_ATTRIBUTES (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

static long mount_proc(const struct state *state, const struct cell_op *op)
{
    if (op->flags & CELL_TAKEN)
        return attach(state, state->taken[op - state->ops], op);
    return mount_new(state, "proc", PROC_ATTRIBUTES, op->source, op);
}

/* Create the mounts whose sources cannot be reached, or that cannot be created, from within the
 * namespace of the base mounts. */
static long take_mounts(struct state *state)
{
    for (uint32_t i = 0; i < state->count; i++) {
        const struct cell_op *op = &state->ops[i];
        if ((op->kind != CELL_BIND && op->kind != CELL_PROC) || !(op->flags & CELL_TAKEN))
            continue;
        long mount = op->kind == CELL_PROC ? new_mount("proc", op->source, PROC_ATTRIBUTES)
                                           : clone_source(op);
        state->taken[i] = (int)mount;
        if (mount < 0) {
            *state->failed = i;
            return mount;
        }
    }
    return 0;
}

static long join_base_mounts(struct state *state)
{
    const struct cell_way *way = state->way;
    long ret = take_mounts(state);
    if (ret == 0 && way->builder) {
        ret = ready_wait(&way->builder->ready);
        if (ret < 0)
            *state->failed = way->builder->failed;
    }
    if (ret == 0)
        ret = sys2(__NR_setns, way->base_mounts, CLONE_NEWNS);
    if (ret == 0 && way->copy)
        ret = sys1(__NR_unshare, CLONE_NEWNS);
    if (ret < 0)
        return ret;
    long root = sys4(__NR_openat, AT_FDCWD, "/", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    state->root = (int)root;
    return root < 0 ? root : 0;
}

/* Find the directory in which to create an entry, and its *name there. If the path may contain
 * foreign symlinks, none is followed, and the caller closes the directory in *opened. */
static long find_parent(const struct state *state, const char *target, bool careful,
                        const char **name, long *opened)
{
    char parent[PARENT_MAX];
    const char *last = 0;
    *name = target;
    *opened = -1;
    for (const char *at = target; *at && careful; at++)
        last = *at == '/' ? at : last;
    if (!last)
        return state->root;
    if ((uint64_t)(last - target) >= sizeof parent)
        return -ENAMETOOLONG;
    char *end = parent;
    for (const char *at = target; at < last; at++)
        *end++ = *at;
    *end = 0;
    *name = last + 1;
    return *opened = open_target(state, parent);
}

static long make_file(const struct state *state, const struct cell_op *op)
{
    const char *name;
    long opened, parent = find_parent(state, op->target, op->make.foreign, &name, &opened);
    if (parent < 0)
        return parent;
    long fd = sys4(__NR_openat, parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                   op->make.mode);
    if (opened >= 0)
        sys1(__NR_close, opened);
    if (fd < 0)
        return fd;
    long n = op->make.len ? sys3(__NR_write, fd, op->source, op->make.len) : 0;
    sys1(__NR_close, fd);
    if (n >= 0 && (uint64_t)n != op->make.len)
        n = -ENOSPC;
    return n < 0 ? n : 0;
}

/* Open the host's device, if it has the expected device number. */
static long open_device(const struct cell_op *op)
{
    struct statx st;
    st.stx_mode = 0;
    st.stx_rdev_major = st.stx_rdev_minor = 0;
    long fd = open_source(op->source);
    if (fd < 0)
        return fd;
    long ret = sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE, &st);
    if (ret == 0 && ((st.stx_mode & 0170000) != 0020000 ||
                     ((uint64_t)st.stx_rdev_major << 8 | st.stx_rdev_minor) != op->device))
        ret = -ENODEV;
    if (ret < 0)
        sys1(__NR_close, fd);
    return ret < 0 ? ret : fd;
}

static long make_node(const struct state *state, const struct cell_op *op)
{
    long ret = -EPERM;
    if (op->flags & CELL_MAKE)
        ret = sys4(__NR_mknodat, state->root, op->target, 0020666, op->device);
    if (ret != -EPERM)
        return ret;
    const struct cell_op place = {.target = op->target, .make.mode = 0644};
    long device = open_device(op);
    if (device < 0)
        return device;
    ret = make_file(state, &place);
    if (ret == 0)
        /* The mount is read-only, the device is not: a guest with the id of root owns the host's
         * node. */
        ret = attach(state,
                     set_tree(open_tree(device, "", AT_EMPTY_PATH),
                              MOUNT_ATTR_NOSUID | MOUNT_ATTR_RDONLY, -1),
                     op);
    sys1(__NR_close, device);
    return ret;
}

/* A target that does not exist needs no cover. */
static long cover(const struct state *state, const struct cell_op *op)
{
    if (op->flags & CELL_SEALED) {
        long done = sys5(__NR_mount, op->source, op->target, 0, 0x1000 /* MS_BIND */, 0);
        return done == -ENOENT ? 0 : done;
    }
    if (sys3(__NR_faccessat, state->root, op->target, 0) == -ENOENT)
        return 0;
    long tree = set_tree(open_tree(state->root, op->source, 0),
                         MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1);
    long ret = attach(state, tree, op);
    return ret == -ENOENT ? 0 : ret;
}

static long make_dir(const struct state *state, const struct cell_op *op)
{
    const char *name;
    long opened, parent = find_parent(state, op->target, op->make.foreign, &name, &opened);
    if (parent < 0)
        return parent;
    long ret = sys3(__NR_mkdirat, parent, name, op->make.mode & PERMISSIONS);
    if (opened >= 0)
        sys1(__NR_close, opened);
    return ret == -EEXIST ? 0 : ret;
}

static long pivot(void)
{
    long ret = sys2(__NR_pivot_root, ".", ".");
    if (ret == 0)
        ret = sys2(__NR_umount2, ".", MNT_DETACH_);
    return ret < 0 ? ret : sys1(__NR_chdir, "/");
}

static long seal(const char *target)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    return sys5(__NR_mount_setattr, AT_FDCWD, target, 0, &attr, sizeof attr);
}

/* ---- the rest ------------------------------------------------------------------------------ */

/* An exec by a user other than root loses all capabilities that are not ambient. */
static long keep_capabilities(uint64_t mask)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}};
    long ret = sys2(__NR_capget, &header, caps);
    if (ret < 0)
        return ret;
    caps[0].inheritable = (uint32_t)mask;
    ret = sys2(__NR_capset, &header, caps);
    for (int i = 0; i < 32 && ret == 0; i++) {
        if (mask & (UINT64_C(1) << i))
            ret = sys5(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0);
    }
    return ret;
}

/* The kernel headers of the build may be older than the kernel and lack the last fields. */
struct ruleset {
    uint64_t access_fs, access_net, scoped;
};

static long begin_rules(struct state *state, const struct cell_op *op)
{
    const struct ruleset rules = {.access_fs = op->rules.access, .scoped = op->rules.scopes};
    /* An older kernel has fewer fields and refuses a larger size. */
    uint64_t size = op->rules.scopes ? sizeof rules : sizeof rules.access_fs;
    long fd = sys3(__NR_landlock_create_ruleset, &rules, size, 0);
    state->rules = (int)fd;
    return fd < 0 ? fd : 0;
}

static long allow(const struct state *state, const struct cell_op *op)
{
    long fd = op->fd;
    if (op->fd < 0)
        fd = sys4(__NR_openat, AT_FDCWD, op->source, O_PATH | O_CLOEXEC | O_NOFOLLOW, 0);
    if (fd < 0)
        return fd;
    const struct landlock_path_beneath_attr rule = {op->rules.access, (int)fd};
    long ret = sys4(__NR_landlock_add_rule, state->rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    if (op->fd < 0)
        sys1(__NR_close, fd);
    return ret;
}

static long keep_rules(const struct state *state, int slot)
{
    long ret = sys3(__NR_dup3, state->rules, slot, 0);
    return ret < 0 ? ret : sys1(__NR_close, state->rules);
}

/* A new UTS namespace inherits the names of its parent. The second one is the NIS domain. */
static long set_names(const char *host)
{
    static const char none[] = "(none)";
    long ret = sys2(__NR_sethostname, host, text_length(host));
    return ret < 0 ? ret : sys2(__NR_setdomainname, none, sizeof none - 1);
}

static long run_one(struct state *state, const struct cell_op *op)
{
    switch ((enum cell_kind)op->kind) {
    case CELL_MAP_SELF:
        return map_self(op);
    case CELL_JOIN:
        return join_base_mounts(state);
    case CELL_PRIVATE:
        return sys5(__NR_mount, 0, "/", 0, 0x44000 /* MS_REC | MS_PRIVATE */, 0);
    case CELL_ROOT:
        return make_root(state, op->source);
    case CELL_ROOT_HOST:
        return make_host_root(state);
    case CELL_ROOT_HERE:
        return take_root(state);
    case CELL_DIR:
        return make_dir(state, op);
    case CELL_LINK:
        return sys3(__NR_symlinkat, op->source, state->root, op->target);
    case CELL_FILE:
        return make_file(state, op);
    case CELL_BIND:
        return bind_tree(state, op);
    case CELL_LIFT:
        return lift(state, op);
    case CELL_LOWER:
        return lower(state, op);
    case CELL_NODE:
        return make_node(state, op);
    case CELL_COVER:
        return cover(state, op);
    case CELL_TMPFS:
        return mount_new(state, "tmpfs",
                         op->flags & CELL_DEVICES ? MOUNT_ATTR_NOSUID
                                                  : MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                         op->source, op);
    case CELL_PROC:
        return mount_proc(state, op);
    case CELL_PTS:
        return mount_new(state, "devpts", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
                         "ptmxmode=0666,mode=0620,max=64", op);
    case CELL_COUNTERS:
        return bound_counters();
    case CELL_PIVOT:
        return pivot();
    case CELL_SEAL:
        return seal(op->target);
    case CELL_LOOPBACK:
        return loopback_up();
    case CELL_NETWORK:
        return ns_child_join_network(state->way->helper, op->fd);
    case CELL_CHDIR:
        return sys1(__NR_chdir, op->source);
    case CELL_HOSTNAME:
        return set_names(op->source);
    case CELL_KEEP_CAPS:
        return keep_capabilities(op->capabilities);
    case CELL_RULES:
        return begin_rules(state, op);
    case CELL_ALLOW:
        return allow(state, op);
    case CELL_KEEP_RULES:
        return keep_rules(state, op->fd);
    }
    return -ENOSYS; /* an unknown operation must not be skipped */
}

long cell_run(const struct cell_op *ops, uint32_t count, enum cell_part part,
              const struct cell_way *way, uint32_t *failed)
{
    struct state state;
    state.root = state.rules = -1;
    state.way = way;
    state.ops = ops;
    state.count = count;
    state.failed = failed;
    state.lift_count = state.lower_count = 0;
    for (uint32_t i = 0; i < CELL_OPS_MAX; i++)
        state.taken[i] = -EBADF;
    long ret = count > CELL_OPS_MAX ? -E2BIG : 0;
    /* Modes are exactly as planned; the guest keeps the umask of the caller. */
    long mask = sys1(__NR_umask, 0);
    for (uint32_t i = 0; i < count && ret >= 0; i++) {
        if (ops[i].part != part)
            continue;
        *failed = i;
        ret = run_one(&state, &ops[i]);
    }
    sys1(__NR_umask, mask);
    return ret < 0 ? ret : 0;
}
