/* Executing operations: raw system calls on memory prepared before, nothing else. */
#include "guest_ops.h"

#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>

#include "plain_text.h"

/* "0" names the writing thread itself. Writing that to `tasks` moves only this thread, which the
 * kernel does without its global lock: 30 µs where a pid in cgroup.procs costs an RCU grace period
 * of 7,000. The process has one thread yet, so the thread is the process. */
static long join_group(int fd)
{
    long n = sys3(__NR_write, fd, "0", 1);
    return n < 0 ? n : 0;
}

static long set_rlimit(const struct op *op)
{
    struct rlimit64 limit = {op->b, op->c};
    return sys4(__NR_prlimit64, 0, op->a, &limit, 0);
}

static long set_user(uint64_t uid, uint64_t gid)
{
    long ret = sys2(__NR_setgroups, 0, 0);
    if (ret == 0)
        ret = sys3(__NR_setresgid, gid, gid, gid);
    return ret < 0 ? ret : sys3(__NR_setresuid, uid, uid, uid);
}

/* The kernel takes a map of one's own id from anybody, if setgroups is given up. */
static long map_ids(const struct op *op)
{
    char map[2 * NUMBER_MAX + 4];
    char *end = put_text(put_number(map, op->b), " ");
    put_text(put_number(end, op->a), " 1");
    long ret = write_path("/proc/self/setgroups", "deny");
    if (ret == 0)
        ret = write_path("/proc/self/uid_map", map);
    return ret < 0 ? ret : write_path("/proc/self/gid_map", map);
}

/* The change of user takes the capabilities out of effect, and hosts that forbid user namespaces to
 * ordinary users look at those. */
static long become(uint64_t id)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}};
    long ret = sys5(__NR_prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0);
    if (ret == 0)
        ret = set_user(id, id);
    if (ret == 0)
        ret = sys2(__NR_capget, &header, caps);
    if (ret < 0)
        return ret;
    caps[0].effective = caps[0].permitted;
    caps[1].effective = caps[1].permitted;
    return sys2(__NR_capset, &header, caps);
}

/* The memory is still init's, which nobody may look at, and so the files in /proc that have to be
 * written are nobody's: for this moment, in which the cell has no other process, they are ours. */
static long new_user(const struct op *op)
{
    long ret = become(op->a);
    if (ret == 0)
        ret = sys1(__NR_unshare, CLONE_NEWUSER);
    if (ret == 0)
        ret = sys5(__NR_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (ret == 0)
        ret = map_ids(op);
    long hidden = sys5(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    return ret < 0 ? ret : hidden;
}

/* What is counted per user is counted for the owner of the namespace as well, who may have other
 * runs: one run gets a part of it. No namespaces below this one, whatever the filter says. */
static long bound_counters(void)
{
    static const struct {
        const char *path, *value;
    } counters[] = {
        {"/proc/sys/user/max_user_namespaces", "0"},
        {"/proc/sys/user/max_inotify_instances", "32"},
        {"/proc/sys/user/max_inotify_watches", "16384"},
    };
    for (uint32_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        long ret = write_path(counters[i].path, counters[i].value);
        if (ret < 0 && ret != -ENOENT) /* a kernel that does not count it */
            return ret;
    }
    return 0;
}

static long drop_bounding_set(void)
{
    for (int i = 0; i < 64; i++) {
        long ret = sys5(__NR_prctl, PR_CAPBSET_DROP, i, 0, 0, 0);
        if (ret == -EINVAL && i > CAP_AUDIT_READ)
            return 0; /* past the last one that the kernel knows */
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* Nothing now, and no way to get any at an exec, whatever the uid is called in here. The user, if
 * one is to be changed to, between the steps that need capabilities and the one that drops them. */
static long drop_capabilities(const struct op *op)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    long ret = 0;
    if (!op->b)
        ret = drop_bounding_set();
    if (ret == 0 && !op->b)
        ret = sys5(__NR_prctl, PR_SET_SECUREBITS, SECURE_ALL_BITS | SECURE_ALL_LOCKS, 0, 0, 0);
    if (ret == 0)
        ret = sys5(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (ret == 0 && op->a)
        ret = set_user(op->a, op->a);
    return ret < 0 ? ret : sys2(__NR_capset, &header, none);
}

/* Compiled from the tables when brig was built: a run pays only for the kernel's own check. */
static const struct sock_filter filter[] = {
#include "seccomp_cell.inc"
};
static const struct sock_filter degraded[] = {
#include "seccomp_degraded.inc"
};
static const struct sock_filter no_sockets[] = {
#include "seccomp_no_sockets.inc"
};

static const struct sock_filter template[] = {
#include "seccomp_template.inc"
};

static long install_filter(const struct sock_filter *code, size_t size)
{
    const struct sock_fprog program = {(unsigned short)(size / sizeof *code),
                                       (struct sock_filter *)code};
    return sys3(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static long run_one(const struct op *op)
{
    long ret = 0;
    switch (op->kind) {
    case OP_JOIN_GROUP:
        return join_group(op->fd);
    case OP_NEW_SESSION:
        ret = sys0(__NR_setsid);
        return ret < 0 ? ret : 0;
    case OP_CHDIR:
        return sys1(__NR_fchdir, op->fd);
    case OP_RLIMIT:
        return set_rlimit(op);
    case OP_NO_NEW_PRIVS:
        return sys5(__NR_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    case OP_CGROUP_NAMESPACE:
        return sys1(__NR_unshare, CLONE_NEWCGROUP);
    case OP_NEW_USER:
        return new_user(op);
    case OP_COUNTERS:
        return bound_counters();
    case OP_LANDLOCK:
        return sys2(__NR_landlock_restrict_self, op->fd, 0);
    case OP_DROP_CAPS:
        return drop_capabilities(op);
    case OP_SECCOMP:
        return install_filter(filter, sizeof filter);
    case OP_SECCOMP_DEGRADED:
        return install_filter(degraded, sizeof degraded);
    case OP_NO_SOCKETS:
        return install_filter(no_sockets, sizeof no_sockets);
    case OP_SECCOMP_TEMPLATE:
        return install_filter(template, sizeof template);
    }
    return -ENOSYS; /* an operation that this executor does not know must not be skipped */
}

long op_run(const struct op *ops, uint32_t count, uint32_t *failed)
{
    for (uint32_t i = 0; i < count; i++) {
        long ret = run_one(&ops[i]);
        if (ret < 0) {
            *failed = i;
            return ret;
        }
    }
    return 0;
}
