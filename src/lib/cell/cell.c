/* SPDX-License-Identifier: MIT */
/* Compiles the cell of a run: its namespaces, its user and its view. cell.h has the interface.
 *
 * As root, everything is mounted with root's own rights, in namespaces that belong to the host. The
 * guest becomes a user with an id that nobody else has, in its own user namespace, and has no
 * rights over the namespaces that hold it. As an ordinary user, the user namespace comes first and
 * gives the rights to make the others. */
#include "cell.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "child/protocol.h"
#include "landlock.h"

#define STAGE "cell"

/* Unused ids: above every range that distributions give to users, containers and services; or, in a
 * container that does not map those, the ids of systemd's dynamic users. */
struct id_range {
    uint64_t first, count;
};

static const struct id_range guest_ids[] = {{0x70000000, 0x08000000}, {61184, 4336}};

#define SCRATCH_MIN  UINT64_C(65536)
#define SCOPES_SINCE 6 /* the first version of landlock with signals and abstract sockets */

/* The capabilities that the guest's operations need in its user namespace, if init is not root. */
#define KEPT_CAPS                                                                                  \
    ((UINT64_C(1) << CAP_SYS_ADMIN) | (UINT64_C(1) << CAP_SETPCAP) |                               \
     (UINT64_C(1) << CAP_SYS_RESOURCE))

/* The capabilities that root needs to build a cell with the host's own rights. */
#define BUILD_CAPS                                                                                 \
    ((UINT64_C(1) << CAP_SYS_ADMIN) | (UINT64_C(1) << CAP_SETPCAP) | (UINT64_C(1) << CAP_SETUID) | \
     (UINT64_C(1) << CAP_SETGID) | (UINT64_C(1) << CAP_CHOWN) | (UINT64_C(1) << CAP_KILL))

bool cell_is_privileged(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}};
    return geteuid() == 0 && syscall(SYS_capget, &header, caps) == 0 &&
           (caps[0].effective & BUILD_CAPS) == BUILD_CAPS;
}

/* Does a map, in the format of /proc/self/uid_map, contain the whole range? */
static bool is_mapped(const char *map, const struct id_range *range)
{
    unsigned long long inside, outside, count;
    for (; sscanf(map, "%llu %llu %llu", &inside, &outside, &count) == 3; map++) {
        if (inside <= range->first && range->first + range->count <= inside + count)
            return true;
        map = strchr(map, '\n');
        if (!map)
            break;
    }
    return false;
}

/* Find an unused id. The result is 0 for root of a user namespace that has no unused ids and that
 * is not root outside of it: its guest keeps its id. */
static int find_free_id(uint64_t *uid, struct brig_error *err)
{
    char users[4096] = "", groups[4096] = "";
    unsigned long long inside = 0, outside = 0;
    uint64_t random = 0;
    *uid = 0;
    ssize_t n = fd_read_file(AT_FDCWD, "/proc/self/uid_map", users, sizeof users);
    if (n >= 0)
        n = fd_read_file(AT_FDCWD, "/proc/self/gid_map", groups, sizeof groups);
    if (n < 0)
        return error_system(err, "start", (int)-n, "/proc/self/uid_map: %s", error_text((int)-n));
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = (uint64_t)getpid();
    for (size_t i = 0; i < sizeof guest_ids / sizeof *guest_ids; i++) {
        if (is_mapped(users, &guest_ids[i]) && is_mapped(groups, &guest_ids[i])) {
            *uid = guest_ids[i].first + random % guest_ids[i].count;
            return 0;
        }
    }
    if (sscanf(users, "%llu %llu", &inside, &outside) == 2 && inside == 0 && outside != 0)
        return 0;
    return error_refused(err, "start",
                         "root here has no other id to give to the guest, which must not be root "
                         "of the host; run brig as an ordinary user");
}

/* The id of a guest in a cell: an unused one if root builds the cell; 0: the caller's own. */
static int choose_uid(uint64_t *uid, struct brig_error *err)
{
    *uid = 0;
    return cell_is_privileged() ? find_free_id(uid, err) : 0;
}

bool cell_is_guest(uint64_t uid)
{
    for (size_t i = 0; i < sizeof guest_ids / sizeof *guest_ids; i++) {
        if (uid >= guest_ids[i].first && uid < guest_ids[i].first + guest_ids[i].count)
            return true;
    }
    return false;
}

static void add_own_map(struct view *view)
{
    char uid[32], gid[32];
    snprintf(uid, sizeof uid, "%u %u 1", view->uid, getuid());
    snprintf(gid, sizeof gid, "%u %u 1", view->gid, getgid());
    view_add(view, CELL_MAP_SELF, view_text(view, uid), view_text(view, gid));
}

/* Files in a tmpfs are counted against the memory of the run if there is a cgroup, so each tmpfs
 * may take half of that memory. Without a cgroup, all of them share that half. */
uint64_t cell_share_memory(const struct brig_spec *spec, uint64_t memory_bytes, bool group)
{
    uint64_t dirs = 3 + spec->values[KEY_TMPFS].list.count;
    uint64_t bytes = memory_bytes == BRIG_UNLIMITED ? UINT64_C(1) << 30 : memory_bytes / 2;
    if (!group)
        bytes /= dirs;
    return bytes > SCRATCH_MIN ? bytes : SCRATCH_MIN;
}

static int build(struct cell_plan *plan, const struct brig_spec *spec, const char *workdir,
                 uint64_t memory_bytes, bool group, struct brig_error *err)
{
    struct view *view = &plan->view;
    bool network = spec->values[KEY_NETWORK].number == NETWORK_HOST;
    bool root = plan->guest_uid != 0;
    plan->used = true;
    plan->needs_user = root;
    plan->as_root = view->as_root = !root && geteuid() == 0;
    plan->clone_flags = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
    plan->clone_flags |= network || root ? 0 : CLONE_NEWNET;
    plan->clone_flags |= root ? 0 : CLONE_NEWUSER;
    view->guest_uid = plan->guest_uid;
    view->uid = root || plan->as_root ? CELL_UID : getuid();
    view->gid = root || plan->as_root ? CELL_UID : getgid();
    view->scratch = cell_share_memory(spec, memory_bytes, group);
    if (!root)
        add_own_map(view);
    view_add(view, CELL_HOSTNAME, "brig", NULL);
    if (!network && !root)
        view_add(view, CELL_LOOPBACK, NULL, NULL);
    return view_build(view, spec, workdir, &plan->start, err);
}

/* The guest has root's id in a user namespace, without any capability. The view takes away
 * everything that the kernel gives to that id alone, and landlock is required as a second
 * barrier. */
static int check_as_root(const struct cell_plan *plan, const struct brig_spec *spec,
                         struct brig_error *err)
{
    const char *why = cell_is_privileged()
                          ? "a writable directory is on a file system without id-mapped mounts"
                          : "root lacks capabilities here";
    const char *what = NULL;
    if (spec->values[KEY_VIEW].number == VIEW_HOST)
        what = "view: host would show the guest all that root may read";
    else if (spec->serves || spec->template)
        what = "template: cannot be had";
    else if (plan->landlock <= 0)
        what = "landlock is needed, and this kernel does not have it";
    return what ? error_refused(err, "start", "%s where the guest has to have root's own id (%s)",
                                what, why)
                : 0;
}

int cell_plan(struct cell_plan *plan, const struct brig_spec *spec, const char *workdir,
              uint64_t memory_bytes, bool group, struct brig_error *err)
{
    struct view *view = &plan->view;
    bool network = spec->values[KEY_NETWORK].number == NETWORK_HOST;
    int ret = choose_uid(&plan->guest_uid, err);
    if (ret == 0)
        ret = build(plan, spec, workdir, memory_bytes, group, err);
    /* Build it again for a guest with root's own id. */
    if (ret == 0 && view->unmapped) {
        cell_plan_done(plan);
        ret = build(plan, spec, workdir, memory_bytes, group, err);
    }
    if (ret < 0)
        return ret;
    bool root = plan->guest_uid != 0;
    plan->clone_flags |= view->split ? 0 : CLONE_NEWNS;
    plan->landlock = landlock_version();
    if (plan->as_root)
        ret = check_as_root(plan, spec, err);
    if (ret < 0)
        return ret;
    if (plan->landlock > 0)
        landlock_add_rules(view, plan->landlock);
    if (!root)
        view_add(view, CELL_KEEP_CAPS, NULL, NULL)->capabilities = KEPT_CAPS;
    if (!network && root) /* last: the namespace helper needs its time */
        view_add(view, CELL_NETWORK, NULL, NULL)->fd = SLOT_HELPER;
    return view_failed(view, err);
}

/* The id of a guest that root starts without a cell: the owner of the work directory, so that it
 * can write there; or an unused one. If that is root, landlock keeps the guest from root's files,
 * and must keep its signals from root's processes as well. */
static int choose_owner(struct cell_plan *plan, const char *workdir, int fd, struct brig_error *err)
{
    struct stat st;
    if (geteuid() != 0)
        return 0;
    int ret = find_free_id(&plan->guest_gid, err); /* it does not get the owner's groups */
    plan->guest_uid = plan->guest_gid;
    if (ret < 0 || !workdir)
        return ret;
    if (fstat(fd, &st) < 0)
        return error_system(err, "start", errno, "workdir: %.300s: %s", workdir, error_text(errno));
    plan->guest_uid = st.st_uid;
    plan->as_root = plan->view.as_root = st.st_uid == 0;
    if (plan->as_root && plan->landlock > 0 && plan->landlock < SCOPES_SINCE)
        return error_refused(
            err, "start",
            "workdir: %.200s belongs to root, and without a cell only landlock of "
            "version 6 (Linux 6.12) could keep such a guest from root's processes; "
            "chown it to a user, whose id the guest has then",
            workdir);
    return 0;
}

int cell_plan_degraded(struct cell_plan *plan, const char *workdir, int fd, const char *scratch,
                       struct brig_error *err)
{
    plan->landlock = landlock_version();
    int ret = choose_owner(plan, workdir, fd, err);
    if (ret < 0)
        return ret;
    if (plan->landlock > 0)
        landlock_add_host_rules(&plan->view, plan->landlock,
                                workdir ? view_text(&plan->view, workdir) : NULL, scratch);
    return view_failed(&plan->view, err);
}

void cell_plan_done(struct cell_plan *plan)
{
    strings_done(&plan->view.text);
    toolchain_done(&plan->view.toolchain);
    *plan = (struct cell_plan){0};
}

void cell_describe(const struct cell_op *op, char *out, size_t size)
{
    static const char *const words[] = {
        [CELL_MAP_SELF] = "map the caller's id into the user namespace",
        [CELL_JOIN] = "join the mount namespace of the base mounts",
        [CELL_PRIVATE] = "cut mounts off from the host's",
        [CELL_ROOT] = "mount an empty root",
        [CELL_ROOT_HERE] = "take the template's root",
        [CELL_ROOT_HOST] = "mount the host's root read-only",
        [CELL_PROC] = "mount /proc",
        [CELL_PTS] = "mount /dev/pts",
        [CELL_COUNTERS] = "bound what is counted per user",
        [CELL_PIVOT] = "leave the host's root behind",
        [CELL_LOOPBACK] = "bring the loopback device up",
        [CELL_NETWORK] = "join a new network namespace, its loopback device up",
        [CELL_HOSTNAME] = "set the host name",
        [CELL_KEEP_CAPS] = "keep the rights that the next steps need",
        [CELL_RULES] = "begin the landlock rules",
        [CELL_KEEP_RULES] = "keep the landlock rules for the guest",
    };
    switch ((enum cell_kind)op->kind) {
    case CELL_DIR:
        snprintf(out, size, "make the directory /%.200s", op->target);
        return;
    case CELL_LINK:
        snprintf(out, size, "link /%.150s to %.150s", op->target, op->source);
        return;
    case CELL_FILE:
        snprintf(out, size, "write /%.200s", op->target);
        return;
    case CELL_BIND:
        snprintf(out, size, "show %.150s at /%.150s%s", op->source, op->target,
                 op->flags & CELL_READ_ONLY ? ", read-only" : "");
        return;
    case CELL_LIFT:
    case CELL_LOWER:
        snprintf(out, size, "keep what is at /%.200s", op->target);
        return;
    case CELL_NODE:
        snprintf(out, size, "make the device /%.200s", op->target);
        return;
    case CELL_COVER:
        snprintf(out, size, "cover /%.200s", op->target);
        return;
    case CELL_SEAL:
        snprintf(out, size, "make %s read-only", op->target);
        return;
    case CELL_TMPFS:
        snprintf(out, size, "mount an empty directory at /%.200s", op->target);
        return;
    case CELL_ALLOW:
        snprintf(out, size, "landlock: allow %s below %.200s",
                 op->rules.access & LANDLOCK_ACCESS_FS_WRITE_FILE ? "writing" : "reading",
                 op->source);
        return;
    case CELL_CHDIR:
        snprintf(out, size, "enter %.200s", op->source);
        return;
    default:
        snprintf(out, size, "%s", op->kind < sizeof words / sizeof *words ? words[op->kind] : "?");
    }
}

int cell_op_error(const struct cell_op *op, int errnum, struct brig_error *err)
{
    char what[400];
    cell_describe(op, what, sizeof what);
    if (op->kind == CELL_BIND && (op->flags & CELL_IDMAP) && errnum == EINVAL)
        return error_set(err, BRIG_FAULT_REFUSED, "view", errnum,
                         "%.300s: its file system cannot be mounted with other owners, so what the "
                         "guest writes would not be yours; run brig as the owner of the directory",
                         op->source);
    if (op->kind == CELL_NODE && errnum == ENODEV)
        return error_refused(err, "view", "%s: is not that device here", op->source);
    if (op->kind == CELL_BIND && errnum == ESTALE)
        return error_set(err, BRIG_FAULT_REFUSED, "view", errnum,
                         "%.300s: was replaced while the run was set up", op->source);
    bool path = op->kind == CELL_BIND || op->kind == CELL_DIR || op->kind == CELL_FILE ||
                op->kind == CELL_TMPFS || op->kind == CELL_CHDIR || op->kind == CELL_LINK;
    return error_system(err, path ? "view" : STAGE, errnum, "%s: %s", what, error_text(errnum));
}
