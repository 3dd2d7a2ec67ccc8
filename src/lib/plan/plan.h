/* SPDX-License-Identifier: MIT */
/* A plan: a spec compiled for this host. All look-ups and checks are done here, in the supervisor,
 * and the child gets flat data. Called by start.c, run_new.c and explain.c. Making a plan starts no
 * run, and changes nothing on the host. */
#ifndef LIB_PLAN_H
#define LIB_PLAN_H

#include "base/strings.h"
#include "brig.h"
#include "child/protocol.h"
#include "lib/cell/cell.h"
#include "command.h"
#include "lib/cgroup/group.h"
#include "lib/redact/redact.h"
#include "lib/spec/spec.h"

#define PLAN_LAYERS_MAX 24

/* The end of a refusal for a feature that this host cannot enforce. */
#define PLAN_SEE_DOCTOR "; brig doctor tells more"

struct plan {
    struct brig_limits limits;
    bool truncate_output; /* beyond the budget: go on, keep the beginning and the end */
    bool host_network;
    bool pids_fail;      /* at the process limit: let fork fail */
    bool low_priority;   /* other processes get the CPUs first */
    bool asked_files;    /* for this limit of open files; otherwise the guest gets a share */
    char *path;          /* the file to execute; a relative path starts in the work directory */
    struct strings argv; /* of init: its name, the path, the guest's argv */
    struct strings env;
    struct strings labels;
    int workdir;
    char *workdir_path;
    int stdin_fd;      /* the guest's stdin; -1: a pipe that is fed from relay_fd */
    bool parked_stdin; /* stdin_fd is the empty stdin that the cell was parked with */
    int relay_fd;      /* the file descriptor that the stdin relay reads, or -1 */
    int own_relay;     /* the same, if brig opened it; otherwise -1 */
    const void *input; /* sent with the job if input_len is not 0; owned by the caller */
    size_t input_len;
    struct cell_plan cell;
    char scratch[128]; /* without a cell: the directory for HOME and TMPDIR; otherwise empty */
    bool in_scratch;   /* the guest starts there instead of in the work directory */
    bool use_group;    /* false: rlimits and sampling instead */
    struct group_limits group_limits;
    struct spec_sink sinks[3];
    bool channel;                   /* the guest gets a result channel */
    struct brig_template *template; /* the template that forks the guest; or NULL */
    struct brig_template *serves;   /* the template that the guest becomes; or NULL */
    struct redact_rules *rules;     /* for brig's own messages; NULL: nothing is hidden */
    bool redacts;   /* secrets are also hidden in the guest's result and in labels */
    bool redact[3]; /* by stream: secrets are hidden in its output */
    struct op ops[INIT_OPS_MAX];
    uint32_t op_count;
    bool too_many_ops; /* more than INIT_OPS_MAX */
    const char *tier;
    char no_cell[256]; /* why it has no cell; empty: it has one */
    struct brig_layer layers[PLAN_LAYERS_MAX];
    size_t layer_count;
    char cpus_why[256];   /* memory for the text of a layer */
    char view_how[400];   /* the same */
    bool hides_host;      /* hints do not mention files outside of the view */
    struct strings hints; /* independent of the end of the command; see hints.h */
    struct command_place place;
};

struct brig;

/* `no_cell` is the reason to make a plan without a cell; NULL: with a cell. */
int plan_make(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
              const char *no_cell, struct brig_error *err);

/* The two halves of plan_make(). The first plans the cell, which can be done before the command is
 * known. The second adds the parts of a single run: its command, its streams, and the limits that
 * the supervisor enforces. */
int plan_make_cell(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
                   const char *no_cell, struct brig_error *err);
int plan_make_run(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
                  struct brig_error *err);

/* Called between the two for a cell that is to wait: sets up the streams that need no command. */
int plan_park(struct plan *plan, struct brig_error *err);

/* Called if no cell can be built, for the reason `no_cell`. Returns 0 if the spec may run without
 * one, or the refusal. */
int plan_may_degrade(const struct brig *brig, const struct brig_spec *spec, const char *no_cell,
                     struct brig_error *err);
/* Set the refusal of a run that needs a cell. `no_cell` may be the text in *err. */
int plan_refuse_cell(const struct brig_spec *spec, const char *no_cell, struct brig_error *err);
void plan_done(struct plan *plan);

/* plan_layers.c: the list of layers. `how` must live as long as the plan, or be a part of it. */
void plan_add_layer(struct plan *plan, const char *name, enum brig_layer_state state,
                    const char *how);
void plan_set_layer(struct plan *plan, const char *name, const char *how);
/* Add all layers except those that depend on the cell. Refuses features that the spec asks for and
 * that cannot be enforced. */
int plan_add_layers(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
                    const char *no_cell, struct brig_error *err);
/* Are all layers applied that the lists name? */
int plan_check_required(const struct plan *plan, const struct strings *lists,
                        struct brig_error *err);

/* plan_operations.c: the operations of the guest before its exec. */
void plan_add_operations(struct plan *plan, const struct brig *brig);

/* Does the guest have the host's network, with nothing but a seccomp filter to keep it from the
 * host's Unix sockets? */
bool plan_has_no_unix(const struct plan *plan);

/* Describe an operation in words, for brig explain and for the message if it fails. */
void plan_describe_op(const struct plan *plan, const struct op *op, char *out, size_t size);

#endif
