/* Building the cell. */
#include "cell.h"

#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/if.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/prctl.h>
#include <linux/sockios.h>
#include <linux/stat.h>

#include "text.h"

#define AF_INET_      2
#define SOCK_DGRAM_   2
#define MNT_DETACH_   2
#define PERMISSIONS   07777
#define AT_RECURSIVE_ 0x8000

struct state {
    int root;  /* of the new tree, once there is one */
    int rules; /* landlock */
};

/* An ordinary user may map its own id, and only without setgroups. */
static long map_self(const struct cell_op *op)
{
    long ret = write_path("/proc/self/setgroups", "deny");
    if (ret == 0)
        ret = write_path("/proc/self/uid_map", op->source);
    return ret < 0 ? ret : write_path("/proc/self/gid_map", op->target);
}

/* ---- paths --------------------------------------------------------------------------------- */

/* A place in the new root: never through a link, never out of it. */
static long open_target(const struct state *state, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH,
    };
    return sys4(__NR_openat2, state->root, path, &how, sizeof how);
}

/* What the plan looked at, if it is still there. */
static long open_source(const struct state *state, const struct cell_op *op)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
        .resolve = RESOLVE_NO_SYMLINKS,
    };
    struct statx st;
    st.stx_ino = st.stx_dev_major = st.stx_dev_minor = 0;
    if (op->a & CELL_FROM_ROOT)
        return open_target(state, op->source);
    long fd = sys4(__NR_openat2, AT_FDCWD, op->source, &how, sizeof how);
    if (fd < 0)
        return fd;
    long ret = sys5(__NR_statx, fd, "", AT_EMPTY_PATH, STATX_INO, &st);
    uint64_t device = ((uint64_t)st.stx_dev_major << 32) | st.stx_dev_minor;
    if (ret == 0 && (device != op->b || st.stx_ino != op->c))
        ret = -ESTALE;
    if (ret < 0)
        sys1(__NR_close, fd);
    return ret < 0 ? ret : fd;
}

/* ---- file systems -------------------------------------------------------------------------- */

struct setting {
    const char *key, *value;
};

/* A new file system, not yet attached anywhere. */
static long new_mount(const char *type, const struct setting *settings, uint32_t count,
                      uint64_t attributes)
{
    long fs = sys2(__NR_fsopen, type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return fs;
    long ret = 0;
    for (uint32_t i = 0; i < count && ret == 0; i++)
        ret = sys5(__NR_fsconfig, fs, FSCONFIG_SET_STRING, settings[i].key, settings[i].value, 0);
    if (ret == 0)
        ret = sys5(__NR_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
    if (ret == 0)
        ret = sys3(__NR_fsmount, fs, FSMOUNT_CLOEXEC, attributes);
    sys1(__NR_close, fs);
    return ret;
}

/* Attach a mount in the new root and give it up. */
static long attach(const struct state *state, long mount, const char *target)
{
    if (mount < 0)
        return mount;
    long place = open_target(state, target);
    long ret = place;
    if (place >= 0) {
        ret = sys5(__NR_move_mount, mount, "", place, "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
        sys1(__NR_close, place);
    }
    sys1(__NR_close, mount);
    return ret;
}

/* Mode as octal text, for a mount option. */
static void octal(uint64_t mode, char out[8])
{
    for (int i = 3; i >= 0; i--, mode >>= 3)
        out[i] = (char)('0' + (mode & 7));
    out[4] = 0;
}

/* owner 0 is whoever mounts it. */
static long new_tmpfs(const char *size, uint64_t mode, uint64_t owner)
{
    char mode_text[8], owner_text[24];
    octal(mode, mode_text);
    put_number(owner_text, owner);
    const struct setting settings[] = {
        {"mode", mode_text}, {"size", size},      {"nr_inodes", "100000"},
        {"uid", owner_text}, {"gid", owner_text},
    };
    return new_mount("tmpfs", settings, owner ? 5 : 3, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/* Over the old root, which stays reachable by path until the pivot. */
static long cover_root(struct state *state, long mount)
{
    if (mount < 0)
        return mount;
    state->root = (int)mount;
    return sys5(__NR_move_mount, mount, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH);
}

static long make_root(struct state *state, const char *size)
{
    return cover_root(state, new_tmpfs(size, 0755, 0));
}

static long clone_tree(int fd, uint64_t attributes, int owner)
{
    struct mount_attr attr = {.attr_set = attributes};
    long tree = sys3(__NR_open_tree, fd, "",
                     AT_EMPTY_PATH | AT_RECURSIVE_ | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return tree;
    long ret =
        sys5(__NR_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE_, &attr, sizeof attr);
    if (ret == 0 && owner >= 0) {
        /* The mount itself, not what is mounted below it: not every file system can do it. */
        struct mount_attr map = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)owner};
        ret = sys5(__NR_mount_setattr, tree, "", AT_EMPTY_PATH, &map, sizeof map);
    }
    if (ret < 0)
        sys1(__NR_close, tree);
    return ret < 0 ? ret : tree;
}

static long make_host_root(struct state *state)
{
    long fd = sys4(__NR_openat, AT_FDCWD, "/", O_PATH | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    long tree = clone_tree((int)fd, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1);
    sys1(__NR_close, fd);
    return cover_root(state, tree);
}

static long bind_tree(const struct state *state, const struct cell_op *op)
{
    uint64_t attributes = MOUNT_ATTR_NOSUID;
    if (!(op->a & CELL_DEVICE))
        attributes |= MOUNT_ATTR_NODEV;
    if (op->a & CELL_READ_ONLY)
        attributes |= MOUNT_ATTR_RDONLY;
    long source = open_source(state, op);
    if (source < 0)
        return source;
    long tree = clone_tree((int)source, attributes, op->a & CELL_OWNER ? op->fd : -1);
    /* Shown as its owners have it, then: the guest reads less, not more. */
    if (tree == -EINVAL && (op->a & CELL_OWNER) && (op->a & CELL_READ_ONLY))
        tree = clone_tree((int)source, attributes, -1);
    sys1(__NR_close, source);
    long ret = attach(state, tree, op->target);
    return ret == -ENOENT && (op->a & CELL_OPTIONAL) ? 0 : ret;
}

static long make_file(const struct state *state, const struct cell_op *op)
{
    long fd = sys4(__NR_openat, state->root, op->target,
                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, op->a);
    if (fd < 0)
        return fd;
    long n = sys3(__NR_write, fd, op->source, text_length(op->source));
    sys1(__NR_close, fd);
    return n < 0 ? n : 0;
}

static long make_folder(const struct state *state, const struct cell_op *op)
{
    long ret = sys3(__NR_mkdirat, state->root, op->target, op->a & PERMISSIONS);
    return ret == -EEXIST ? 0 : ret;
}

static long pivot(const struct state *state)
{
    long ret = sys1(__NR_fchdir, state->root);
    if (ret == 0)
        ret = sys2(__NR_pivot_root, ".", ".");
    if (ret == 0)
        ret = sys2(__NR_umount2, ".", MNT_DETACH_);
    return ret < 0 ? ret : sys1(__NR_chdir, "/");
}

static long seal(void)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    return sys5(__NR_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof attr);
}

/* ---- the rest ------------------------------------------------------------------------------ */

static long bring_loopback_up(void)
{
    struct ifreq request = {.ifr_flags = IFF_UP};
    request.ifr_name[0] = 'l';
    request.ifr_name[1] = 'o';
    long fd = sys3(__NR_socket, AF_INET_, SOCK_DGRAM_, 0);
    if (fd < 0)
        return fd;
    long ret = sys3(__NR_ioctl, fd, SIOCSIFFLAGS, &request);
    sys1(__NR_close, fd);
    return ret;
}

/* An exec by anybody but root loses all capabilities, unless they are "ambient". */
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

/* The kernel's headers of the build may be older than the kernel: the fields that came later. */
struct ruleset {
    uint64_t access_fs, access_net, scoped;
};

static long begin_rules(struct state *state, const struct cell_op *op)
{
    const struct ruleset rules = {.access_fs = op->a, .scoped = op->b};
    /* Older kernels know fewer fields; what they do not know must not be passed at all. */
    uint64_t size = op->b ? sizeof rules : sizeof rules.access_fs;
    long fd = sys3(__NR_landlock_create_ruleset, &rules, size, 0);
    state->rules = (int)fd;
    return fd < 0 ? fd : 0;
}

static long allow(const struct state *state, const struct cell_op *op)
{
    long fd = sys4(__NR_openat, AT_FDCWD, op->source, O_PATH | O_CLOEXEC | O_NOFOLLOW, 0);
    if (fd < 0)
        return fd;
    const struct landlock_path_beneath_attr rule = {op->a, (int)fd};
    long ret = sys4(__NR_landlock_add_rule, state->rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    sys1(__NR_close, fd);
    return ret;
}

static long keep_rules(const struct state *state, int slot)
{
    long ret = sys3(__NR_dup3, state->rules, slot, 0);
    return ret < 0 ? ret : sys1(__NR_close, state->rules);
}

static long mount_proc(const struct state *state, const struct cell_op *op)
{
    const struct setting hide = {"hidepid", "2"};
    return attach(state,
                  new_mount("proc", &hide, op->a ? 1 : 0,
                            MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC),
                  op->target);
}

static long mount_pts(const struct state *state, const struct cell_op *op)
{
    const struct setting settings[] = {{"ptmxmode", "0666"}, {"mode", "0620"}, {"max", "64"}};
    return attach(state, new_mount("devpts", settings, 3, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC),
                  op->target);
}

static long run_one(struct state *state, const struct cell_op *op)
{
    switch ((enum cell_kind)op->kind) {
    case CELL_MAP_SELF:
        return map_self(op);
    case CELL_PRIVATE:
        return sys5(__NR_mount, 0, "/", 0, 0x44000 /* MS_REC | MS_PRIVATE */, 0);
    case CELL_ROOT:
        return make_root(state, op->source);
    case CELL_ROOT_HOST:
        return make_host_root(state);
    case CELL_FOLDER:
        return make_folder(state, op);
    case CELL_LINK:
        return sys3(__NR_symlinkat, op->source, state->root, op->target);
    case CELL_FILE:
        return make_file(state, op);
    case CELL_BIND:
        return bind_tree(state, op);
    case CELL_TMPFS:
        return attach(state, new_tmpfs(op->source, op->a, op->b), op->target);
    case CELL_PROC:
        return mount_proc(state, op);
    case CELL_PTS:
        return mount_pts(state, op);
    case CELL_PIVOT:
        return pivot(state);
    case CELL_SEAL:
        return seal();
    case CELL_LOOPBACK:
        return bring_loopback_up();
    case CELL_CHDIR:
        return sys1(__NR_chdir, op->source);
    case CELL_HOSTNAME:
        return sys2(__NR_sethostname, op->source, text_length(op->source));
    case CELL_KEEP_CAPS:
        return keep_capabilities(op->a);
    case CELL_RULES:
        return begin_rules(state, op);
    case CELL_ALLOW:
        return allow(state, op);
    case CELL_KEEP_RULES:
        return keep_rules(state, op->fd);
    }
    return -ENOSYS; /* an operation that is not known must not be skipped */
}

long cell_run(const struct cell_op *ops, uint32_t count, uint32_t *failed)
{
    struct state state = {.root = -1, .rules = -1};
    long ret = 0;
    long mask = sys1(__NR_umask, 0); /* modes are as the plan says; the guest gets the caller's */
    for (uint32_t i = 0; i < count && ret >= 0; i++) {
        *failed = i;
        ret = run_one(&state, &ops[i]);
    }
    sys1(__NR_umask, mask);
    return ret < 0 ? ret : 0;
}
