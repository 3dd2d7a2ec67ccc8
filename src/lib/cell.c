/* Compiling the cell.
 *
 * By root, everything is mounted with root's own rights in namespaces that belong to the host, and
 * only then does the child enter a user namespace in which it is nobody in particular: the guest
 * has no rights over the namespaces that hold it, whatever it is called inside. By an ordinary
 * user, the user namespace comes first and gives the rights to make the others. */
#include "cell.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#include "child/enter.h"

#define STAGE "cell"

/* Above every range that distributions give to users, containers and services. */
#define GUEST_UID_FIRST UINT64_C(0x70000000)
#define GUEST_UID_COUNT UINT64_C(0x08000000)

static uint64_t choose_uid(void)
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = (uint64_t)getpid();
    return GUEST_UID_FIRST + random % GUEST_UID_COUNT;
}

static int write_map(pid_t pid, const char *file, const char *text)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    return fd_write_file(AT_FDCWD, path, text);
}

/* The namespace lives as long as a process is in it or somebody holds it: a child that only waits
 * is in it until we hold it. */
int cell_make_user(uint64_t host_uid, struct brig_error *err)
{
    char map[48], path[48];
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC) < 0)
        return error_system(err, STAGE, errno, "cannot make a pipe: %s", strerror(errno));
    autofd read_end = pipe_ends[0], write_end = pipe_ends[1];
    struct holder holder = {.read_end = read_end, .write_end = write_end};
    autofd pidfd = -1;
    uint64_t all = ~UINT64_C(0), before; /* no handler of the host may run in the holder */
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    long pid = enter_holder(&holder, &pidfd);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    if (pid < 0)
        return error_system(err, STAGE, (int)-pid, "cannot make a user namespace: %s",
                            strerror((int)-pid));
    snprintf(map, sizeof map, "0 %" PRIu64 " 1", host_uid);
    snprintf(path, sizeof path, "/proc/%ld/ns/user", pid);
    int ret = write_map((pid_t)pid, "uid_map", map);
    if (ret == 0)
        ret = write_map((pid_t)pid, "gid_map", map);
    int fd = ret == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (ret == 0 && fd < 0)
        ret = -errno;
    siginfo_t info;
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | __WALL);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "cannot map ids into a user namespace: %s",
                            strerror(-ret));
    return fd;
}

static void add_own_map(struct cell *cell)
{
    char uid[32], gid[32];
    snprintf(uid, sizeof uid, "%u %u 1", getuid(), getuid());
    snprintf(gid, sizeof gid, "%u %u 1", getgid(), getgid());
    cell_add(cell, CELL_MAP_SELF, cell_text(cell, uid), cell_text(cell, gid));
}

/* ---- landlock: a second wall behind the mounts ---------------------------------------------- */

/* The bits of later versions, whatever the headers of the build know. */
#define ACCESS_FILE_READ  UINT64_C(0x5)    /* execute, read */
#define ACCESS_FOLDER     UINT64_C(0x8)    /* list */
#define ACCESS_FILE_WRITE UINT64_C(0x2)    /* write */
#define ACCESS_ALL_1      UINT64_C(0x1fff) /* all that version 1 knows */
#define ACCESS_REFER      UINT64_C(0x2000) /* 2: move between folders */
#define ACCESS_TRUNCATE   UINT64_C(0x4000) /* 3 */
#define ACCESS_IOCTL      UINT64_C(0x8000) /* 5: of devices */
#define SCOPE_ALL         UINT64_C(0x3)    /* 6: abstract sockets and signals */

static int landlock_version(void)
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

static void begin_rules(struct cell *cell, int version)
{
    struct cell_op *rules = cell_add(cell, CELL_RULES, NULL, NULL);
    rules->a = access_all(version);
    rules->b = version >= 6 ? SCOPE_ALL : 0;
}

/* The same view once more: a mistake in the mounts alone opens nothing. */
static void add_rules(struct cell *cell, int version)
{
    uint64_t all = access_all(version), device = access_device(version);
    begin_rules(cell, version);
    cell_add(cell, CELL_ALLOW, "/", NULL)->a = ACCESS_FILE_READ | ACCESS_FOLDER;
    cell_add(cell, CELL_ALLOW, "/dev", NULL)->a = device;
    cell_add(cell, CELL_ALLOW, "/proc", NULL)->a = device;
    for (size_t i = 0; i < cell->mount_count; i++) {
        const struct view_mount *mount = &cell->mounts[i];
        if (mount->writable)
            cell_add(cell, CELL_ALLOW, mount->target, NULL)->a =
                mount->folder ? all : all & (device & ~ACCESS_FOLDER);
    }
    cell_add(cell, CELL_ENFORCE, NULL, NULL);
}

int cell_plan(struct cell_plan *plan, const struct brig_spec *spec, const char *workdir,
              uint64_t memory_bytes, struct brig_error *err)
{
    struct cell *cell = &plan->cell;
    bool network = spec->values[KEY_NETWORK].number == NETWORK_HOST;
    plan->used = true;
    plan->root = geteuid() == 0;
    plan->clone_flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
    plan->clone_flags |= network ? 0 : CLONE_NEWNET;
    plan->clone_flags |= plan->root ? 0 : CLONE_NEWUSER;
    cell->owner = plan->root;
    cell->guest_uid = plan->root ? choose_uid() : 0;
    if (!plan->root)
        add_own_map(cell);
    plan->join_at = cell->count;
    cell_add(cell, CELL_CGROUP_NAMESPACE, NULL, NULL);
    cell_add(cell, CELL_HOSTNAME, "brig", NULL);
    if (!network)
        cell_add(cell, CELL_LOOPBACK, NULL, NULL);
    int ret = view_build(cell, spec, workdir, memory_bytes, &plan->start, err);
    if (ret < 0)
        return ret;
    if (plan->root) {
        struct cell_op *op = cell_add(cell, CELL_ENTER_USER, NULL, NULL);
        op->a = op->b = 0;
    }
    cell_add(cell, CELL_CHDIR, plan->start, NULL);
    cell_add(cell, CELL_NO_NEW_PRIVS, NULL, NULL);
    plan->landlock = landlock_version();
    if (plan->landlock > 0)
        add_rules(cell, plan->landlock);
    cell_add(cell, CELL_DROP_CAPS, NULL, NULL);
    return cell_failed(cell) ? error_system(err, STAGE, ENOMEM, "the plan is too large") : 0;
}

/* Without mounts the host's own folders are what there is: reading what the minimal view would
 * show, writing the work folder and what everybody may write. */
static void add_host_rules(struct cell *cell, int version, const char *workdir)
{
    static const char *const readable[] = {"/usr",   "/bin",   "/sbin", "/lib",
                                           "/lib32", "/lib64", "/etc",  "/opt"};
    static const char *const writable[] = {"/tmp", "/dev/shm", "/var/tmp"};
    begin_rules(cell, version);
    for (size_t i = 0; i < sizeof readable / sizeof *readable; i++) {
        autofree char *real = realpath(readable[i], NULL);
        if (real)
            cell_add(cell, CELL_ALLOW, cell_text(cell, real), NULL)->a =
                ACCESS_FILE_READ | ACCESS_FOLDER;
    }
    for (size_t i = 0; i < sizeof writable / sizeof *writable; i++) {
        autofree char *real = realpath(writable[i], NULL);
        if (real)
            cell_add(cell, CELL_ALLOW, cell_text(cell, real), NULL)->a = access_all(version);
    }
    cell_add(cell, CELL_ALLOW, "/dev", NULL)->a = access_device(version);
    cell_add(cell, CELL_ALLOW, "/proc", NULL)->a = access_device(version);
    if (strcmp(workdir, "/") != 0)
        cell_add(cell, CELL_ALLOW, cell_text(cell, workdir), NULL)->a = access_all(version);
    cell_add(cell, CELL_ENFORCE, NULL, NULL);
}

int cell_plan_degraded(struct cell_plan *plan, const char *workdir, struct brig_error *err)
{
    struct cell *cell = &plan->cell;
    plan->root = geteuid() == 0;
    plan->landlock = landlock_version();
    cell_add(cell, CELL_NO_NEW_PRIVS, NULL, NULL);
    if (plan->landlock > 0)
        add_host_rules(cell, plan->landlock, workdir);
    struct cell_op *drop = cell_add(cell, CELL_DROP_CAPS, NULL, NULL);
    drop->a = plan->root ? choose_uid() : 0;
    drop->b = !plan->root;
    return cell_failed(cell) ? error_system(err, STAGE, ENOMEM, "the plan is too large") : 0;
}

void cell_plan_done(struct cell_plan *plan)
{
    strings_done(&plan->cell.text);
    *plan = (struct cell_plan){0};
}

void cell_describe(const struct cell_op *op, char *out, size_t size)
{
    static const char *const words[] = {
        [CELL_MAP_SELF] = "map the caller's id into the user namespace",
        [CELL_PRIVATE] = "cut mounts off from the host's",
        [CELL_ROOT] = "mount an empty root",
        [CELL_ROOT_HOST] = "mount the host's root read-only",
        [CELL_PROC] = "mount /proc",
        [CELL_PTS] = "mount /dev/pts",
        [CELL_PIVOT] = "leave the host's root behind",
        [CELL_SEAL] = "make the root read-only",
        [CELL_JOIN] = "join a group of the run",
        [CELL_CGROUP_NAMESPACE] = "hide the names of groups",
        [CELL_LOOPBACK] = "bring the loopback device up",
        [CELL_HOSTNAME] = "set the host name",
        [CELL_ENTER_USER] = "enter the user namespace",
        [CELL_DROP_CAPS] = "drop all capabilities",
        [CELL_NO_NEW_PRIVS] = "set no_new_privs",
        [CELL_RULES] = "begin the landlock rules",
        [CELL_ENFORCE] = "enforce the landlock rules",
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
    if (op->kind == CELL_BIND && errnum == ESTALE)
        return error_set(err, BRIG_FAULT_REFUSED, "view", errnum,
                         "%.300s: was replaced while the run was set up", op->source);
    bool path = op->kind == CELL_BIND || op->kind == CELL_FOLDER || op->kind == CELL_FILE ||
                op->kind == CELL_TMPFS || op->kind == CELL_CHDIR || op->kind == CELL_LINK;
    return error_system(err, path ? "view" : STAGE, errnum, "%s: %s", what, strerror(errnum));
}
