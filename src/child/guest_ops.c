/* SPDX-License-Identifier: MIT */
/* Executes the operations of a guest, for init.c and fork.c. It may only make raw system calls on
 * memory that was prepared before. */
#include "guest_ops.h"

#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/resource.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>

#include "counters.h"
#include "plain_text.h"

/* "0" stands for the writing thread. Writing it to `tasks` moves only this thread, which the kernel
 * does without its global lock: 30 µs, while a pid written to cgroup.procs costs an RCU grace
 * period of 7,000 µs. The process has only one thread at this point. */
static long join_group(int fd)
{
    long n = sys3(__NR_write, fd, "0", 1);
    return n < 0 ? n : 0;
}

static long set_rlimit(const struct op *op)
{
    struct rlimit64 limit = {op->rlimit.soft, op->rlimit.hard};
    return sys4(__NR_prlimit64, 0, op->rlimit.resource, &limit, 0);
}

static long set_user(uint64_t uid, uint64_t gid)
{
    long ret = sys2(__NR_setgroups, 0, 0);
    if (ret == 0)
        ret = sys3(__NR_setresgid, gid, gid, gid);
    return ret < 0 ? ret : sys3(__NR_setresuid, uid, uid, uid);
}

/* The kernel accepts a map of its own id from any process that has denied setgroups. */
static long map_ids(const struct op *op)
{
    char map[2 * NUMBER_MAX + 4];
    char *end = put_text(put_number(map, op->user.inner_id), " ");
    put_text(put_number(end, op->user.host_id), " 1");
    long ret = write_path("/proc/self/setgroups", "deny");
    if (ret == 0)
        ret = write_path("/proc/self/uid_map", map);
    return ret < 0 ? ret : write_path("/proc/self/gid_map", map);
}

/* Change the user and keep the capabilities. Changing the user clears the effective set, and hosts
 * that forbid user namespaces to unprivileged users check that set. */
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

/* The process still shares init's memory, which is not dumpable, so its own files in /proc are not
 * writable. It is made dumpable only for the id maps, while the cell has no other process. */
static long new_user(const struct op *op)
{
    long ret = become(op->user.host_id);
    if (ret == 0)
        ret = sys1(__NR_unshare, CLONE_NEWUSER);
    if (ret == 0)
        ret = sys5(__NR_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (ret == 0)
        ret = map_ids(op);
    long hidden = sys5(__NR_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    return ret < 0 ? ret : hidden;
}

static long drop_bounding_set(void)
{
    for (int i = 0; i < 64; i++) {
        long ret = sys5(__NR_prctl, PR_CAPBSET_DROP, i, 0, 0, 0);
        if (ret == -EINVAL && i > CAP_AUDIT_READ)
            return 0; /* past the last capability that the kernel knows */
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* Drop all capabilities, and every way to regain them at an exec, even as uid 0. The change of user
 * comes after the steps that need capabilities and before the final capset. */
static long drop_capabilities(const struct op *op)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    long ret = 0;
    if (!op->drop.has_none)
        ret = drop_bounding_set();
    if (ret == 0 && !op->drop.has_none)
        ret = sys5(__NR_prctl, PR_SET_SECUREBITS, SECURE_ALL_BITS | SECURE_ALL_LOCKS, 0, 0, 0);
    if (ret == 0)
        ret = sys5(__NR_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (ret == 0 && op->drop.ids)
        ret = set_user((uint32_t)op->drop.ids, op->drop.ids >> 32);
    if (ret == 0 && op->drop.stay_root)
        ret = set_user(0, 0);
    return ret < 0 ? ret : sys2(__NR_capset, &header, none);
}

/* Compiled from the tables when brig is built, so that a run pays only for the check by the kernel.
 */
static const struct sock_filter filter[] = {
#include "seccomp_cell.inc"
};
static const struct sock_filter degraded[] = {
#include "seccomp_degraded.inc"
};
static const struct sock_filter no_sockets[] = {
#include "seccomp_no_sockets.inc"
};
static const struct sock_filter no_unix[] = {
#include "seccomp_no_unix.inc"
};
static const struct sock_filter no_truncate[] = {
#include "seccomp_no_truncate.inc"
};
static const struct sock_filter root[] = {
#include "seccomp_root.inc"
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
    case OP_NO_UNIX:
        return install_filter(no_unix, sizeof no_unix);
    case OP_NO_TRUNCATE:
        return install_filter(no_truncate, sizeof no_truncate);
    case OP_SECCOMP_ROOT:
        return install_filter(root, sizeof root);
    case OP_SECCOMP_TEMPLATE:
        return install_filter(template, sizeof template);
    }
    return -ENOSYS; /* an unknown operation must not be skipped */
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
