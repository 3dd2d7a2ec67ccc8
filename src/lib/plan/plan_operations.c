/* SPDX-License-Identifier: MIT */
/* Fills in the operations of a guest: the steps that its process takes between clone and exec, as a
 * flat list for src/child/guest_ops.c, and their descriptions. Called by plan.c; executes none of
 * them. */
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "host.h"
#include "lib/cell/landlock.h"
#include "plan.h"

/* Open files: this many runs, each with its largest number of processes, share three quarters of
 * the open files of the machine. A process gets at least FILES_LEAST, since it needs some to
 * work. */
#define FILES_RUNS  16
#define FILES_LEAST 256
#define FILES_SENT  253                 /* descriptors in one message: SCM_MAX_FD of the kernel */
#define RESERVED    (UINT64_C(1) << 30) /* address space of a process beyond its memory */

static struct op *add_op(struct plan *plan, enum op_kind kind)
{
    if (plan->op_count == INIT_OPS_MAX)
        plan->too_many_ops = true; /* plan_make_cell() refuses it */
    else
        plan->op_count++;
    struct op *op = &plan->ops[plan->op_count - 1];
    *op = (struct op){.kind = kind, .fd = -1};
    return op;
}

/* Never exceed the caller's hard limit: an ordinary user cannot raise it. */
static void add_rlimit(struct plan *plan, int resource, uint64_t soft, uint64_t hard)
{
    struct rlimit now;
    struct op *op = add_op(plan, OP_RLIMIT);
    if (getrlimit(resource, &now) == 0 && hard > now.rlim_max)
        hard = now.rlim_max;
    op->rlimit.resource = (uint64_t)resource;
    op->rlimit.soft = soft < hard ? soft : hard;
    op->rlimit.hard = hard;
}

/* The kernel counts these per user and, in a user namespace, for its owner as well. Each run gets a
 * part of the owner's limit, so that it does not use it up for the others. */
static void add_user_limits(struct plan *plan)
{
    add_rlimit(plan, RLIMIT_SIGPENDING, 1024, 1024);
    add_rlimit(plan, RLIMIT_MSGQUEUE, 200 << 10, 200 << 10);
    add_rlimit(plan, RLIMIT_MEMLOCK, 1 << 20, 1 << 20);
    add_rlimit(plan, RLIMIT_RTPRIO, 0, 0);
    add_rlimit(plan, RLIMIT_NICE, 0, 0);
    /* Without a cgroup, RLIMIT_NPROC bounds a tree that forks faster than it is sampled. Init is
     * counted too, and some more processes must be possible for a sample to see that there are too
     * many. */
    bool own_user = plan->cell.used || cell_is_guest(plan->cell.guest_uid);
    if (!plan->use_group && own_user && plan->limits.pids < UINT32_MAX)
        add_rlimit(plan, RLIMIT_NPROC, plan->limits.pids + 32, plan->limits.pids + 32);
}

/* After these operations the guest has no right that the caller did not mean it to have. */
static void add_identity(struct plan *plan)
{
    const struct cell_plan *cell = &plan->cell;
    if (cell->used)
        add_op(plan, OP_CGROUP_NAMESPACE);
    else
        add_op(plan, OP_CHDIR)->fd = SLOT_WORKDIR;
    if (cell->needs_user) {
        struct op *user = add_op(plan, OP_NEW_USER);
        user->user.host_id = cell->guest_uid;
        user->user.inner_id = CELL_UID;
    }
    if (cell->used && !cell->as_root) /* otherwise CELL_COUNTERS did it while /proc was writable */
        add_op(plan, OP_COUNTERS);
    add_op(plan, OP_NO_NEW_PRIVS);
    if (cell->landlock > 0)
        add_op(plan, OP_LANDLOCK)->fd = SLOT_RULES;
    struct op *drop = add_op(plan, OP_DROP_CAPS);
    drop->drop.ids = cell->used ? 0 : cell->guest_uid | cell->guest_gid << 32;
    drop->drop.has_none = !cell->used && geteuid() != 0;
    drop->drop.stay_root = !cell->used && cell->as_root;
}

/* The default limit of open files of a process. The machine has one limit of open files for all
 * processes that are not root's. The caller has one count of files in flight in sockets, and a
 * process may add to it while it is below the process's own limit of open files. So if a guest has
 * the caller's id, its limit is one message below the caller's: even if guests send files that
 * nobody receives, the caller's programs can still send theirs. */
static uint64_t share_files(const struct plan *plan, uint64_t file_max, uint64_t callers)
{
    uint64_t pids = plan->limits.pids, share = UINT64_MAX;
    if (pids != BRIG_UNLIMITED && pids != 0)
        share = file_max / 4 * 3 / FILES_RUNS / pids;
    if (!plan->cell.guest_uid && callers < share)
        share = callers > FILES_SENT ? callers - FILES_SENT : 0;
    return share > FILES_LEAST ? share : FILES_LEAST;
}

static void add_file_limit(struct plan *plan, const struct brig *brig)
{
    struct rlimit now;
    uint64_t most = plan->limits.open_files; /* asked for, or the operator's maximum */
    if (plan->asked_files && most != BRIG_UNLIMITED) {
        add_rlimit(plan, RLIMIT_NOFILE, most, most);
        return;
    }
    if (getrlimit(RLIMIT_NOFILE, &now) < 0)
        return;
    uint64_t share = share_files(plan, brig->file_max, now.rlim_cur);
    most = most < share ? most : share;
    if (now.rlim_max > most)
        add_rlimit(plan, RLIMIT_NOFILE, now.rlim_cur, most);
}

bool plan_has_no_unix(const struct plan *plan)
{
    return plan->host_network && (!plan->cell.used || plan->cell.landlock < LANDLOCK_SCOPES);
}

void plan_add_operations(struct plan *plan, const struct brig *brig)
{
    const struct brig_limits *limits = &plan->limits;
    /* Join the cgroups first, so that everything else is charged to them. On v2 the clone does it,
     * except in a call of a template, which has no right to. */
    if (plan->use_group && plan->template && brig->place.backend == &group_backend_v2)
        add_op(plan, OP_JOIN_GROUP)->hierarchy = 0;
    if (plan->use_group && brig->place.backend == &group_backend_v1) {
        for (size_t i = 0; i < brig->place.count; i++) {
            if (brig->place.serves[i] != CONTROL_CPUACCT || plan->group_limits.account_cpu)
                add_op(plan, OP_JOIN_GROUP)->hierarchy = i;
        }
    }
    add_op(plan, OP_NEW_SESSION);
    add_identity(plan);
    /* 1 instead of 0: the kernel takes it as "no core" for files and also for the pipes of
     * core_pattern. */
    add_rlimit(plan, RLIMIT_CORE, 1, 1);
    add_file_limit(plan, brig);
    if (limits->file_size_bytes != BRIG_UNLIMITED)
        add_rlimit(plan, RLIMIT_FSIZE, limits->file_size_bytes, limits->file_size_bytes);
    if (limits->cpu_time_ns != BRIG_UNLIMITED) {
        /* A second line behind the count of the tree: it stops each process even if the supervisor
         * is stopped. */
        uint64_t seconds = limits->cpu_time_ns / NS_PER_S + 2;
        add_rlimit(plan, RLIMIT_CPU, seconds, seconds + 1);
    }
    if (!plan->use_group && limits->memory_bytes < UINT64_C(1) << 62) {
        /* Bounds the mappings that a process makes between two samples. The bound is generous,
         * because RLIMIT_DATA also counts reserved memory, such as thread stacks, and a refused
         * mapping gives no verdict. */
        uint64_t most = limits->memory_bytes * 2 + RESERVED;
        add_rlimit(plan, RLIMIT_DATA, most, most);
    }
    add_user_limits(plan);
    /* OP_SECCOMP is last: a filter in force may refuse the system call that installs the next
     * one. */
    if (!plan->cell.used && !plan->host_network)
        add_op(plan, OP_NO_SOCKETS);
    if (plan_has_no_unix(plan))
        add_op(plan, OP_NO_UNIX);
    if (!plan->cell.used && plan->cell.landlock < LANDLOCK_TRUNCATES)
        add_op(plan, OP_NO_TRUNCATE);
    if (!plan->cell.used && plan->cell.as_root)
        add_op(plan, OP_SECCOMP_ROOT);
    if (!plan->cell.used)
        add_op(plan, OP_SECCOMP_DEGRADED);
    add_op(plan, OP_SECCOMP);
}

void plan_describe_op(const struct plan *plan, const struct op *op, char *out, size_t size)
{
    static const char *const resources[RLIM_NLIMITS] = {
        [RLIMIT_CORE] = "core",
        [RLIMIT_NOFILE] = "open files",
        [RLIMIT_FSIZE] = "file size",
        [RLIMIT_CPU] = "cpu time",
        [RLIMIT_DATA] = "data",
        [RLIMIT_SIGPENDING] = "pending signals",
        [RLIMIT_MSGQUEUE] = "message queues",
        [RLIMIT_MEMLOCK] = "locked memory",
        [RLIMIT_NPROC] = "processes",
        [RLIMIT_RTPRIO] = "real-time priority",
        [RLIMIT_NICE] = "priority",
    };
    switch ((enum op_kind)op->kind) {
    case OP_JOIN_GROUP:
        snprintf(out, size, "join the run's cgroup, hierarchy %llu",
                 (unsigned long long)op->hierarchy);
        return;
    case OP_NEW_SESSION:
        snprintf(out, size, "start a session without a terminal");
        return;
    case OP_CHDIR:
        snprintf(out, size, "enter %.300s", plan->workdir_path);
        return;
    case OP_RLIMIT:
        snprintf(out, size, "limit %s of each process to %llu",
                 resources[op->rlimit.resource] ? resources[op->rlimit.resource] : "a resource",
                 (unsigned long long)op->rlimit.soft);
        return;
    case OP_NO_NEW_PRIVS:
        snprintf(out, size, "set no_new_privs");
        return;
    case OP_CGROUP_NAMESPACE:
        snprintf(out, size, "hide the names of groups");
        return;
    case OP_NEW_USER:
        snprintf(out, size, "become nobody of the host, in a user namespace");
        return;
    case OP_COUNTERS:
        snprintf(out, size, "bound what is counted per user");
        return;
    case OP_LANDLOCK:
        snprintf(out, size, "enforce the landlock rules");
        return;
    case OP_DROP_CAPS:
        snprintf(out, size, "drop all capabilities");
        return;
    case OP_SECCOMP_DEGRADED:
        snprintf(out, size,
                 "refuse system calls that act on other processes, or leave something behind");
        return;
    case OP_NO_SOCKETS:
        snprintf(out, size, "refuse all sockets but pairs");
        return;
    case OP_NO_UNIX:
        snprintf(out, size, "refuse Unix sockets but pairs");
        return;
    case OP_NO_TRUNCATE:
        snprintf(out, size, "refuse to truncate files by path");
        return;
    case OP_SECCOMP_ROOT:
        snprintf(out, size, "refuse changes of modes, owners, times and attributes");
        return;
    case OP_SECCOMP_TEMPLATE:
        snprintf(out, size, "refuse the system calls that no template needs");
        return;
    case OP_SECCOMP:
        snprintf(out, size, "allow only the listed system calls");
        return;
    }
    snprintf(out, size, "operation %u", op->kind);
}
