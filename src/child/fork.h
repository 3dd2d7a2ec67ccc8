/* SPDX-License-Identifier: MIT */
/* A call of a template: a fork of a warm process becomes the init and the guest of a new cell.
 *
 *     template ──clone, namespaces──► fork ──► operations of the cell ──► exec of init
 *     (an interpreter)                  └──clone──► guest: its operations, then its job
 *
 * The guest continues in the template's program, with a copy of everything that the template had
 * loaded. The fork that becomes init makes only raw system calls on memory that was prepared
 * before. The guest does the same until all restrictions of a guest are in place. */
#ifndef CHILD_FORK_H
#define CHILD_FORK_H

#include "cell_ops.h"
#include "job.h"
#include "protocol.h"

#define FORK_OPS_MAX  CELL_OPS_MAX
#define FORK_SIZE_MAX 131072

/* A request from the supervisor to a template. One message consists of this header, the operations
 * of the cell, and their texts; the operations refer to texts by offset. The message carries the
 * file descriptors in slot order, followed by the image of init. */
struct fork_request {
    uint32_t version, size; /* size of the whole message */
    uint64_t clone_flags;
    uint32_t slot_count, cell_op_count, op_count;
    int32_t channel;
    struct op ops[INIT_OPS_MAX];
};

#define FORK_VERSION 4

struct fork_cell_op {
    uint32_t kind;
    int32_t fd;
    uint32_t source, target; /* offsets from the start of the message; 0 means none */
    uint64_t words[3];
};

/* The reply of a template: a pid in its own namespace, with a pidfd, or -errno. Before any request,
 * a template sends one reply with pid 0 to signal that it is ready. */
struct fork_reply {
    uint32_t version;
    int32_t pid;
};

struct fork_call {
    const struct fork_request *request;
    struct cell_op ops[FORK_OPS_MAX];
    int fds[SLOT_MAX + 1]; /* by slot, followed by the image of init */
    int *thread_id;        /* where the C library keeps its thread id, or NULL */
    void *robust;          /* the C library's list of robust mutexes */
    uint64_t robust_size;
    void *rseq;     /* the C library's rseq area, or NULL */
    struct job job; /* the job of the guest, after fork_wait() */
};

/* Fork. In the template, returns the pid with *pidfd set, or -errno. In the guest, returns 0 after
 * all its operations. Signals must be blocked, and remain blocked in the guest. */
long fork_call(struct fork_call *call, int *pidfd);

/* Called in the guest: report to the supervisor that it is parked, and wait for its job. Exits if
 * there is none. */
void fork_wait(struct fork_call *call);

#endif
