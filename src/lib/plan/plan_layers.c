/* SPDX-License-Identifier: MIT */
/* Fills in the layers of a plan: those that this host enforces, those that are off or missing, and
 * why. Refuses features that the spec asks for and that cannot be enforced. Called by plan.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/nearest.h"
#include "host.h"
#include "plan.h"

#define STAGE "plan"

void plan_add_layer(struct plan *plan, const char *name, enum brig_layer_state state,
                    const char *how)
{
    plan->layers[plan->layer_count++] = (struct brig_layer){name, state, how};
}

static void add_limit_layer(struct plan *plan, const char *name, uint64_t limit, const char *group,
                            const char *otherwise)
{
    if (limit == BRIG_UNLIMITED)
        plan_add_layer(plan, name, BRIG_LAYER_OFF, "unlimited");
    else if (group)
        plan_add_layer(plan, name, BRIG_LAYER_APPLIED, group);
    else
        plan_add_layer(plan, name, BRIG_LAYER_APPLIED, otherwise);
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
        return error_refused(err, STAGE,
                             "cpus: cannot be enforced without a cgroup: %s" PLAN_SEE_DOCTOR,
                             plan->cpus_why);
    plan->limits.milli_cpus = BRIG_UNLIMITED;
    plan_add_layer(plan, "cpus", BRIG_LAYER_MISSING, plan->cpus_why);
    return 0;
}

/* Refuse features that need a cgroup, if there is none. */
static int check_group_limits(const struct plan *plan, const struct brig *brig,
                              struct brig_error *err)
{
    bool counts = !plan->use_group || brig->place.backend == &group_backend_v2 ||
                  (brig->place.controllers & CONTROL_CPUACCT);
    if (plan->pids_fail && !plan->use_group && plan->limits.pids != BRIG_UNLIMITED)
        return error_refused(err, STAGE,
                             "on_pids_limit: \"fail\" needs a cgroup: %s" PLAN_SEE_DOCTOR,
                             brig->place.why);
    if (plan->low_priority && !(plan->use_group && (brig->place.controllers & CONTROL_CPU)))
        return error_refused(err, STAGE, "cpu_priority: \"low\" needs a cgroup: %s" PLAN_SEE_DOCTOR,
                             brig->place.why[0] ? brig->place.why : "no cpu controller");
    if (plan->limits.cpu_time_ns != BRIG_UNLIMITED && !counts)
        return error_refused(err, STAGE,
                             "cpu_time: no cpuacct controller counts it here" PLAN_SEE_DOCTOR);
    return 0;
}

/* Add the layers that a cell consists of. */
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
        {"view", "only what it needs exists; read-only but for the work directory"},
        {"capabilities", "none, and no way to get any"},
    };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        bool missing = no_cell && strcmp(layers[i].name, "capabilities") != 0;
        plan_add_layer(plan, layers[i].name, missing ? BRIG_LAYER_MISSING : BRIG_LAYER_APPLIED,
                       missing ? no_cell : layers[i].how);
    }
    if (plan->host_network)
        plan_add_layer(plan, "net", BRIG_LAYER_OFF, "the host's network");
    else
        plan_add_layer(plan, "net", BRIG_LAYER_APPLIED,
                       no_cell
                           ? "no sockets but pairs, by seccomp: neither network nor loopback nor "
                             "the host's own"
                           : "network namespace with loopback only");
}

/* RLIMIT_CORE of 1 stops core dumps to files and pipes. Nothing stops core dumps to a socket ("@",
 * since Linux 6.16). */
static bool dumps_to_a_socket(void)
{
    char pattern[256];
    ssize_t n = fd_read_file(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern);
    return n > 0 && pattern[0] == '@';
}

int plan_add_layers(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
                    const char *no_cell, struct brig_error *err)
{
    const char *group = plan->use_group ? brig->place.backend->name : NULL;
    if (group)
        plan_add_layer(plan, "cgroup", BRIG_LAYER_APPLIED, group);
    else if (brig->place.fault && spec->values[KEY_ISOLATION].number != ISOLATION_AUTO)
        return error_set(err, BRIG_FAULT_REFUSED, "cgroup", brig->place.fault,
                         "cannot find out whether a cgroup can enforce the limits: %s; see "
                         "brig doctor",
                         error_text(brig->place.fault));
    else
        plan_add_layer(plan, "cgroup", BRIG_LAYER_MISSING, brig->place.why);
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
    plan_add_layer(plan, "tree", BRIG_LAYER_APPLIED,
                   no_cell ? "init as subreaper" : "init as pid 1 of its namespace");
    plan_add_layer(plan, "environment", BRIG_LAYER_APPLIED, "cleared but for a short list");
    plan_add_layer(plan, "descriptors", BRIG_LAYER_APPLIED,
                   plan->channel ? "all closed but 0, 1, 2 and its result channel"
                                 : "all closed but 0, 1, 2");
    plan_add_layer(plan, "session", BRIG_LAYER_APPLIED, "its own, without a terminal");
    if (dumps_to_a_socket())
        plan_add_layer(
            plan, "core_dumps", BRIG_LAYER_MISSING,
            "core_pattern names a socket, to which the kernel dumps whatever the limit is");
    else
        plan_add_layer(plan, "core_dumps", BRIG_LAYER_APPLIED, "off");
    plan_add_layer(plan, "no_new_privs", BRIG_LAYER_APPLIED, "prctl");
    plan_add_layer(plan, "seccomp", BRIG_LAYER_APPLIED, "system calls by an allow-list");
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

void plan_set_layer(struct plan *plan, const char *name, const char *how)
{
    for (size_t i = 0; i < plan->layer_count; i++) {
        if (strcmp(plan->layers[i].name, name) == 0)
            plan->layers[i].how = how;
    }
}

static int unknown_layer(const char *name, size_t len, struct brig_error *err)
{
    struct nearest nearest;
    char hint[NEAREST_HINT_SIZE];
    nearest_init(&nearest, name, len);
    nearest_try_list(&nearest, key_table[KEY_REQUIRE].choices);
    return error_usage(err, STAGE, "require: \"%.*s\" is not a layer%s", len > 80 ? 80 : (int)len,
                       name, nearest_hint(&nearest, "", hint));
}

int plan_check_required(const struct plan *plan, const struct strings *lists,
                        struct brig_error *err)
{
    for (size_t i = 0; i < lists->count; i++) {
        for (const char *name = lists->items[i]; *name;) {
            size_t len = strcspn(name, ",");
            const struct brig_layer *layer = find_layer(plan, name, len);
            if (!layer)
                return unknown_layer(name, len, err);
            if (layer->state != BRIG_LAYER_APPLIED)
                return error_refused(err, STAGE,
                                     "require: the layer \"%s\" is not there: %s" PLAN_SEE_DOCTOR,
                                     layer->name, layer->how);
            name += len + (name[len] == ',');
        }
    }
    return 0;
}
