/* SPDX-License-Identifier: MIT */
/* The server: one client, a table of runs, and the requests that wait for them. server.c has the
 * event loop; methods.c, builtin.c and hosted.c handle requests; runs.c steps the runs; answer.c
 * writes the answers. The server has one thread, which never blocks outside of poll(). */
#ifndef MCP_SERVER_H
#define MCP_SERVER_H

#include "brig.h"
#include "mcp.h"
#include "outlog.h"
#include "base/strings.h"
#include "rpc.h"
#include "wire.h"

#define RUN_ID_SIZE 24
#define WAITERS_MAX 256 /* waiting requests */
#define KEPT_MAX    32  /* finished runs that the client may still poll */
#define KEPT_NS     (600 * NS_PER_S)
#define STDIN_MAX   (1u << 20) /* bytes queued for a guest to read */

/* The data kept of a finished run. */
struct outcome {
    enum brig_status status;
    int exit_code, signal;
    char *notes;
    struct strings hints;
    char tier[16];
    uint64_t wall_ns, memory_peak, redacted;
    /* only for a tool of the tools file */
    bool ok;
    char *output, *metadata, *error;
    size_t output_len, metadata_len;
};

/* The guest's stdin, if it stays open. */
struct input {
    int read_end, write_end; /* of a pipe, or -1 */
    struct buf pending;
    size_t at;
    bool closing;
};

struct run {
    struct run *next;
    char id[RUN_ID_SIZE];
    struct brig_run *run;   /* NULL after its end; owned by the call, if there is one */
    struct brig_call *call; /* NULL for a command */
    const struct brig_tool *tool;
    struct outlog log;
    struct input input;
    int file;  /* a memfd with the bytes for its stdin, or -1 */
    bool told; /* the client knows its id */
    bool over;
    uint64_t started, over_at;
    struct outcome outcome;
};

/* A request that is answered when its run is over or its time has passed. */
struct waiter {
    struct waiter *next;
    struct ask ask;
    struct run *run;
    bool owner; /* it started the run; cancelling the request cancels the run */
    uint64_t since, until, asked, progress_at;
};

struct server {
    const struct mcp_options *options;
    struct brig *brig; /* NULL until the first call */
    struct wire wire;
    struct run *runs;
    unsigned running, kept;
    struct waiter *waiters;
    unsigned waiting;
    bool warmed, told_degraded;
    int null; /* /dev/null, the destination of the guests' output */
    char *workdir;
    bool network;
    struct mcp_counts counts;
};

/* methods.c */
void server_message(struct server *server, const char *text, size_t len);

/* runs.c */
/* Check that one more run may start, and open brig if needed. On failure the request is
 * answered. */
bool runs_may_start(struct server *server, const struct ask *ask);
/* A new run, not started and not in the table; NULL if memory is short. */
struct run *run_new(const struct server *server);
void run_free(struct run *run);
/* Add a started run to the table, and let the request wait for it. */
void runs_add(struct server *server, struct run *run, const struct ask *ask, uint64_t yield_ns);
struct run *runs_find(const struct server *server, const char *id);
/* Answer the request when the run is over, or after wait_ns. NULL: it was answered with an
 * error. */
struct waiter *runs_wait(struct server *server, struct run *run, const struct ask *ask,
                         uint64_t since, uint64_t wait_ns);
void runs_step(struct server *server, struct run *run);
/* Answer requests that are due, send progress, drop old runs. */
void runs_answer(struct server *server);
void runs_cancel(struct server *server, const char *id);
bool runs_is_waiting(const struct server *server, const char *id);
uint64_t runs_next(const struct server *server); /* the time of the next runs_answer() */
void runs_done(struct server *server);

/* input.c */
int input_open(struct input *input, struct brig_error *err);
int input_add(struct input *input, const char *data, size_t len, struct brig_error *err);
void input_flush(struct input *input);
void input_done(struct input *input);
int input_file(const char *const *texts, const size_t *lens, size_t count, int *fd,
               struct brig_error *err);

/* answer.c */
void answer_error(struct server *server, const struct ask *ask, const char *text);
/* Answer with the reason why a run could not be started. */
void answer_refusal(struct server *server, const struct ask *ask, struct brig_error *err);
/* Answer with the present state of the run, with its output from an offset on. */
void answer_run(struct server *server, const struct waiter *waiter);

/* builtin.c: builtin_call() returns false if there is no such tool */
/* True if it is the name of a built-in tool. */
bool builtin_has(const char *name);
bool builtin_call(struct server *server, const struct ask *ask, const char *name,
                  const struct jsonr *args);
void builtin_list(const struct server *server, struct jsonw *w);

/* hosted.c */
bool hosted_call(struct server *server, const struct ask *ask, const char *name,
                 const struct jsonr *args);
void hosted_list(const struct server *server, struct jsonw *w);

/* outcome.c: fill run->outcome from the result before the run is freed. */
void outcome_keep(struct run *run, const struct brig_result *result);

#endif
