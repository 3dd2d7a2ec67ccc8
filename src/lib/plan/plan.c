/* Compiling a spec: values to limits, limits to operations, and an honest list of layers. */
#include "plan.h"

#include <errno.h>
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
#include "host.h"
#include "scratch.h"
#include "plan_template.h"

#define STAGE "plan"

#define CHANNEL_VARIABLE "BRIG_RESULT_FD"
#define CHANNEL_NUMBER   "3"
_Static_assert(GUEST_CHANNEL == 3, "CHANNEL_NUMBER says so");

#define TEMPLATE_VARIABLE "BRIG_TEMPLATE_FD"

#define LABELS_MAX  65536
#define CAPTURE_MAX (UINT64_C(1) << 30) /* the largest budget that is kept in memory */

/* ---- what needs a cell --------------------------------------------------------------------- */

const char *plan_needs_cell(const struct brig_spec *spec)
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
    return NULL;
}

/* ---- limits -------------------------------------------------------------------------------- */

static int read_limit(const struct brig *brig, const struct brig_spec *spec, enum key key,
                      uint64_t *out, struct brig_error *err)
{
    const struct spec_value *value = &spec->values[key];
    uint64_t number = value->set ? value->number : BRIG_UNLIMITED;
    return operator_apply(&brig->maxima, key, number, spec_asked(spec, key), out, err);
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
    return 0;
}

static int check_capture(const struct plan *plan, struct brig_error *err)
{
    bool captures = plan->sinks[BRIG_STDOUT].kind == BRIG_SINK_CAPTURE ||
                    plan->sinks[BRIG_STDERR].kind == BRIG_SINK_CAPTURE;
    /* Half of a truncated budget is kept in memory until the end, wherever it goes then. */
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

/* ---- folders and streams ------------------------------------------------------------------- */

static int open_workdir(struct plan *plan, const struct brig_spec *spec, struct brig_error *err)
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
                             "workdir: the current folder cannot be used: %s; name one "
                             "with --workdir",
                             error_text(errno));
    struct stat st;
    plan->workdir = open(path ? path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (plan->workdir >= 0) {
        /* A folder that was deleted can still be opened as "." or through /proc. */
        if (fstat(plan->workdir, &st) == 0 && st.st_nlink == 0)
            return error_refused(err, STAGE, "workdir: %.300s was deleted", plan->workdir_path);
        if (faccessat(plan->workdir, ".", X_OK, AT_EACCESS) < 0)
            return error_refused(err, STAGE, "workdir: %.300s: %s", plan->workdir_path,
                                 error_text(errno));
        return 0;
    }
    int errnum = errno;
    const char *why = error_text(errnum);
    if (errnum == ENOTDIR)
        why = "is not a folder";
    else if (errnum == ENOENT)
        why = lstat(plan->workdir_path, &st) == 0 && S_ISLNK(st.st_mode)
                  ? "is a link to something that does not exist"
                  : "does not exist";
    return error_set(err, BRIG_FAULT_REFUSED, STAGE, errnum, "workdir: %.300s: %s",
                     plan->workdir_path, why);
}

static int open_stdin(struct plan *plan, const struct brig_spec *spec, struct brig_error *err)
{
    const char *path = spec->values[KEY_STDIN].text;
    bool own = path && strcmp(path, "-") == 0;
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
        plan->feed_fd = spec->stdin_fd >= 0 ? spec->stdin_fd : STDIN_FILENO;
        if (fstat(plan->feed_fd, &fed) < 0 || S_ISDIR(fed.st_mode))
            return error_refused(err, STAGE, "stdin: descriptor %d cannot be read: %s",
                                 plan->feed_fd, error_text(fed.st_mode ? EISDIR : errno));
        return 0;
    }
    struct stat st;
    plan->stdin_fd =
        fd_open_plain(path ? path : "/dev/null", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);
    if (plan->stdin_fd < 0 && errno == ELOOP)
        return error_refused(err, STAGE,
                             "stdin: %.300s: is a link, or goes through one; name the file itself",
                             path);
    if (plan->stdin_fd < 0 || fstat(plan->stdin_fd, &st) < 0)
        return error_refused(err, STAGE, "stdin: %.300s: %s", path ? path : "/dev/null",
                             error_text(errno));
    /* Not a terminal: the guest would hold it. */
    if (path && !S_ISREG(st.st_mode) && (!S_ISCHR(st.st_mode) || isatty(plan->stdin_fd)))
        return error_refused(err, STAGE,
                             "stdin: %.300s: is not a regular file; pass it with "
                             "--stdin - < FILE",
                             path);
    fcntl(plan->stdin_fd, F_SETFL, 0);
    /* Not the file itself: through it the guest could change its mode, or write to it. */
    if (path) {
        plan->feed_fd = plan->own_feed = plan->stdin_fd;
        plan->stdin_fd = -1;
    }
    return 0;
}

/* On by default for all that is kept or sent, and off for a terminal that somebody looks at; by
 * name, on is on everywhere. */
static int choose_redaction(struct plan *plan, const struct brig_spec *spec, struct brig_error *err)
{
    bool asked = spec_asked(spec, KEY_REDACT);
    if (spec->values[KEY_REDACT].number == REDACT_OFF) {
        if (spec_asked(spec, KEY_REDACT_PATTERN) || spec_asked(spec, KEY_REDACT_SET))
            return error_usage(err, STAGE, "redact: is off, and there is something to redact");
        return 0;
    }
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        bool live = plan->sinks[i].kind == BRIG_SINK_PASS && isatty(plan->sinks[i].fd);
        plan->redact[i] = plan->sinks[i].kind != BRIG_SINK_DISCARD && (asked || !live);
    }
    return redact_rules_new(&plan->rules, spec->values[KEY_REDACT_SET].text,
                            (const char *const *)spec->values[KEY_REDACT_PATTERN].list.items, err);
}

/* ---- layers -------------------------------------------------------------------------------- */

static void add_layer(struct plan *plan, const char *name, enum brig_layer_state state,
                      const char *how)
{
    plan->layers[plan->layer_count++] = (struct brig_layer){name, state, how};
}

static void add_limit_layer(struct plan *plan, const char *name, uint64_t limit, const char *group,
                            const char *otherwise)
{
    if (limit == BRIG_UNLIMITED)
        add_layer(plan, name, BRIG_LAYER_OFF, "unlimited");
    else if (group)
        add_layer(plan, name, BRIG_LAYER_APPLIED, group);
    else
        add_layer(plan, name, BRIG_LAYER_APPLIED, otherwise);
}

static int add_cpu_layer(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
                         struct brig_error *err)
{
    if (plan->limits.milli_cpus == BRIG_UNLIMITED ||
        (plan->use_group && (brig->place.controllers & CONTROL_CPU))) {
        add_limit_layer(plan, "cpus", plan->limits.milli_cpus,
                        plan->use_group ? brig->place.backend->name : "none", NULL);
        return 0;
    }
    bool bound = brig->maxima.maximum[KEY_CPUS] != BRIG_UNLIMITED; /* by the operator */
    snprintf(plan->cpus_why, sizeof plan->cpus_why, "%s",
             brig->place.why[0] ? brig->place.why : "no cpu controller");
    if (spec_asked(spec, KEY_CPUS) || bound)
        return error_refused(err, STAGE, "cpus: cannot be enforced without a cgroup: %s",
                             plan->cpus_why);
    plan->limits.milli_cpus = BRIG_UNLIMITED;
    add_layer(plan, "cpus", BRIG_LAYER_MISSING, plan->cpus_why);
    return 0;
}

/* What only a group can do, asked for by name. */
static int check_group_limits(const struct plan *plan, const struct brig *brig,
                              struct brig_error *err)
{
    bool counts = !plan->use_group || brig->place.backend == &group_backend_v2 ||
                  (brig->place.controllers & CONTROL_CPUACCT);
    if (plan->pids_fail && !plan->use_group && plan->limits.pids != BRIG_UNLIMITED)
        return error_refused(err, STAGE, "on_pids_limit: \"fail\" needs a cgroup: %s",
                             brig->place.why);
    if (plan->low_priority && !(plan->use_group && (brig->place.controllers & CONTROL_CPU)))
        return error_refused(err, STAGE, "cpu_priority: \"low\" needs a cgroup: %s",
                             brig->place.why[0] ? brig->place.why : "no cpu controller");
    if (plan->limits.cpu_time_ns != BRIG_UNLIMITED && !counts)
        return error_refused(err, STAGE, "cpu_time: no cpuacct controller counts it here");
    return 0;
}

/* The layers that a cell is made of. */
static void add_cell_layers(struct plan *plan, const char *no_cell)
{
    static const struct {
        const char *name, *how;
    } layers[] = {
        {"user", "user namespace; not root on the host"},
        {"mount", "mount namespace"},
        {"pid", "pid namespace; init is pid 1"},
        {"ipc", "ipc namespace"},
        {"uts", "uts namespace"},
        {"view", "only what it needs exists; read-only but for the work folder"},
        {"capabilities", "none, and no way to get any"},
    };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        bool missing = no_cell && strcmp(layers[i].name, "capabilities") != 0;
        add_layer(plan, layers[i].name, missing ? BRIG_LAYER_MISSING : BRIG_LAYER_APPLIED,
                  missing ? no_cell : layers[i].how);
    }
    if (no_cell && geteuid() == 0)
        plan->layers[plan->layer_count - 1].how = "none, and another user of the host, who writes "
                                                  "to the work folder only if everybody may";
    if (plan->host_network)
        add_layer(plan, "net", BRIG_LAYER_OFF, "the host's network");
    else
        add_layer(plan, "net", BRIG_LAYER_APPLIED,
                  no_cell ? "no sockets but pairs, by seccomp: neither network nor loopback nor "
                            "the host's own"
                          : "network namespace with loopback only");
}

static int add_layers(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
                      const char *no_cell, struct brig_error *err)
{
    const char *group = plan->use_group ? brig->place.backend->name : NULL;
    if (group)
        add_layer(plan, "cgroup", BRIG_LAYER_APPLIED, group);
    else
        add_layer(plan, "cgroup", BRIG_LAYER_MISSING, brig->place.why);
    add_limit_layer(plan, "memory", plan->limits.memory_bytes, group,
                    "sampling of the tree every 50 ms, RLIMIT_DATA per process; not what the "
                    "kernel holds for it in pipes, sockets and memory files");
    add_limit_layer(plan, "pids", plan->limits.pids, group, "sampling of the tree every 50 ms");
    int ret = check_group_limits(plan, brig, err);
    if (ret == 0)
        ret = add_cpu_layer(plan, brig, spec, err);
    if (ret < 0)
        return ret;
    add_cell_layers(plan, no_cell);
    add_layer(plan, "tree", BRIG_LAYER_APPLIED,
              no_cell ? "init as subreaper" : "init as pid 1 of its namespace");
    add_layer(plan, "environment", BRIG_LAYER_APPLIED, "cleared but for a short list");
    add_layer(plan, "descriptors", BRIG_LAYER_APPLIED,
              plan->channel ? "all closed but 0, 1, 2 and its result channel"
                            : "all closed but 0, 1, 2");
    add_layer(plan, "session", BRIG_LAYER_APPLIED, "its own, without a terminal");
    add_layer(plan, "core_dumps", BRIG_LAYER_APPLIED, "off");
    add_layer(plan, "no_new_privs", BRIG_LAYER_APPLIED, "prctl");
    add_layer(plan, "seccomp", BRIG_LAYER_APPLIED, "system calls by an allow-list");
    plan->tier = no_cell ? "degraded" : "cell";
    return 0;
}

static const struct brig_layer *find_layer(const struct plan *plan, const char *name, size_t len)
{
    for (size_t i = 0; i < plan->layer_count; i++) {
        if (strlen(plan->layers[i].name) == len && memcmp(plan->layers[i].name, name, len) == 0)
            return &plan->layers[i];
    }
    return NULL;
}

static void set_layer(struct plan *plan, const char *name, const char *how)
{
    for (size_t i = 0; i < plan->layer_count; i++) {
        if (strcmp(plan->layers[i].name, name) == 0)
            plan->layers[i].how = how;
    }
}

static int check_required(const struct plan *plan, const struct strings *lists,
                          struct brig_error *err)
{
    for (size_t i = 0; i < lists->count; i++) {
        for (const char *name = lists->items[i]; *name;) {
            size_t len = strcspn(name, ",");
            const struct brig_layer *layer = find_layer(plan, name, len);
            if (!layer)
                return error_usage(err, STAGE, "require: \"%.*s\" is not a layer",
                                   len > 80 ? 80 : (int)len, name);
            if (layer->state != BRIG_LAYER_APPLIED)
                return error_refused(err, STAGE, "require: the layer \"%s\" is not there: %s",
                                     layer->name, layer->how);
            name += len + (name[len] == ',');
        }
    }
    return 0;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int fill_command(struct plan *plan, const struct brig_spec *spec, struct brig_error *err)
{
    if (spec->command.count == 0)
        return error_usage(err, STAGE, "command: there is none");
    bool cell = plan->cell.used;
    int ret =
        environment_build(&plan->env, spec, environ, cell ? plan->cell.view.home : plan->scratch,
                          cell ? "/tmp" : plan->scratch, err);
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
    };
    if (plan->template) /* it runs already */
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
    if (ret == 0 && redact_strings(plan->rules, &plan->labels) < 0)
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

static int make_cell(struct plan *plan, const struct brig_spec *spec, const char *no_cell,
                     struct brig_error *err)
{
    if (no_cell)
        scratch_choose(plan->scratch, sizeof plan->scratch);
    /* As in a cell: not all of a home or of the system, only because brig was started there. */
    plan->in_scratch =
        no_cell && !spec_asked(spec, KEY_WORKDIR) && view_is_too_much(plan->workdir_path);
    const char *const writable[] = {plan->in_scratch ? NULL : plan->workdir_path, NULL};
    int ret;
    if (plan->template)
        ret = template_plan(plan->template, plan, spec, err);
    else if (no_cell)
        ret = cell_plan_degraded(&plan->cell, writable, plan->scratch, err);
    else
        ret = cell_plan(&plan->cell, spec, plan->workdir_path, plan->limits.memory_bytes,
                        plan->use_group, err);
    if (ret < 0)
        return ret;
    /* So that it is not taken for the folder that brig was started in. */
    if (!no_cell && !plan->template && plan->cell.start == plan->cell.view.home)
        set_layer(plan, "view",
                  "only what it needs exists; brig was started in a home or a system folder, which "
                  "is not shown unless --workdir names it");
    if (no_cell && plan->cell.landlock <= 0)
        return error_refused(err, STAGE, "neither a cell (%s) nor landlock (%s) can be had here",
                             no_cell, error_text(-plan->cell.landlock));
    if (plan->cell.landlock > 0)
        add_layer(plan, "landlock", BRIG_LAYER_APPLIED,
                  no_cell ? "the host's files by an allow-list"
                          : "a second wall around the same view");
    else
        add_layer(plan, "landlock", BRIG_LAYER_MISSING,
                  plan->cell.landlock == -ENOSYS
                      ? "the kernel does not have it"
                      : "the kernel has it off (boot with lsm=landlock)");
    return 0;
}

int plan_make_cell(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
                   const char *no_cell, struct brig_error *err)
{
    *plan = (struct plan){.workdir = -1, .stdin_fd = -1, .feed_fd = -1, .own_feed = -1};
    plan->host_network = spec->values[KEY_NETWORK].number == NETWORK_HOST;
    plan->pids_fail = spec->values[KEY_ON_PIDS_LIMIT].number == ON_PIDS_FAIL;
    plan->low_priority = spec->values[KEY_CPU_PRIORITY].number == CPU_PRIORITY_LOW;
    plan->channel = spec->values[KEY_CHANNEL].number == CHANNEL_KEY_ON;
    plan->template = template_hold(spec->template);
    plan->serves = template_hold(spec->serves);
    int ret = read_limits(&plan->limits, brig, spec, err);
    if (ret == 0) {
        choose_group(plan, brig);
        ret = add_layers(plan, brig, spec, no_cell, err);
    }
    if (ret == 0 && !plan->template)
        ret = open_workdir(plan, spec, err);
    if (ret == 0)
        ret = make_cell(plan, spec, no_cell, err);
    if (ret == 0 && strings_add_text(&plan->argv, "brig-init") < 0)
        ret = error_memory(err, STAGE);
    if (ret == 0)
        plan_add_operations(plan, brig);
    if (ret == 0 && plan->serves)
        ret = template_take(plan->serves, plan, err);
    if (ret < 0)
        plan_done(plan);
    return ret;
}

int plan_make_run(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
                  struct brig_error *err)
{
    struct brig_limits limits;
    memcpy(plan->sinks, spec->sinks, sizeof plan->sinks);
    plan->truncate_output = spec->values[KEY_ON_OUTPUT_LIMIT].number == ON_OUTPUT_TRUNCATE;
    int ret = choose_redaction(plan, spec, err);
    if (ret == 0)
        ret = read_limits(&limits, brig, spec, err);
    if (ret == 0) {
        limits.milli_cpus = plan->limits.milli_cpus; /* which may not be there to be had */
        plan->limits = limits;
        ret = check_capture(plan, err);
    }
    if (ret == 0)
        ret = open_stdin(plan, spec, err);
    plan->input = spec->input;
    plan->input_len = spec->input_len;
    if (ret == 0)
        ret = check_required(plan, &spec->values[KEY_REQUIRE].list, err);
    return ret == 0 ? fill_command(plan, spec, err) : ret;
}

int plan_park(struct plan *plan, struct brig_error *err)
{
    plan->stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (plan->stdin_fd < 0)
        return error_system(err, STAGE, errno, "/dev/null: %s", error_text(errno));
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
    redact_rules_free(plan->rules);
    plan->rules = NULL;
    cell_plan_done(&plan->cell);
    template_drop(plan->template);
    template_drop(plan->serves);
    plan->template = plan->serves = NULL;
    fd_close_at(&plan->workdir);
    fd_close_at(&plan->stdin_fd);
    fd_close_at(&plan->own_feed);
    plan->path = plan->workdir_path = NULL;
}
