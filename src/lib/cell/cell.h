/* The cell of a run: namespaces, identity and file view, compiled to operations for the child. */
#ifndef LIB_CELL_H
#define LIB_CELL_H

#include "brig.h"
#include "child/enter.h"
#include "view.h"

/* What a guest that root starts is called inside: many programs do other things for 0. */
#define CELL_UID 1000

struct cell_plan {
    bool used;            /* false: no namespaces, no mounts */
    bool needs_user;      /* root starts it: the guest makes its user namespace itself */
    uint64_t guest_uid;   /* root starts it: its id on the host, which nobody else has */
    uint64_t clone_flags; /* the namespaces that the clone makes */
    const char *start;    /* where the guest starts, in the cell */
    int landlock;         /* its version, or -errno */
    struct view view;
};

/* 0, or an error with fault REFUSED for what was asked and cannot be. `group`: a cgroup counts the
 * memory of the run. */
int cell_plan(struct cell_plan *plan, const struct brig_spec *spec, const char *workdir,
              uint64_t memory_bytes, bool group, struct brig_error *err);
/* Where no cell can be built: landlock on the host's own files, and never root. */
int cell_plan_degraded(struct cell_plan *plan, const char *const *writable, const char *scratch,
                       struct brig_error *err);
/* How large a folder in memory may be. */
uint64_t cell_share_memory(const struct brig_spec *spec, uint64_t memory_bytes, bool group);
void cell_plan_done(struct cell_plan *plan);

/* The error for an operation that failed. Its stage is "cell" where the host does not allow cells
 * at all, "view" where something is wrong with one path. */
int cell_op_error(const struct cell_op *op, int errnum, struct brig_error *err);

/* What an operation does, in words. */
void cell_describe(const struct cell_op *op, char *out, size_t size);

/* Is it an id that only guests of root have? */
bool cell_is_guest(uint64_t uid);

/* As root: a process beside us that has made the run's network namespace and a user namespace for
 * mounts, in which files of root are the guest's. It shares our memory until owner_done(), which
 * has to be called whatever the others said. */
struct owner {
    int pid, pidfd; /* of the holder; -1: there is none */
    int user;       /* its user namespace, when owner_map() has given it a meaning */
    struct holder holder;
};

#define OWNER_NONE ((struct owner){.pid = -1, .pidfd = -1, .user = -1})

int owner_start(struct owner *owner, bool network, struct brig_error *err);
int owner_map(struct owner *owner, uint64_t guest_uid, struct brig_error *err);
/* It is not needed any more. owner_done() waits until it is gone, which can be later. */
void owner_release(struct owner *owner);
bool owner_is_gone(struct owner *owner);
void owner_done(struct owner *owner);

#endif
