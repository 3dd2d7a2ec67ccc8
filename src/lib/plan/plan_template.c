/* Templates, on the supervisor's side. */
#include "plan_template.h"

#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "child/fork.h"
#include "host.h"
#include "lib/spawn/template_talk.h"
#include "lib/cell/view_build.h"

#define STAGE "template"

#define REPLY_WITHIN 10000 /* ms */

_Static_assert(VIEW_OPS_MAX <= FORK_OPS_MAX, "a template takes as many operations as a view has");

struct brig_template {
    unsigned references;
    int pid;              /* of the process that started it: a fork of that has no template */
    int socket;           /* ours; -1: it is not started yet */
    pthread_mutex_t lock; /* one request at a time */
    bool ready;
    /* What each of its calls does, and what they all share. */
    struct cell_op ops[VIEW_OPS_MAX];
    uint32_t op_count;
    struct strings text;
    struct cell_plan cell;
    char *workdir_path;
    bool host_network;
    /* What of the caller's all of them are shown, as it was found when the template was started. */
    struct cell_op shown[VIEW_MOUNTS_MAX];
    uint32_t shown_count;
};

struct brig_template *template_hold(struct brig_template *template)
{
    if (template)
        __atomic_add_fetch(&template->references, 1, __ATOMIC_RELAXED);
    return template;
}

static void forget(struct brig_template *template)
{
    strings_done(&template->text);
    free(template->workdir_path);
    template->workdir_path = NULL;
    template->op_count = template->shown_count = 0;
}

void template_drop(struct brig_template *template)
{
    if (!template || __atomic_sub_fetch(&template->references, 1, __ATOMIC_ACQ_REL))
        return;
    forget(template);
    fd_close_at(&template->socket);
    pthread_mutex_destroy(&template->lock);
    free(template);
}

/* ---- what a template does, and what its calls do -------------------------------------------- */

static bool is_writable(const struct view *view, const char *target)
{
    for (size_t i = view->mount_count; i-- > 0;) {
        const struct view_mount *mount = &view->mounts[i];
        if (strcmp(mount->target + 1, target) == 0)
            return mount->writable;
    }
    return false;
}

/* The template needs a whole /proc to be allowed another one for a call, and landlock would not let
 * it mount anything: both are done in each call. */
static bool is_of_calls_alone(const struct cell_op *op)
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

/* Is it in a folder in memory that each call gets anew? */
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

/* What each call needs afresh, though the template has one of its own. */
static bool is_of_both(const struct cell_op *op, const struct view *view)
{
    switch ((enum cell_kind)op->kind) {
    case CELL_TMPFS:
        return is_writable(view, op->target);
    case CELL_FOLDER:
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

/* Could a call put a link in the way of a folder in memory that the next one mounts? Not if it is
 * right in what it may write to, since what is mounted on cannot be moved. */
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

static const char *copy_text(struct brig_template *template, const char *text, bool *failed)
{
    if (!text)
        return NULL;
    if (strings_add_text(&template->text, text) == 0)
        return template->text.items[template->text.count - 1];
    *failed = true;
    return NULL;
}

static struct cell_op *add_op(struct brig_template *template, const struct cell_op *op,
                              bool *failed)
{
    if (template->op_count == VIEW_OPS_MAX) {
        *failed = true;
        return &template->ops[0];
    }
    struct cell_op *copy = &template->ops[template->op_count++];
    *copy = *op;
    copy->source = copy_text(template, op->source, failed);
    copy->target = copy_text(template, op->target, failed);
    return copy;
}

static void remember_shown(struct brig_template *template, const struct view *view, bool *failed)
{
    const char *last = "";
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cell_op *op = &view->ops[i];
        if (op->kind != CELL_BIND || (op->a & CELL_SYSTEM) || strcmp(op->source, last) == 0 ||
            template->shown_count == VIEW_MOUNTS_MAX)
            continue;
        last = op->source;
        struct cell_op *copy = &template->shown[template->shown_count++];
        *copy = (struct cell_op){.b = op->b, .c = op->c};
        copy->source = copy_text(template, op->source, failed);
    }
}

const char *template_stale(const struct brig_template *template)
{
    struct stat st;
    for (uint32_t i = 0; i < template->shown_count; i++) {
        const struct cell_op *op = &template->shown[i];
        if (lstat(op->source, &st) < 0 || source_device(&st) != op->b || st.st_ino != op->c)
            return op->source;
    }
    return NULL;
}

/* Who may map which id is the same in every user namespace below the template's. */
static void add_map(struct brig_template *template, const struct view *view, bool *failed)
{
    char uid[32], gid[32];
    snprintf(uid, sizeof uid, "%u %u 1", view->uid, view->uid);
    snprintf(gid, sizeof gid, "%u %u 1", view->gid, view->gid);
    add_op(template, &(struct cell_op){.kind = CELL_MAP_SELF, .source = uid, .target = gid},
           failed);
}

static bool is_mount(enum cell_kind kind)
{
    return kind == CELL_TMPFS || kind == CELL_PROC || kind == CELL_PTS || kind == CELL_COVER ||
           kind == CELL_LOWER;
}

/* The operations of a call, in their order, and those of the template without what is a call's. */
static int split_cell(struct brig_template *template, struct plan *plan, bool host_view,
                      struct brig_error *err)
{
    struct view *view = &plan->cell.view;
    uint32_t kept = 0;
    bool failed = false;
    add_map(template, view, &failed);
    if (!plan->host_network)
        add_op(template, &(struct cell_op){.kind = CELL_LOOPBACK}, &failed);
    add_op(template, &(struct cell_op){.kind = CELL_ROOT_HERE}, &failed);
    uint32_t lifts = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cell_op *op = &view->ops[i];
        if (op->kind != CELL_BIND || !is_in_memory(view, op->target))
            continue;
        if (lifts++ == CELL_LIFTS_MAX)
            return error_refused(err, STAGE,
                                 "more than %d folders are to be shown in folders in memory, as "
                                 "/%.200s is; show one that holds them, or show them elsewhere",
                                 CELL_LIFTS_MAX, op->target);
        add_op(template, &(struct cell_op){.kind = CELL_LIFT, .target = op->target}, &failed);
    }
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cell_op op = view->ops[i];
        bool alone = is_of_calls_alone(&op);
        if (op.kind == CELL_TMPFS && is_writable(view, op.target) && !(op.a & CELL_OURS) &&
            (!host_view || is_movable(view, op.target)))
            return error_refused(err, STAGE,
                                 "tmpfs: /%s is in a folder of the caller's, which a call could "
                                 "change for the next one; a template cannot have that",
                                 op.target);
        if (alone || is_of_both(&op, view)) {
            struct cell_op *copy = add_op(template, &op, &failed);
            if (op.kind == CELL_BIND)
                *copy = (struct cell_op){.kind = CELL_LOWER, .target = copy->target};
            if (is_mount((enum cell_kind)copy->kind))
                copy->a |= CELL_OURS; /* nobody can change the template's root */
            if (op.kind == CELL_FOLDER)
                copy->b = 0; /* all above it is ours, in a call: what it is in was just mounted */
            if (op.kind == CELL_FILE)
                copy->c = 0;
            if (op.kind == CELL_PROC) { /* the guest has init's own id in a call */
                copy->source = "hidepid=2";
                copy->a &= ~(uint64_t)CELL_TAKEN;
            }
            copy->part = CELL_PART_RUN;
        }
        if (!alone)
            view->ops[kept++] = op;
    }
    view->count = kept;
    return failed ? error_memory(err, STAGE) : 0;
}

/* What the template gives up, none of its calls gets back: it keeps the limits that are the same
 * for all, and no others. */
static bool is_of_template(const struct op *op)
{
    switch ((enum op_kind)op->kind) {
    case OP_LANDLOCK:
    case OP_COUNTERS:
        return false;
    case OP_RLIMIT:
        return op->a != RLIMIT_NOFILE && op->a != RLIMIT_FSIZE && op->a != RLIMIT_CPU &&
               op->a != RLIMIT_DATA && op->a != RLIMIT_NPROC;
    default:
        return true;
    }
}

static void split_operations(struct plan *plan)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < plan->op_count; i++) {
        struct op op = plan->ops[i];
        if (op.kind == OP_SECCOMP)
            op.kind = OP_SECCOMP_TEMPLATE;
        if (is_of_template(&op))
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

int template_take(struct brig_template *template, struct plan *plan, struct brig_error *err)
{
    const struct view *view = &plan->cell.view;
    bool host_view = false;
    for (uint32_t i = 0; i < view->count; i++)
        host_view = host_view || view->ops[i].kind == CELL_ROOT_HOST;
    forget(template);
    template->host_network = plan->host_network;
    template->cell = (struct cell_plan){
        .used = true,
        .guest_uid = plan->cell.guest_uid,
        .clone_flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS,
        .landlock = plan->cell.landlock,
    };
    if (!plan->host_network)
        template->cell.clone_flags |= CLONE_NEWNET;
    bool failed = false;
    template->cell.start = copy_text(template, plan->cell.start, &failed);
    template->cell.view.home = copy_text(template, view->home, &failed);
    remember_shown(template, view, &failed);
    template->workdir_path = strdup(plan->workdir_path);
    int ret = failed || !template->workdir_path ? error_memory(err, STAGE)
                                                : split_cell(template, plan, host_view, err);
    split_operations(plan);
    set_layer(plan, "landlock", BRIG_LAYER_OFF, "not for a template itself; its calls have it");
    set_layer(plan, "seccomp", BRIG_LAYER_APPLIED,
              "what no template needs is refused; its calls have the allow-list");
    return ret;
}

/* ---- the cell of a call --------------------------------------------------------------------- */

/* A folder in memory is the call's own, by whoever mounts it, and no larger than a call may have.
 */
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
    struct view *view = &plan->cell.view;
    if (template->pid != getpid())
        return error_refused(err, STAGE, "it belongs to process %d, of which this one is a fork",
                             template->pid);
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
    plan->cell = template->cell;
    plan->host_network = template->host_network;
    plan->workdir_path = strdup(template->workdir_path);
    if (!plan->workdir_path)
        return error_memory(err, STAGE);
    uint64_t most = cell_share_memory(spec, plan->limits.memory_bytes, plan->use_group);
    for (uint32_t i = 0; i < template->op_count; i++) {
        struct cell_op *op = &view->ops[view->count++];
        *op = template->ops[i];
        if (op->kind == CELL_TMPFS)
            op->source = call_options(view, op->source, most);
    }
    return view_failed(view, err);
}

/* ---- requests ------------------------------------------------------------------------------- */

int template_open_socket(struct brig_template *template)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    fd_close_at(&template->socket);
    template->socket = ends[0];
    return ends[1];
}

static int request(struct brig_template *template, const struct plan *plan,
                   const struct enter *enter, const struct init_setup *setup, int *pidfd)
{
    pthread_mutex_lock(&template->lock);
    int ret = talk_request(template->socket, plan, enter, setup);
    if (ret == 0)
        ret = talk_reply(template->socket, REPLY_WITHIN, pidfd);
    /* Whose answer comes next cannot be known any more. */
    if (ret == -ETIMEDOUT || ret == -EPROTO)
        shutdown(template->socket, SHUT_RDWR);
    pthread_mutex_unlock(&template->lock);
    return ret;
}

static bool is_ready(struct brig_template *template)
{
    pthread_mutex_lock(&template->lock);
    bool ready = template->ready;
    pthread_mutex_unlock(&template->lock);
    return ready;
}

int template_fork(struct brig_template *template, const struct plan *plan,
                  const struct enter *enter, const struct init_setup *setup, int *pidfd,
                  struct brig_error *err)
{
    if (!is_ready(template))
        return error_system(err, STAGE, EAGAIN, "the template is not ready");
    int ret = request(template, plan, enter, setup, pidfd);
    if (ret == -EPIPE || ret == -ECONNRESET)
        return error_system(err, STAGE, ECONNRESET, "the template has ended");
    if (ret == 0)
        ret = -EPROTO;
    if (ret > 0)
        ret = talk_pid(*pidfd, ret);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "the template cannot fork: %s", error_text(-ret));
    return ret;
}

/* ---- for programs ---------------------------------------------------------------------------- */

int brig_template_start(struct brig *brig, const struct brig_spec *spec, struct brig_template **out,
                        struct brig_run **run, struct brig_error *err)
{
    struct brig_template *template = calloc(1, sizeof *template);
    struct brig_spec *copy = spec_copy(spec);
    if (!template || !copy) {
        free(template);
        brig_spec_free(copy);
        return error_memory(err, STAGE);
    }
    template->references = 1;
    template->pid = getpid();
    template->socket = -1;
    pthread_mutex_init(&template->lock, NULL);
    copy->serves = template_hold(template);
    int ret = brig_start(brig, copy, run, err);
    brig_spec_free(copy);
    if (ret < 0)
        template_drop(template);
    else
        *out = template;
    return ret;
}

void brig_template_free(struct brig_template *template)
{ /* NULL is fine */
    template_drop(template);
}

int brig_template_fd(const struct brig_template *template)
{
    return template->socket;
}

int brig_template_ready(struct brig_template *template, struct brig_error *err)
{
    int pidfd = -1, ret = 0;
    pthread_mutex_lock(&template->lock);
    if (!template->ready) {
        ret = talk_reply(template->socket, 0, &pidfd);
        template->ready = ret == 0;
    }
    bool ready = template->ready;
    pthread_mutex_unlock(&template->lock);
    fd_close_at(&pidfd);
    if (ready)
        return 1;
    if (ret == -ETIMEDOUT)
        return 0;
    return error_system(err, STAGE, ECONNRESET, "the template has ended before it was ready");
}

void brig_spec_set_template(struct brig_spec *spec, struct brig_template *template)
{
    spec_changes(spec);
    template_hold(template);
    template_drop(spec->template);
    spec->template = template;
}
