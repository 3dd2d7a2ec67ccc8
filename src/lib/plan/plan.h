/* A plan: a spec compiled for this host. All look-ups and checks are done here, in the parent; what
 * is left for the child is flat data. Nothing is started and nothing is made. */
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

struct plan {
    struct brig_limits limits;
    bool truncate_output; /* over the budget: go on, keep head and tail */
    bool host_network;
    bool pids_fail;      /* over the process limit: let fork fail */
    bool low_priority;   /* others who want the processors come first */
    char *path;          /* what to execute, taken from the work folder if it is relative */
    struct strings argv; /* of init: its name, the path, the guest's own */
    struct strings env;
    struct strings labels;
    int workdir;
    char *workdir_path;
    int stdin_fd;      /* what the guest gets as stdin; -1: a pipe that is fed from feed_fd */
    bool parked_stdin; /* it is the one that the cell was parked with, which has nothing */
    int feed_fd;       /* the descriptor to feed from, or -1 */
    int own_feed;      /* it, if it is a file that we opened; -1 */
    const void *input; /* what goes with the job, if input_len; the caller's, until it is sent */
    size_t input_len;
    struct cell_plan cell;
    char scratch[128]; /* without a cell: the folder that is HOME and TMPDIR; else empty */
    bool in_scratch;   /* the guest starts there, and not in the work folder */
    bool use_group;    /* else: rlimits and sampling */
    struct group_limits group_limits;
    struct spec_sink sinks[3];
    bool channel;                   /* the guest gets a result channel */
    struct brig_template *template; /* the guest is forked from it; NULL */
    struct brig_template *serves;   /* the guest is to be it; NULL */
    struct redact_rules *rules;     /* what is hidden in all that is kept or sent; NULL: nothing */
    bool redact[3];                 /* by stream: in what it prints as well */
    struct op ops[INIT_OPS_MAX];
    uint32_t op_count;
    const char *tier;
    struct brig_layer layers[PLAN_LAYERS_MAX];
    size_t layer_count;
    char cpus_why[256]; /* storage for a layer's reason */
    struct command_place place;
};

struct brig;

/* `no_cell`: why there is to be no cell; NULL: build one. */
int plan_make(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
              const char *no_cell, struct brig_error *err);

/* The two halves of it. What a cell is made of, which can be done before the command is known; and
 * what one run adds: its command, its streams, the limits that the supervisor keeps. */
int plan_make_cell(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
                   const char *no_cell, struct brig_error *err);
int plan_make_run(struct plan *plan, const struct brig *brig, const struct brig_spec *spec,
                  struct brig_error *err);

/* Between them, for a cell that is to wait: the streams that need no command. */
int plan_park(struct plan *plan, struct brig_error *err);

/* The key in the spec that asks for what only a cell gives; NULL if brig may run it without one,
 * where none can be built. */
const char *plan_needs_cell(const struct brig_spec *spec);
void plan_done(struct plan *plan);

/* plan_operations.c: what the guest does to itself before its exec. */
void plan_add_operations(struct plan *plan, const struct brig *brig);

/* What an operation does, in words: for brig explain and for the message when it fails. */
void plan_describe_op(const struct plan *plan, const struct op *op, char *out, size_t size);

#endif
