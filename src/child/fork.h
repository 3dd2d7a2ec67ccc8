/* A call of a template: a fork of a warm process becomes init and guest of a cell of their own.
 *
 *     template ──clone, namespaces──► fork ──► operations of the cell ──► exec of init
 *     (an interpreter)                  └──clone──► guest: its operations, then its job
 *
 * The guest goes on in the template's program, with a copy of all that it had loaded. The fork that
 * becomes init does nothing but raw system calls on memory prepared before, and so does the guest
 * until it is held by all that holds a guest. */
#ifndef CHILD_FORK_H
#define CHILD_FORK_H

#include "cell_ops.h"
#include "job.h"
#include "protocol.h"

#define FORK_OPS_MAX  CELL_OPS_MAX
#define FORK_SIZE_MAX 131072

/* What the supervisor sends to a template, one message: this, then the cell's operations with texts
 * as offsets into what follows them, then the texts. With it come the descriptors by slot, and
 * init's image behind them. */
struct fork_request {
    uint32_t version, size; /* of the whole message */
    uint64_t clone_flags;
    uint32_t slot_count, cell_op_count, op_count;
    int32_t channel;
    struct op ops[INIT_OPS_MAX];
};

#define FORK_VERSION 2

struct fork_cell_op {
    uint32_t kind;
    int32_t fd;
    uint32_t source, target; /* from the beginning of the message; 0: none */
    uint64_t a, b, c;
};

/* What it answers: a pid in its own namespace with a pidfd, or -errno. The first message of a
 * template, before any request, is one with pid 0: it is ready. */
struct fork_reply {
    uint32_t version;
    int32_t pid;
};

struct fork_call {
    const struct fork_request *request;
    struct cell_op ops[FORK_OPS_MAX];
    int fds[SLOT_MAX + 1]; /* by slot, and init's image */
    int *thread_id;        /* where the C library keeps the number of its thread, or NULL */
    void *robust;          /* and its list of locks */
    uint64_t robust_size;
    void *rseq;     /* and where the kernel tells it the processor, or NULL */
    struct job job; /* the guest's, when it has one */
};

/* Fork: returns the pid and *pidfd in the template, or -errno; 0 in the guest, when all its
 * operations are done. Signals must be blocked; they still are, in the guest. */
long fork_call(struct fork_call *call, int *pidfd);

/* In the guest: tell the supervisor that it is there, and wait for its job. Does not return without
 * one. */
void fork_wait(struct fork_call *call);

#endif
