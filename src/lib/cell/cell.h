/* SPDX-License-Identifier: MIT */
/* The cell of a run: namespaces, user and file view, compiled to operations for the child. Called
 * by plan.c; makes nothing itself. */
#ifndef LIB_CELL_H
#define LIB_CELL_H

#include "brig.h"
#include "child/enter.h"
#include "ns_helper.h"
#include "view.h"

/* The id inside the cell of a guest that root starts: many programs behave differently for 0. */
#define CELL_UID 1000

struct cell_plan {
    bool used;            /* false: no namespaces, no mounts */
    bool needs_user;      /* started as root: the guest makes its user namespace itself */
    uint64_t guest_uid;   /* started as root: its id on the host, which nobody else has */
    uint64_t guest_gid;   /* without a cell: its group, which nobody else has */
    uint64_t clone_flags; /* the namespaces that the clone makes */
    bool as_root;      /* it has root's own id on the host, in a user namespace, without rights */
    const char *start; /* the directory in the cell in which the guest starts */
    int landlock;      /* its version, or -errno */
    struct view view;
};

/* Returns 0, or an error with fault REFUSED if a request of the spec is not possible. `group`: a
 * cgroup counts the memory of the run. */
int cell_plan(struct cell_plan *plan, const struct brig_spec *spec, const char *workdir,
              uint64_t memory_bytes, bool group, struct brig_error *err);
/* For a host that allows no cells: landlock rules for the host's files, and no capabilities. `fd`
 * is the open work directory; if `workdir` is NULL, the guest has only its scratch directory. */
int cell_plan_degraded(struct cell_plan *plan, const char *workdir, int fd, const char *scratch,
                       struct brig_error *err);
/* The largest size of a tmpfs. */
uint64_t cell_share_memory(const struct brig_spec *spec, uint64_t memory_bytes, bool group);
void cell_plan_done(struct cell_plan *plan);

/* Set the error for an operation that failed. Its stage is "cell" if the host does not allow cells
 * at all, "view" if the fault is in one path. */
int cell_op_error(const struct cell_op *op, int errnum, struct brig_error *err);

/* Describe an operation in words. */
void cell_describe(const struct cell_op *op, char *out, size_t size);

/* Does this process have the capabilities to build a cell with the host's own rights? Root in a
 * container often has not, and then builds it like an ordinary user. */
bool cell_is_privileged(void);

/* Is it an id that only guests of root have? */
bool cell_is_guest(uint64_t uid);

#endif
