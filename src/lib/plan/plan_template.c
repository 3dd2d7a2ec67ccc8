/* SPDX-License-Identifier: MIT */
/* Plans a template: splits its plan into the operations that the template itself does and those
 * that each call does, and makes the plan of a call. Called by plan.c; starts nothing. */
#include "plan_template.h"

#include <errno.h>
#include <linux/sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "child/fork.h"
#include "lib/cell/source.h"
#include "lib/spec/template_ref.h"

#define STAGE "template"

#define CALLS_AT_ONCE 64 /* each has its own share of the counts per user */

_Static_assert(VIEW_OPS_MAX <= FORK_OPS_MAX, "a template takes as many operations as a view has");

struct template_cell {
    /* The operations of each call, and the parts that all calls share. */
    struct cell_op ops[VIEW_OPS_MAX];
    uint32_t op_count;
    struct strings text;
    struct cell_plan cell;
    char *workdir_path;
    bool host_network;
    /* The caller's files that calls are shown, as they were when the template was started. */
    struct cell_op shown[VIEW_MOUNTS_MAX];
    uint32_t shown_count;
};

/* ---- splitting the operations -------------------------------------------------------------- */

static bool is_writable(const struct view *view, const char *target)
{
    for (size_t i = view->mount_count; i-- > 0;) {
        const struct view_mount *mount = &view->mounts[i];
        if (strcmp(mount->target + 1, target) == 0)
            return mount->writable;
    }
    return false;
}

/* Is the operation done in calls only? The kernel lets the template mount a /proc for a call only
 * if its own is not covered, and landlock would forbid every mount. */
static bool is_only_in_calls(const struct cell_op *op)
{
    switch ((enum cell_kind)op->kind) {
    case CELL_COVER:
        return strncmp(op->target, "proc/", 5) == 0;
    case CELL_RULES:
    case CELL_ALLOW:
    case CELL_KEEP_RULES:
        return true;
    default:
        return false;
    }
}

/* Is it in a tmpfs that each call gets anew? */
static bool is_in_memory(const struct view *view, const char *target)
{
    char path[4096];
    const struct view_mount *above = NULL;
    snprintf(path, sizeof path, "/%s", target);
    for (size_t i = 0; i < view->mount_count; i++) {
        const struct view_mount *mount = &view->mounts[i];
        bool deeper = !above || strlen(mount->target) >= strlen(above->target);
        if (deeper && strcmp(mount->target, path) != 0 && view_is_within(path, mount->target))
            above = mount;
    }
    return above && !above->source && above->writable;
}

/* Does each call repeat the operation, although the template does it for itself? */
static bool is_repeated_in_calls(const struct cell_op *op, const struct view *view)
{
    switch ((enum cell_kind)op->kind) {
    case CELL_TMPFS:
        return is_writable(view, op->target);
    case CELL_DIR:
    case CELL_FILE:
    case CELL_LINK:
    case CELL_BIND:
        return is_in_memory(view, op->target);
    case CELL_PROC:
    case CELL_PTS:
    case CELL_CHDIR:
    case CELL_HOSTNAME:
        return true;
    default:
        return false;
    }
}

/* Could a call put a symlink in the way of a tmpfs that the next call mounts? It could not if the
 * tmpfs is directly in a writable directory, since a mount point cannot be moved. */
static bool is_movable(const struct view *view, const char *target)
{
    char path[4096];
    snprintf(path, sizeof path, "/%s", target);
    for (size_t i = 0; i < view->mount_count; i++) {
        const struct view_mount *mount = &view->mounts[i];
        size_t len = strlen(mount->target);
        if (mount->source && mount->writable && strcmp(mount->target, path) != 0 &&
            view_is_within(path, mount->target) && strchr(path + len + 1, '/'))
            return true;
    }
    return false;
}

static const char *copy_text(struct template_cell *cell, const char *text, bool *failed)
{
    if (!text)
        return NULL;
    if (strings_add_text(&cell->text, text) == 0)
        return cell->text.items[cell->text.count - 1];
    *failed = true;
    return NULL;
}

static struct cell_op *add_op(struct template_cell *cell, const struct cell_op *op, bool *failed)
{
    if (cell->op_count == VIEW_OPS_MAX) {
        *failed = true;
        return &cell->ops[0];
    }
    struct cell_op *copy = &cell->ops[cell->op_count++];
    *copy = *op;
    copy->source = copy_text(cell, op->source, failed);
    copy->target = copy_text(cell, op->target, failed);
    return copy;
}

static void remember_shown(struct template_cell *cell, const struct view *view, bool *failed)
{
    const char *last = "";
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cell_op *op = &view->ops[i];
        if (op->kind != CELL_BIND || (op->flags & CELL_SYSTEM) || strcmp(op->source, last) == 0 ||
            cell->shown_count == VIEW_MOUNTS_MAX)
            continue;
        last = op->source;
        struct cell_op *copy = &cell->shown[cell->shown_count++];
        *copy = (struct cell_op){.device = op->device, .inode = op->inode};
        copy->source = copy_text(cell, op->source, failed);
    }
}

const char *template_stale(const struct brig_template *template)
{
    const struct template_cell *cell = template->cell;
    struct stat st;
    for (uint32_t i = 0; cell && i < cell->shown_count; i++) {
        const struct cell_op *op = &cell->shown[i];
        if (lstat(op->source, &st) < 0 || source_device(&st) != op->device ||
            st.st_ino != op->inode)
            return op->source;
    }
    return NULL;
}

/* The ids that may be mapped are the same in every user namespace below the template's. */
static void add_map(struct template_cell *cell, const struct view *view, bool *failed)
{
    char uid[32], gid[32];
    snprintf(uid, sizeof uid, "%u %u 1", view->uid, view->uid);
    snprintf(gid, sizeof gid, "%u %u 1", view->gid, view->gid);
    add_op(cell, &(struct cell_op){.kind = CELL_MAP_SELF, .source = uid, .target = gid}, failed);
}

static bool is_mount(enum cell_kind kind)
{
    return kind == CELL_TMPFS || kind == CELL_PROC || kind == CELL_PTS || kind == CELL_COVER ||
           kind == CELL_LOWER;
}

/* Copy the operations of a call, in their order, and remove those from the template that only calls
 * do. */
static int split_cell(struct template_cell *cell, struct plan *plan, bool host_view,
                      struct brig_error *err)
{
    struct view *view = &plan->cell.view;
    uint32_t kept = 0;
    bool failed = false;
    add_map(cell, view, &failed);
    if (!plan->host_network)
        add_op(cell, &(struct cell_op){.kind = CELL_LOOPBACK}, &failed);
    add_op(cell, &(struct cell_op){.kind = CELL_ROOT_HERE}, &failed);
    uint32_t lifts = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cell_op *op = &view->ops[i];
        if (op->kind != CELL_BIND || !is_in_memory(view, op->target))
            continue;
        if (lifts++ == CELL_LIFTS_MAX)
            return error_refused(
                err, STAGE,
                "more than %d directories are to be shown in directories in memory, as "
                "/%.200s is; show one that holds them, or show them elsewhere",
                CELL_LIFTS_MAX, op->target);
        add_op(cell, &(struct cell_op){.kind = CELL_LIFT, .target = op->target}, &failed);
    }
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cell_op op = view->ops[i];
        bool alone = is_only_in_calls(&op);
        if (op.kind == CELL_TMPFS && is_writable(view, op.target) && !(op.flags & CELL_OURS) &&
            (!host_view || is_movable(view, op.target)))
            return error_refused(err, STAGE,
                                 "tmpfs: /%s is in a directory of the caller's, which a call could "
                                 "change for the next one; a template cannot have that",
                                 op.target);
        if (alone || is_repeated_in_calls(&op, view)) {
            struct cell_op *copy = add_op(cell, &op, &failed);
            if (op.kind == CELL_BIND)
                *copy = (struct cell_op){.kind = CELL_LOWER, .target = copy->target};
            if (is_mount((enum cell_kind)copy->kind))
                copy->flags |= CELL_OURS; /* no process can change the template's root */
            if (op.kind == CELL_DIR)
                copy->make.foreign = 0; /* the call has just mounted the directory above */
            if (op.kind == CELL_FILE)
                copy->make.foreign = 0;
            if (op.kind == CELL_PROC) { /* in a call, the guest has the id of init */
                copy->source = "hidepid=2";
                copy->flags &= ~(uint64_t)CELL_TAKEN;
            }
            copy->part = CELL_PART_RUN;
        }
        if (!alone)
            view->ops[kept++] = op;
    }
    view->count = kept;
    return failed ? error_memory(err, STAGE) : 0;
}

/* Does the template do this operation? A call cannot regain a right that the template gives up, so
 * the template takes only the limits that are the same for all calls. */
static bool is_done_by_template(const struct op *op)
{
    switch ((enum op_kind)op->kind) {
    case OP_LANDLOCK:
    case OP_COUNTERS:
        return false;
    case OP_RLIMIT:
        return op->rlimit.resource != RLIMIT_NOFILE && op->rlimit.resource != RLIMIT_FSIZE &&
               op->rlimit.resource != RLIMIT_CPU && op->rlimit.resource != RLIMIT_DATA &&
               op->rlimit.resource != RLIMIT_NPROC;
    default:
        return true;
    }
}

/* The kernel counts these for the user of a call and for the user of its template. The template's
 * limit at the time of the call bounds all calls together, so make room for many calls that use all
 * that they may. Half of the caller's limit stays for the caller. */
static void widen(struct op *op)
{
    struct rlimit now;
    if (op->rlimit.resource != RLIMIT_SIGPENDING && op->rlimit.resource != RLIMIT_MEMLOCK &&
        op->rlimit.resource != RLIMIT_MSGQUEUE)
        return;
    uint64_t most = op->rlimit.hard * CALLS_AT_ONCE;
    if (getrlimit((int)op->rlimit.resource, &now) == 0 && most > now.rlim_max / 2)
        most = now.rlim_max / 2;
    if (most > op->rlimit.hard)
        op->rlimit.soft = op->rlimit.hard = most;
}

static void split_operations(struct plan *plan)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        struct op op = plan->ops[i];
        if (op.kind == OP_SECCOMP)
            op.kind = OP_SECCOMP_TEMPLATE;
        if (op.kind == OP_RLIMIT)
            widen(&op);
        if (is_done_by_template(&op))
            plan->ops[kept++] = op;
    }
    plan->op_count = kept;
}

static void set_layer(struct plan *plan, const char *name, enum brig_layer_state state,
                      const char *how)
{
    for (size_t i = 0; i < plan->layer_count; i++) {
        if (strcmp(plan->layers[i].name, name) == 0)
            plan->layers[i] = (struct brig_layer){name, state, how};
    }
}

static void cell_free(struct template_cell *cell)
{
    strings_done(&cell->text);
    free(cell->workdir_path);
    free(cell);
}

int template_take(struct brig_template *template, struct plan *plan, struct brig_error *err)
{
    const struct view *view = &plan->cell.view;
    bool host_view = false;
    for (uint32_t i = 0; i < view->count; i++)
        host_view = host_view || view->ops[i].kind == CELL_ROOT_HOST;
    struct template_cell *cell = calloc(1, sizeof *cell);
    if (!cell)
        return error_memory(err, STAGE);
    if (template->cell) /* left by a start that failed */
        template->cell_free(template->cell);
    template->cell = cell;
    template->cell_free = cell_free;
    cell->host_network = plan->host_network;
    cell->cell = (struct cell_plan){
        .used = true,
        .guest_uid = plan->cell.guest_uid,
        .clone_flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS,
        .landlock = plan->cell.landlock,
    };
    if (!plan->host_network)
        cell->cell.clone_flags |= CLONE_NEWNET;
    bool failed = false;
    cell->cell.start = copy_text(cell, plan->cell.start, &failed);
    cell->cell.view.home = copy_text(cell, view->home, &failed);
    remember_shown(cell, view, &failed);
    cell->workdir_path = strdup(plan->workdir_path);
    int ret = failed || !cell->workdir_path ? error_memory(err, STAGE)
                                            : split_cell(cell, plan, host_view, err);
    split_operations(plan);
    set_layer(plan, "landlock", BRIG_LAYER_OFF, "not for a template itself; its calls have it");
    set_layer(plan, "seccomp", BRIG_LAYER_APPLIED,
              "what no template needs is refused; its calls have the allow-list");
    return ret;
}

/* ---- the cell of a call -------------------------------------------------------------------- */

/* The mount options of a tmpfs in a call. The process that mounts it owns it, and it is not larger
 * than a call may have. */
static const char *call_options(struct view *view, const char *options, uint64_t most)
{
    unsigned mode = 0;
    unsigned long long bytes = 0;
    char text[96];
    if (sscanf(options, "mode=%o,size=%llu", &mode, &bytes) != 2)
        return options;
    snprintf(text, sizeof text, "mode=%o,size=%llu,nr_inodes=100000", mode,
             bytes < most ? bytes : (unsigned long long)most);
    return view_text(view, text);
}

int template_plan(struct brig_template *template, struct plan *plan, const struct brig_spec *spec,
                  struct brig_error *err)
{
    static const enum key of_template[] = {KEY_RO,   KEY_RW,      KEY_TMPFS,
                                           KEY_VIEW, KEY_WORKDIR, KEY_NETWORK};
    const struct template_cell *cell = template->cell;
    struct view *view = &plan->cell.view;
    if (template->pid != getpid())
        return error_refused(err, STAGE, "it belongs to process %d, of which this one is a fork",
                             template->pid);
    if (!cell)
        return error_refused(err, STAGE, "it was not started");
    const char *stale = template_stale(template);
    if (stale)
        return error_refused(err, STAGE,
                             "%.300s: was replaced since the template was started, which still has "
                             "the old one; start another",
                             stale);
    for (size_t i = 0; i < sizeof of_template / sizeof *of_template; i++) {
        if (spec_asked(spec, of_template[i]))
            return error_refused(err, STAGE, "%s: a call has what its template has",
                                 key_table[of_template[i]].name);
    }
    plan->cell = cell->cell;
    plan->host_network = cell->host_network;
    plan->workdir_path = strdup(cell->workdir_path);
    if (!plan->workdir_path)
        return error_memory(err, STAGE);
    uint64_t most = cell_share_memory(spec, plan->limits.memory_bytes, plan->use_group);
    for (uint32_t i = 0; i < cell->op_count; i++) {
        struct cell_op *op = &view->ops[view->count++];
        *op = cell->ops[i];
        if (op->kind == CELL_TMPFS)
            op->source = call_options(view, op->source, most);
    }
    return view_failed(view, err);
}
