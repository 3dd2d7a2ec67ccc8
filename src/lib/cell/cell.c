/* Compiling the cell.
 *
 * By root, everything is mounted with root's own rights in namespaces that belong to the host; the
 * guest becomes an id that nobody else has, in a user namespace of its own, and has no rights over
 * the namespaces that hold it. By an ordinary user, the user namespace comes first and gives the
 * rights to make the others. */
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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "child/protocol.h"
#include "landlock.h"

#define STAGE "cell"

/* Ids that nobody has: above every range that distributions give to users, containers and services;
 * or, in a container that maps no such ids, those of systemd's short-lived users. */
struct id_range {
    uint64_t first, count;
};

static const struct id_range guest_ids[] = {{0x70000000, 0x08000000}, {61184, 4336}};

#define SCRATCH_MIN UINT64_C(65536)

/* What the guest's operations need in its user namespace, if init is not root. */
#define KEPT_CAPS                                                                                  \
    ((UINT64_C(1) << CAP_SYS_ADMIN) | (UINT64_C(1) << CAP_SETPCAP) |                               \
     (UINT64_C(1) << CAP_SYS_RESOURCE))

/* Does a map, as /proc has it, give all of the range a meaning? */
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

/* An id for the guest of root; 0 for the guest of anybody else, who keeps the caller's. Root of a
 * user namespace that has no id to give is like anybody else, unless it is root outside as well. */
static int choose_uid(uint64_t *uid, struct brig_error *err)
{
    char users[4096] = "", groups[4096] = "";
    unsigned long long inside = 0, outside = 0;
    uint64_t random = 0;
    *uid = 0;
    if (geteuid() != 0)
        return 0;
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

bool cell_is_guest(uint64_t uid)
{
    for (size_t i = 0; i < sizeof guest_ids / sizeof *guest_ids; i++) {
        if (uid >= guest_ids[i].first && uid < guest_ids[i].first + guest_ids[i].count)
            return true;
    }
    return false;
}

static int write_map(pid_t pid, const char *file, const char *text)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return fd_write_file(AT_FDCWD, path, text);
}

/* Off our processor: a new process may be queued behind us, where it would begin only when we wait.
 */
static void move_away(int pid)
{
    cpu_set_t set;
    unsigned here = 0;
    if (syscall(SYS_getcpu, &here, NULL, NULL) < 0 || here >= CPU_SETSIZE ||
        sched_getaffinity(0, sizeof set, &set) < 0)
        return;
    CPU_CLR(here, &set);
    if (CPU_COUNT(&set) > 0)
        sched_setaffinity(pid, sizeof set, &set);
}

int owner_start(struct owner *owner, bool network, struct brig_error *err)
{
    int ends[2];
    *owner = OWNER_NONE;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_system(err, STAGE, errno, "cannot make a pipe: %s", error_text(errno));
    owner->holder.read_end = ends[0];
    owner->holder.write_end = ends[1];
    owner->holder.network = network;
    uint64_t all = ~UINT64_C(0), before; /* no handler of the host may run in the holder */
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    long pid = holder_start(&owner->holder, &owner->pidfd);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    close(ends[0]);
    if (pid < 0) {
        owner->pidfd = -1; /* the kernel may have written a number that is not ours any more */
        close(ends[1]);
        return error_system(err, STAGE, (int)-pid, "cannot make a user namespace: %s",
                            error_text((int)-pid));
    }
    owner->pid = (int)pid;
    if (network)
        move_away(owner->pid);
    return 0;
}

int owner_map(struct owner *owner, uint64_t guest_uid, struct brig_error *err)
{
    char map[48], path[48];
    snprintf(map, sizeof map, "0 %" PRIu64 " 1", guest_uid);
    snprintf(path, sizeof path, "/proc/%d/ns/user", owner->pid);
    int ret = write_map(owner->pid, "uid_map", map);
    if (ret == 0)
        ret = write_map(owner->pid, "gid_map", map);
    if (ret == 0) {
        owner->user = open(path, O_RDONLY | O_CLOEXEC);
        ret = owner->user < 0 ? -errno : 0;
    }
    if (ret < 0)
        return error_system(err, STAGE, -ret, "cannot map ids into a user namespace: %s",
                            error_text(-ret));
    return 0;
}

/* Closing our end of the pipe ends it, should the signal not. */
void owner_release(struct owner *owner)
{
    if (owner->pidfd < 0)
        return;
    fd_close_at(&owner->holder.write_end);
    fd_close_at(&owner->user);
    syscall(SYS_pidfd_send_signal, owner->pidfd, SIGKILL, NULL, 0);
}

bool owner_is_gone(struct owner *owner)
{
    siginfo_t info = {0};
    if (owner->pidfd < 0)
        return true;
    if (waitid(P_PIDFD, (id_t)owner->pidfd, &info, WEXITED | WNOHANG | __WALL) == 0 &&
        info.si_pid == 0)
        return false;
    fd_close_at(&owner->pidfd);
    return true;
}

void owner_done(struct owner *owner)
{
    siginfo_t info;
    if (owner->pidfd < 0)
        return;
    owner_release(owner);
    while (waitid(P_PIDFD, (id_t)owner->pidfd, &info, WEXITED | __WALL) < 0 && errno == EINTR) {
    }
    fd_close_at(&owner->pidfd);
}

static void add_own_map(struct view *view)
{
    char uid[32], gid[32];
    snprintf(uid, sizeof uid, "%u %u 1", getuid(), getuid());
    snprintf(gid, sizeof gid, "%u %u 1", getgid(), getgid());
    view_add(view, CELL_MAP_SELF, view_text(view, uid), view_text(view, gid));
}

/* Folders in memory are counted against the run's memory where there is a group, and half of it
 * bounds each; else they share that half. */
uint64_t cell_share_memory(const struct brig_spec *spec, uint64_t memory_bytes, bool group)
{
    uint64_t folders = 3 + spec->values[KEY_TMPFS].list.count;
    uint64_t bytes = memory_bytes == BRIG_UNLIMITED ? UINT64_C(1) << 30 : memory_bytes / 2;
    if (!group)
        bytes /= folders;
    return bytes > SCRATCH_MIN ? bytes : SCRATCH_MIN;
}

int cell_plan(struct cell_plan *plan, const struct brig_spec *spec, const char *workdir,
              uint64_t memory_bytes, bool group, struct brig_error *err)
{
    struct view *view = &plan->view;
    bool network = spec->values[KEY_NETWORK].number == NETWORK_HOST;
    int ret = choose_uid(&plan->guest_uid, err);
    if (ret < 0)
        return ret;
    bool root = plan->guest_uid != 0;
    plan->used = true;
    plan->needs_user = root;
    plan->clone_flags = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
    plan->clone_flags |= network || root ? 0 : CLONE_NEWNET;
    plan->clone_flags |= root ? 0 : CLONE_NEWUSER;
    view->guest_uid = plan->guest_uid;
    view->uid = root ? CELL_UID : getuid();
    view->gid = root ? CELL_UID : getgid();
    view->scratch = cell_share_memory(spec, memory_bytes, group);
    if (!root)
        add_own_map(view);
    view_add(view, CELL_HOSTNAME, "brig", NULL);
    if (!network && !root)
        view_add(view, CELL_LOOPBACK, NULL, NULL);
    ret = view_build(view, spec, workdir, &plan->start, err);
    if (ret < 0)
        return ret;
    plan->clone_flags |= view->split ? 0 : CLONE_NEWNS;
    plan->landlock = landlock_version();
    if (plan->landlock > 0)
        landlock_add_rules(view, plan->landlock);
    if (!root)
        view_add(view, CELL_KEEP_CAPS, NULL, NULL)->a = KEPT_CAPS;
    if (!network && root) /* last: the holder needs its time */
        view_add(view, CELL_NETWORK, NULL, NULL)->fd = SLOT_HOLDER;
    return view_failed(view, err);
}

int cell_plan_degraded(struct cell_plan *plan, const char *const *writable, const char *scratch,
                       struct brig_error *err)
{
    int ret = choose_uid(&plan->guest_uid, err);
    if (ret < 0)
        return ret;
    plan->landlock = landlock_version();
    if (plan->landlock > 0)
        landlock_add_host_rules(&plan->view, plan->landlock, writable, scratch);
    return view_failed(&plan->view, err);
}

void cell_plan_done(struct cell_plan *plan)
{
    strings_done(&plan->view.text);
    *plan = (struct cell_plan){0};
}

void cell_describe(const struct cell_op *op, char *out, size_t size)
{
    static const char *const words[] = {
        [CELL_MAP_SELF] = "map the caller's id into the user namespace",
        [CELL_JOIN] = "join the mount namespace of what is the same for many runs",
        [CELL_PRIVATE] = "cut mounts off from the host's",
        [CELL_ROOT] = "mount an empty root",
        [CELL_ROOT_HERE] = "take the template's root",
        [CELL_ROOT_HOST] = "mount the host's root read-only",
        [CELL_PROC] = "mount /proc",
        [CELL_PTS] = "mount /dev/pts",
        [CELL_PIVOT] = "leave the host's root behind",
        [CELL_LOOPBACK] = "bring the loopback device up",
        [CELL_NETWORK] = "join a new network namespace, its loopback device up",
        [CELL_HOSTNAME] = "set the host name",
        [CELL_KEEP_CAPS] = "keep the rights that the next steps need",
        [CELL_RULES] = "begin the landlock rules",
        [CELL_KEEP_RULES] = "keep the landlock rules for the guest",
    };
    switch ((enum cell_kind)op->kind) {
    case CELL_FOLDER:
        snprintf(out, size, "make the folder /%.200s", op->target);
        return;
    case CELL_LINK:
        snprintf(out, size, "link /%.150s to %.150s", op->target, op->source);
        return;
    case CELL_FILE:
        snprintf(out, size, "write /%.200s", op->target);
        return;
    case CELL_BIND:
        snprintf(out, size, "show %.150s at /%.150s%s", op->source, op->target,
                 op->a & CELL_READ_ONLY ? ", read-only" : "");
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
        snprintf(out, size, "mount an empty folder at /%.200s", op->target);
        return;
    case CELL_ALLOW:
        snprintf(out, size, "landlock: allow %s below %.200s",
                 op->a & LANDLOCK_ACCESS_FS_WRITE_FILE ? "writing" : "reading", op->source);
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
    if (op->kind == CELL_BIND && (op->a & CELL_OWNER) && errnum == EINVAL)
        return error_set(err, BRIG_FAULT_REFUSED, "view", errnum,
                         "%.300s: its file system cannot be mounted with other owners, so what the "
                         "guest writes would not be yours; run brig as the owner of the folder",
                         op->source);
    if (op->kind == CELL_NODE && errnum == ENODEV)
        return error_refused(err, "view", "%s: is not that device here", op->source);
    if (op->kind == CELL_BIND && errnum == ESTALE)
        return error_set(err, BRIG_FAULT_REFUSED, "view", errnum,
                         "%.300s: was replaced while the run was set up", op->source);
    bool path = op->kind == CELL_BIND || op->kind == CELL_FOLDER || op->kind == CELL_FILE ||
                op->kind == CELL_TMPFS || op->kind == CELL_CHDIR || op->kind == CELL_LINK;
    return error_system(err, path ? "view" : STAGE, errnum, "%s: %s", what, error_text(errnum));
}
