/* SPDX-License-Identifier: MIT */
/* Compiles a spec into a plan: reads its values, applies the operator's limits, and chooses the
 * cell, the streams and the command. plan_layers.c and plan_operations.c fill in the rest. Starts
 * nothing. */
#include "plan.h"

#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/units.h"
#include "command.h"
#include "lib/spec/environment.h"
#include "hints.h"
#include "host.h"
#include "lib/cell/landlock.h"
#include "scratch.h"
#include "plan_template.h"
#include "lib/spec/template_ref.h"

#define STAGE "plan"

#define CHANNEL_VARIABLE "BRIG_RESULT_FD"
#define CHANNEL_NUMBER   "3"
_Static_assert(GUEST_CHANNEL == 3, "CHANNEL_NUMBER says so");

#define TEMPLATE_VARIABLE "BRIG_TEMPLATE_FD"

#define LABELS_MAX  65536
#define CAPTURE_MAX (UINT64_C(1) << 30) /* the largest budget that is kept in memory */

static int read_limit(const struct brig *brig, const struct brig_spec *spec, enum key key,
                      uint64_t *out, struct brig_error *err)
{
    const struct spec_value *value = &spec->values[key];
    uint64_t number = value->set ? value->number : BRIG_UNLIMITED;
    return operator_apply(&brig->maxima, key, number, spec_asked(spec, key), out, err);
}

/* ---- runs that need a cell ----------------------------------------------------------------- */

/* Without a cell, the guest can write to all of the work directory. */
static bool guards_workdir(const struct brig_spec *spec)
{
    char real[PATH_MAX];
    const char *workdir = spec->values[KEY_WORKDIR].text;
    bool found = spec->guards.count && realpath(workdir ? workdir : ".", real);
    for (size_t i = 0; found && i < spec->guards.count; i++) {
        if (view_is_within(spec->guards.items[i], real))
            return true;
    }
    return false;
}

/* The key that needs a cell, whatever the value of "isolation"; or NULL. */
static const char *needs_cell(const struct brig_spec *spec)
{
    static const struct {
        enum key key;
        const char *name;
    } rows[] = {{KEY_RO, "ro"}, {KEY_RW, "rw"}, {KEY_TMPFS, "tmpfs"}, {KEY_VIEW, "view"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (spec_asked(spec, rows[i].key))
            return rows[i].name;
    }
    if (spec->template || spec->serves)
        return "template";
    if (guards_workdir(spec))
        return "a file in the work directory that the guest must not change";
    return NULL;
}

int plan_refuse_cell(const struct brig_spec *spec, const char *no_cell, struct brig_error *err)
{
    char why[200];
    const char *needs = needs_cell(spec);
    int errnum = err->errnum;
    snprintf(why, sizeof why, "%.160s", no_cell); /* it may be the text in *err */
    if (needs)
        return error_set(err, BRIG_FAULT_REFUSED, "start", errnum,
                         "%s: needs a cell, and none can be built here: %s; %s" PLAN_SEE_DOCTOR,
                         needs, why, brig_cell_fix(why));
    return error_set(err, BRIG_FAULT_REFUSED, BRIG_STAGE_ISOLATION, errnum,
                     "no cell can be built here: %s; %s", why, brig_cell_fix(why));
}

int plan_may_degrade(const struct brig *brig, const struct brig_spec *spec, const char *no_cell,
                     struct brig_error *err)
{
    uint64_t isolation = ISOLATION_CELL;
    int ret = read_limit(brig, spec, KEY_ISOLATION, &isolation, err);
    if (ret == 0 && (isolation != ISOLATION_AUTO || needs_cell(spec)))
        ret = plan_refuse_cell(spec, no_cell, err);
    return ret;
}

/* ---- limits -------------------------------------------------------------------------------- */

/* No process gets more than the caller's hard limit, which an ordinary user cannot raise; the
 * result says what was set. */
static void keep_within(int resource, uint64_t *value)
{
    struct rlimit now;
    if (*value != BRIG_UNLIMITED && getrlimit(resource, &now) == 0 && *value > now.rlim_max)
        *value = now.rlim_max;
}

static int read_limits(struct brig_limits *limits, const struct brig *brig,
                       const struct brig_spec *spec, struct brig_error *err)
{
    const struct {
        enum key key;
        uint64_t *out;
    } rows[] = {
        {KEY_MEMORY, &limits->memory_bytes},
        {KEY_CPUS, &limits->milli_cpus},
        {KEY_PIDS, &limits->pids},
        {KEY_TIMEOUT, &limits->timeout_ns},
        {KEY_KILL_AFTER, &limits->kill_after_ns},
        {KEY_CPU_TIME, &limits->cpu_time_ns},
        {KEY_OUTPUT, &limits->output_bytes},
        {KEY_RESULT_SIZE, &limits->result_bytes},
        {KEY_OPEN_FILES, &limits->open_files},
        {KEY_FILE_SIZE, &limits->file_size_bytes},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int ret = read_limit(brig, spec, rows[i].key, rows[i].out, err);
        if (ret < 0)
            return ret;
    }
    keep_within(RLIMIT_NOFILE, &limits->open_files);
    keep_within(RLIMIT_FSIZE, &limits->file_size_bytes);
    return 0;
}

static int check_capture(const struct plan *plan, struct brig_error *err)
{
    bool captures = plan->sinks[BRIG_STDOUT].kind == BRIG_SINK_CAPTURE ||
                    plan->sinks[BRIG_STDERR].kind == BRIG_SINK_CAPTURE;
    /* Half of a truncated budget is kept in memory until the end, whatever the sink is. */
    if ((captures || plan->truncate_output) && plan->limits.output_bytes > CAPTURE_MAX)
        return error_usage(err, STAGE,
                           "output: what is kept in memory needs a budget of at most "
                           "1G");
    if (plan->channel && plan->limits.open_files <= GUEST_CHANNEL)
        return error_usage(err, STAGE,
                           "open_files: its result channel is descriptor %d: at least %d",
                           GUEST_CHANNEL, GUEST_CHANNEL + 1);
    if (plan->channel && plan->limits.result_bytes > CAPTURE_MAX)
        return error_usage(err, STAGE, "result_size: is kept in memory: at most 1G");
    return 0;
}

/* ---- directories and streams --------------------------------------------------------------- */

/* Without a cell, the guest gets the directory that is opened here, so no symlink on the way is
 * allowed. In a cell, its mount is checked again, with a better message. */
static int open_workdir(struct plan *plan, const struct brig_spec *spec, bool cell,
                        struct brig_error *err)
{
    const char *path = spec->values[KEY_WORKDIR].text;
    if (path)
        plan->workdir_path = strdup(path);
    else
        plan->workdir_path = getcwd(NULL, 0);
    if (!plan->workdir_path && errno == ENOMEM)
        return error_memory(err, STAGE);
    if (!plan->workdir_path)
        return error_refused(err, STAGE,
                             "workdir: the current directory cannot be used: %s; name one "
                             "with --workdir",
                             error_text(errno));
    struct stat st;
    plan->workdir = path && !cell ? fd_open_no_links(path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0)
                                  : open(path ? path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (plan->workdir >= 0) {
        /* A deleted directory can still be opened as "." or through /proc. */
        if (fstat(plan->workdir, &st) == 0 && st.st_nlink == 0)
            return error_refused(err, STAGE, "workdir: %.300s was deleted", plan->workdir_path);
        if (faccessat(plan->workdir, ".", X_OK, AT_EACCESS) < 0)
            return error_refused(err, STAGE, "workdir: %.300s: %s", plan->workdir_path,
                                 error_text(errno));
        return 0;
    }
    int errnum = errno;
    const char *why = error_text(errnum);
    if (errnum == ELOOP)
        why =
            "is or goes through a symlink, which a guest could have put there; name the real path";
    else if (errnum == ENOTDIR)
        why = "is not a directory";
    else if (errnum == ENOENT)
        why = lstat(plan->workdir_path, &st) == 0 && S_ISLNK(st.st_mode)
                  ? "is a symlink to something that does not exist"
                  : "does not exist";
    return error_set(err, BRIG_FAULT_REFUSED, STAGE, errnum, "workdir: %.300s: %s",
                     plan->workdir_path, why);
}

/* Open an empty stdin. A guest with root's id owns the host's /dev/null and could change its mode,
 * so it gets a pipe without a writer. */
static int open_nothing(bool as_root)
{
    int ends[2];
    if (!as_root)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    close(ends[1]);
    return ends[0];
}

static int open_stdin(struct plan *plan, const struct brig_spec *spec, struct brig_error *err)
{
    const char *path = spec->values[KEY_STDIN].text;
    bool own = path && strcmp(path, "-") == 0;
    if (path && strcmp(path, "none") == 0)
        path = NULL;
    if (plan->parked_stdin && !path && spec->stdin_fd < 0)
        return 0;
    plan->parked_stdin = false;
    fd_close_at(&plan->stdin_fd);
    if (spec->gives_stdin) {
        plan->stdin_fd = fcntl(spec->stdin_fd, F_DUPFD_CLOEXEC, 0);
        return plan->stdin_fd < 0 ? error_system(err, STAGE, errno, "stdin: %s", error_text(errno))
                                  : 0;
    }
    if (spec->stdin_fd >= 0 || own) {
        struct stat fed = {0};
        plan->relay_fd = spec->stdin_fd >= 0 ? spec->stdin_fd : STDIN_FILENO;
        if (fstat(plan->relay_fd, &fed) < 0 || S_ISDIR(fed.st_mode))
            return error_refused(err, STAGE, "stdin: descriptor %d cannot be read: %s",
                                 plan->relay_fd, error_text(fed.st_mode ? EISDIR : errno));
        return 0;
    }
    if (!path) {
        plan->stdin_fd = open_nothing(plan->cell.as_root);
        return plan->stdin_fd < 0 ? error_system(err, STAGE, errno, "stdin: %s", error_text(errno))
                                  : 0;
    }
    struct stat st;
    plan->stdin_fd = fd_open_plain(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (plan->stdin_fd < 0 && errno == ELOOP)
        return error_refused(
            err, STAGE, "stdin: %.300s: is a symlink, or goes through one; name the file itself",
            path);
    if (plan->stdin_fd < 0 || fstat(plan->stdin_fd, &st) < 0)
        return error_refused(err, STAGE, "stdin: %.300s: %s", path, error_text(errno));
    /* Refuse a terminal, because the guest would hold it. */
    if (!S_ISREG(st.st_mode) && (!S_ISCHR(st.st_mode) || isatty(plan->stdin_fd)))
        return error_refused(err, STAGE,
                             "stdin: %.300s: is not a regular file; redirect "
                             "stdin to it instead: brig run ... < FILE",
                             path);
    fcntl(plan->stdin_fd, F_SETFL, 0);
    /* Do not give the guest the file itself: it could change its mode, or write to it. */
    plan->relay_fd = plan->own_relay = plan->stdin_fd;
    plan->stdin_fd = -1;
    return 0;
}

/* Redaction is on by default, except for a stream that goes to a terminal. If the spec asks for it,
 * or names a pattern or a set, it is on for every stream. */
static int choose_redaction(struct plan *plan, const struct brig_spec *spec, struct brig_error *err)
{
    bool named = spec_asked(spec, KEY_REDACT_PATTERN) || spec_asked(spec, KEY_REDACT_SET);
    bool asked = spec_asked(spec, KEY_REDACT) || named;
    plan->redacts = spec_redacts(spec);
    if (named && !plan->redacts)
        return error_usage(err, STAGE,
                           "redact: is off, and redact_pattern or redact_set says what to hide; "
                           "leave one of them out");
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR && plan->redacts; i++) {
        bool live = plan->sinks[i].kind == BRIG_SINK_PASS && isatty(plan->sinks[i].fd);
        plan->redact[i] = plan->sinks[i].kind != BRIG_SINK_DISCARD && (asked || !live);
    }
    if (!spec_hides_words(spec))
        return 0;
    return redact_rules_new(&plan->rules, spec->values[KEY_REDACT_SET].text,
                            (const char *const *)spec->values[KEY_REDACT_PATTERN].list.items, err);
}

/* ---- making a plan ------------------------------------------------------------------------- */

static int fill_command(struct plan *plan, const struct brig_spec *spec, struct brig_error *err)
{
    if (spec->command.count == 0)
        return error_usage(err, STAGE, "command: there is none");
    bool cell = plan->cell.used;
    int ret =
        environment_build(&plan->env, spec, environ, cell ? plan->cell.view.home : plan->scratch,
                          cell ? "/tmp" : plan->scratch, err);
    if (ret == 0 && environment_put_toolchain(&plan->env, spec, &plan->cell.view.toolchain) < 0)
        ret = error_memory(err, STAGE);
    if (ret == 0 && plan->channel &&
        strings_put(&plan->env, CHANNEL_VARIABLE, strlen(CHANNEL_VARIABLE), CHANNEL_NUMBER) < 0)
        ret = error_memory(err, STAGE);
    if (ret == 0 && plan->serves &&
        strings_put(&plan->env, TEMPLATE_VARIABLE, strlen(TEMPLATE_VARIABLE),
                    plan->channel ? "4" : "3") < 0)
        ret = error_memory(err, STAGE);
    if (ret < 0)
        return ret;
    plan->place = (struct command_place){
        plan->workdir,
        cell ? &plan->cell.view : NULL,
        plan->cell.start,
        plan->hides_host,
    };
    if (plan->template) /* its guest runs already */
        ret = (plan->path = strdup(spec->command.items[0])) ? 0 : error_memory(err, STAGE);
    else
        ret = command_find(spec->command.items[0], environment_get(plan->env.items, "PATH"),
                           &plan->place, &plan->path, err);
    if (ret < 0)
        return ret;
    ret = strings_add_text(&plan->argv, plan->path);
    if (ret == 0)
        ret = strings_copy(&plan->argv, &spec->command);
    const struct strings *labels = &spec->values[KEY_LABELS].list;
    size_t label_bytes = 0;
    for (size_t i = 0; i < labels->count; i++)
        label_bytes += strlen(labels->items[i]);
    if (label_bytes > LABELS_MAX)
        return error_usage(err, STAGE, "labels: are longer than %d bytes together", LABELS_MAX);
    for (size_t i = 0; ret == 0 && i < labels->count; i++) { /* the last one of a name counts */
        size_t name = strcspn(labels->items[i], "=");
        ret = strings_put(&plan->labels, labels->items[i], name, labels->items[i] + name + 1);
    }
    if (ret == 0 && plan->redacts && redact_strings(plan->rules, &plan->labels) < 0)
        ret = -ENOMEM;
    return ret < 0 ? error_system(err, STAGE, -ret, "%s", error_text(-ret)) : 0;
}

static void choose_group(struct plan *plan, const struct brig *brig)
{
    plan->use_group = brig->place.backend != NULL;
    plan->group_limits = (struct group_limits){
        .memory_bytes = plan->limits.memory_bytes,
        .pids = plan->limits.pids,
        .milli_cpus = plan->limits.milli_cpus,
        .account_cpu = plan->limits.cpu_time_ns != BRIG_UNLIMITED,
        .low_priority = plan->low_priority,
    };
}

/* Tell the caller that the guest does not work in the current directory, but in one that is removed
 * at the end. */
static void say_lost(struct plan *plan)
{
    if (plan->hides_host)
        hints_say(&plan->hints, "The work directory is an empty one that is removed when the "
                                "command ends, with all that it writes there.");
    else
        hints_say(&plan->hints,
                  "brig was started in %.250s, which a command gets only if --workdir names it: "
                  "it works in an empty directory instead, and what it writes there is lost.",
                  plan->workdir_path);
}

/* Describe the id of a guest that root starts without a cell. */
static const char *describe_owner(const struct plan *plan)
{
    if (plan->cell.as_root)
        return "none; root's own id on the host, which owns the work directory: landlock keeps it "
               "from what else root owns, and it changes no modes, owners, times and attributes";
    return plan->in_scratch ? "none; nobody's id on the host"
                            : "none; the id of the owner of the work directory on the host";
}

static int make_cell(struct plan *plan, const struct brig_spec *spec, const char *no_cell,
                     struct brig_error *err)
{
    if (no_cell)
        scratch_choose(plan->scratch, sizeof plan->scratch);
    /* As in a cell: a guest does not get a whole home or a system directory only because brig was
     * started there. */
    plan->in_scratch =
        no_cell && !spec_asked(spec, KEY_WORKDIR) && view_is_too_much(plan->workdir_path);
    int ret;
    if (plan->template)
        ret = template_plan(plan->template, plan, spec, err);
    else if (no_cell)
        ret = cell_plan_degraded(&plan->cell, plan->in_scratch ? NULL : plan->workdir_path,
                                 plan->workdir, plan->scratch, err);
    else
        ret = cell_plan(&plan->cell, spec, plan->workdir_path, plan->limits.memory_bytes,
                        plan->use_group, err);
    if (ret < 0)
        return ret;
    /* Otherwise a reader would take it for the directory in which brig was started. */
    if (!no_cell && !plan->template && plan->cell.start == plan->cell.view.home)
        plan_set_layer(
            plan, "view",
            "only what it needs exists; brig was started in a home or a system directory, which "
            "is not shown unless --workdir names it");
    if (no_cell && geteuid() == 0)
        plan_set_layer(plan, "capabilities", describe_owner(plan));
    if (plan->cell.as_root && !no_cell)
        plan_set_layer(
            plan, "user",
            cell_is_privileged()
                ? "user namespace; root's own id on the host, without any right, since a "
                  "writable directory is on a file system without id-mapped mounts"
                : "user namespace; root's own id on the host, without any right, since root "
                  "lacks capabilities here");
    if (plan->cell.view.toolchain.name) {
        snprintf(
            plan->view_how, sizeof plan->view_how,
            "only what it needs exists; read-only but for the work directory; of %s its command "
            "and what that needs: %.250s",
            plan->cell.view.toolchain.name, plan->cell.view.toolchain.prefix);
        plan_set_layer(plan, "view", plan->view_how);
    }
    if (no_cell && plan->cell.landlock <= 0)
        return error_refused(
            err, STAGE, "neither a cell (%s) nor landlock (%s) can be had here" PLAN_SEE_DOCTOR,
            no_cell, error_text(-plan->cell.landlock));
    if (plan->cell.landlock > 0)
        plan_add_layer(plan, "landlock", BRIG_LAYER_APPLIED,
                       landlock_describe(plan->cell.landlock, no_cell));
    else if (plan->cell.landlock != -ENOSYS && plan->cell.landlock != -EOPNOTSUPP)
        return error_system(err, STAGE, -plan->cell.landlock, "landlock: %s",
                            error_text(-plan->cell.landlock)); /* it exists, but was refused */
    else
        plan_add_layer(plan, "landlock", BRIG_LAYER_MISSING,
                       plan->cell.landlock == -ENOSYS
                           ? "the kernel does not have it"
                           : "the kernel has it off (boot with lsm=landlock)");
    if (plan_has_no_unix(plan))
        plan_set_layer(
            plan, "net",
            no_cell ? "the host's network; no Unix sockets but pairs, which nothing else "
                      "keeps from the host's"
                    : "the host's network; no Unix sockets but pairs, since landlock is older "
                      "than version 6 and does not keep the host's abstract ones apart");
    return 0;
}

int plan_make_cell(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
                   const char *no_cell, struct brig_error *err)
{
    *plan = (struct plan){.workdir = -1, .stdin_fd = -1, .relay_fd = -1, .own_relay = -1};
    plan->host_network = spec->values[KEY_NETWORK].number == NETWORK_HOST;
    plan->pids_fail = spec->values[KEY_ON_PIDS_LIMIT].number == ON_PIDS_FAIL;
    plan->low_priority = spec->values[KEY_CPU_PRIORITY].number == CPU_PRIORITY_LOW;
    plan->asked_files = spec_asked(spec, KEY_OPEN_FILES);
    plan->channel = spec->values[KEY_CHANNEL].number == CHANNEL_KEY_ON;
    plan->template = template_hold(spec->template);
    plan->serves = template_hold(spec->serves);
    if (no_cell)
        snprintf(plan->no_cell, sizeof plan->no_cell, "%s", no_cell);
    no_cell = no_cell ? plan->no_cell : NULL; /* layers point to it */
    uint64_t isolation; /* checked here even if it is not needed: the operator may forbid it */
    int ret = read_limit(brig, spec, KEY_ISOLATION, &isolation, err);
    if (ret == 0)
        ret = read_limits(&plan->limits, brig, spec, err);
    if (ret == 0) {
        choose_group(plan, brig);
        ret = plan_add_layers(plan, brig, spec, no_cell, err);
    }
    if (ret == 0 && !plan->template)
        ret = open_workdir(plan, spec, !no_cell, err);
    if (ret == 0)
        ret = make_cell(plan, spec, no_cell, err);
    if (ret == 0 && strings_add_text(&plan->argv, "brig-init") < 0)
        ret = error_memory(err, STAGE);
    if (ret == 0)
        plan_add_operations(plan, brig);
    if (ret == 0 && plan->too_many_ops)
        ret = error_refused(err, STAGE, "the plan has more than %d operations", INIT_OPS_MAX);
    if (ret == 0 && plan->serves)
        ret = template_take(plan->serves, plan, err);
    if (ret < 0)
        plan_done(plan);
    return ret;
}

int plan_make_run(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
                  struct brig_error *err)
{
    struct brig_limits limits = {0};
    memcpy(plan->sinks, spec->sinks, sizeof plan->sinks);
    plan->truncate_output = spec->values[KEY_ON_OUTPUT_LIMIT].number == ON_OUTPUT_TRUNCATE;
    int ret = choose_redaction(plan, spec, err);
    if (ret == 0)
        ret = read_limits(&limits, brig, spec, err);
    if (ret == 0) {
        limits.milli_cpus = plan->limits.milli_cpus; /* the host may not be able to limit it */
        plan->limits = limits;
        ret = check_capture(plan, err);
    }
    if (ret == 0)
        ret = open_stdin(plan, spec, err);
    plan->hides_host = spec->hides_host;
    bool at_home = plan->cell.used && plan->cell.start == plan->cell.view.home;
    if (!plan->template && (plan->in_scratch || at_home))
        say_lost(plan);
    if (plan->cell.view.home_moved)
        hints_say(&plan->hints,
                  "HOME is /tmp: there is no place for a home in what is shown at " VIEW_HOME
                  " or above it.");
    plan->input = spec->input;
    plan->input_len = spec->input_len;
    if (ret == 0)
        ret = plan_check_required(plan, &spec->values[KEY_REQUIRE].list, err);
    return ret == 0 ? fill_command(plan, spec, err) : ret;
}

int plan_park(struct plan *plan, struct brig_error *err)
{
    plan->stdin_fd = open_nothing(plan->cell.as_root);
    if (plan->stdin_fd < 0)
        return error_system(err, STAGE, errno, "stdin: %s", error_text(errno));
    plan->parked_stdin = true;
    return 0;
}

int plan_make(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
              const char *no_cell, struct brig_error *err)
{
    int ret = plan_make_cell(plan, brig, spec, no_cell, err);
    if (ret == 0) {
        ret = plan_make_run(plan, brig, spec, err);
        if (ret < 0)
            plan_done(plan);
    }
    return ret;
}

void plan_done(struct plan *plan)
{
    free(plan->path);
    free(plan->workdir_path);
    strings_done(&plan->argv);
    strings_done(&plan->env);
    strings_done(&plan->labels);
    strings_done(&plan->hints);
    redact_rules_free(plan->rules);
    plan->rules = NULL;
    cell_plan_done(&plan->cell);
    template_drop(plan->template);
    template_drop(plan->serves);
    plan->template = plan->serves = NULL;
    fd_close_at(&plan->workdir);
    fd_close_at(&plan->stdin_fd);
    fd_close_at(&plan->own_relay);
    plan->path = plan->workdir_path = NULL;
}
