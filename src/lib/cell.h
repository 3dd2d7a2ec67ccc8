/* The cell of a run: namespaces, identity and file view, compiled to operations for the child. */
#ifndef LIB_CELL_H
#define LIB_CELL_H

#include "brig.h"
#include "view.h"

struct cell_plan {
    bool used;
    bool root;            /* built by root: the guest gets an unprivileged id of the host */
    uint64_t clone_flags; /* the namespaces that the clone makes */
    const char *start;    /* where the guest starts */
    int landlock;         /* its version, or -errno */
    uint32_t join_at;     /* where operations to join groups go */
    struct cell cell;
};

/* 0, or an error with fault REFUSED for what was asked and cannot be. */
int cell_plan(struct cell_plan *plan, const struct brig_spec *spec, const char *workdir,
              uint64_t memory_bytes, struct brig_error *err);
/* Where no cell can be built: landlock on the host's own files, and never root. `used` stays false.
 */
int cell_plan_degraded(struct cell_plan *plan, const char *workdir, struct brig_error *err);
void cell_plan_done(struct cell_plan *plan);

/* The error for an operation that failed. Its stage is "cell" where the host does not allow cells
 * at all, "view" where something is wrong with one path. */
int cell_op_error(const struct cell_op *op, int errnum, struct brig_error *err);

/* What an operation does, in words. */
void cell_describe(const struct cell_op *op, char *out, size_t size);

/* As root: a user namespace in which the guest's id is 0 and the host's id is `host_uid`. Returns a
 * descriptor or -errno. */
int cell_make_user(uint64_t host_uid, struct brig_error *err);

#endif
