/* The operations of a guest: what its process does to itself between clone and exec, as a flat list
 * for child/op.c, and the same in words. */
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "host.h"
#include "plan.h"

#define FILES_LEAST 256 /* open files of a process, however many of them share the machine */
#define RESERVED    (UINT64_C(1) << 30) /* address space that a process may have beyond its memory */

static struct op *add_op(struct plan *plan, enum op_kind kind)
{
    struct op *op = &plan->ops[plan->op_count++];
    *op = (struct op){.kind = kind, .fd = -1};
    return op;
}

/* Never above what the caller may have: an ordinary user cannot raise a hard limit. */
static void add_rlimit(struct plan *plan, int resource, uint64_t soft, uint64_t hard)
{
    struct rlimit now;
    struct op *op = add_op(plan, OP_RLIMIT);
    if (getrlimit(resource, &now) == 0 && hard > now.rlim_max)
        hard = now.rlim_max;
    op->a = (uint64_t)resource;
    op->b = soft < hard ? soft : hard;
    op->c = hard;
}

/* Counted per user and, for a user namespace, for its owner as well: a part of what the owner may
 * have, so that one run does not use it up for the others. */
static void add_user_limits(struct plan *plan)
{
    add_rlimit(plan, RLIMIT_SIGPENDING, 1024, 1024);
    add_rlimit(plan, RLIMIT_MSGQUEUE, 200 << 10, 200 << 10);
    add_rlimit(plan, RLIMIT_MEMLOCK, 1 << 20, 1 << 20);
    add_rlimit(plan, RLIMIT_RTPRIO, 0, 0);
    add_rlimit(plan, RLIMIT_NICE, 0, 0);
    /* Where no group bounds it: a tree that forks faster than it is sampled. init is counted, and
     * a few more have to be possible for a sample to see that there are too many. */
    bool own_user = plan->cell.used || plan->cell.guest_uid;
    if (!plan->use_group && own_user && plan->limits.pids < UINT32_MAX)
        add_rlimit(plan, RLIMIT_NPROC, plan->limits.pids + 32, plan->limits.pids + 32);
}

/* From here on the guest has no right that the caller did not mean it to have. */
static void add_identity(struct plan *plan)
{
    const struct cell_plan *cell = &plan->cell;
    if (cell->used)
        add_op(plan, OP_CGROUP_NAMESPACE);
    else
        add_op(plan, OP_CHDIR)->fd = SLOT_WORKDIR;
    if (cell->needs_user)
        *add_op(plan, OP_NEW_USER) =
            (struct op){.kind = OP_NEW_USER, .a = cell->guest_uid, .b = CELL_UID};
    if (cell->used)
        add_op(plan, OP_COUNTERS);
    add_op(plan, OP_NO_NEW_PRIVS);
    if (cell->landlock > 0)
        add_op(plan, OP_LANDLOCK)->fd = SLOT_RULES;
    struct op *drop = add_op(plan, OP_DROP_CAPS);
    drop->a = cell->used ? 0 : cell->guest_uid;
    drop->b = !cell->used && geteuid() != 0;
}

/* All processes of a run together get at most half of the open files that the machine has. */
static void add_file_limit(struct plan *plan, const struct brig *brig)
{
    struct rlimit now;
    uint64_t asked = plan->limits.open_files, pids = plan->limits.pids;
    uint64_t share = pids == BRIG_UNLIMITED || pids == 0 ? UINT64_MAX : brig->file_max / 2 / pids;
    if (share < FILES_LEAST)
        share = FILES_LEAST;
    if (asked != BRIG_UNLIMITED)
        add_rlimit(plan, RLIMIT_NOFILE, asked, asked);
    else if (getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_max > share)
        add_rlimit(plan, RLIMIT_NOFILE, now.rlim_cur, share);
}

void plan_add_operations(struct plan *plan, const struct brig *brig)
{
    const struct brig_limits *limits = &plan->limits;
    /* Into the groups first, so that all the rest is charged to them. On v2 the clone does it,
     * unless it is made by a template, which has no right to. */
    if (plan->use_group && plan->template && brig->place.backend == &group_backend_v2)
        add_op(plan, OP_JOIN_GROUP)->a = 0;
    if (plan->use_group && brig->place.backend == &group_backend_v1) {
        for (size_t i = 0; i < brig->place.count; i++) {
            if (brig->place.serves[i] != CONTROL_CPUACCT || plan->group_limits.account_cpu)
                add_op(plan, OP_JOIN_GROUP)->a = i;
        }
    }
    add_op(plan, OP_NEW_SESSION);
    add_identity(plan);
    /* 1, not 0: the kernel takes it as "no core" for files and for core_pattern's pipes alike. */
    add_rlimit(plan, RLIMIT_CORE, 1, 1);
    add_file_limit(plan, brig);
    if (limits->file_size_bytes != BRIG_UNLIMITED)
        add_rlimit(plan, RLIMIT_FSIZE, limits->file_size_bytes, limits->file_size_bytes);
    if (limits->cpu_time_ns != BRIG_UNLIMITED) {
        /* Behind the tree-wide count: holds each process even if the supervisor is stopped. */
        uint64_t seconds = limits->cpu_time_ns / NS_PER_S + 2;
        add_rlimit(plan, RLIMIT_CPU, seconds, seconds + 1);
    }
    if (!plan->use_group && limits->memory_bytes < UINT64_C(1) << 62) {
        /* What a process may map beyond what samples can catch. Generous, because it counts what is
         * reserved, the stacks of threads for instance, and a refusal is no verdict. */
        uint64_t most = limits->memory_bytes * 2 + RESERVED;
        add_rlimit(plan, RLIMIT_DATA, most, most);
    }
    add_user_limits(plan);
    /* The one that is last in force may refuse what installs the next. */
    if (!plan->cell.used && !plan->host_network)
        add_op(plan, OP_NO_SOCKETS);
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
        snprintf(out, size, "join the run's cgroup, hierarchy %llu", (unsigned long long)op->a);
        return;
    case OP_NEW_SESSION:
        snprintf(out, size, "start a session without a terminal");
        return;
    case OP_CHDIR:
        snprintf(out, size, "enter %.300s", plan->workdir_path);
        return;
    case OP_RLIMIT:
        snprintf(out, size, "limit %s of each process to %llu", resources[op->a],
                 (unsigned long long)op->b);
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
        snprintf(out, size, "refuse what acts on other processes, or stays behind");
        return;
    case OP_NO_SOCKETS:
        snprintf(out, size, "refuse all sockets but pairs");
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
