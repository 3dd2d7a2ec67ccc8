/* The server: one client, a table of runs, and the requests that wait for them. server.c has the
 * loop; methods.c, builtin.c and hosted.c start what is asked for; runs.c sees it through; answer.c
 * writes what became of it. One thread, and nothing in it waits. */
#ifndef MCP_SERVER_H
#define MCP_SERVER_H

#include "brig.h"
#include "mcp.h"
#include "outlog.h"
#include "rpc.h"
#include "wire.h"

#define RUN_ID_SIZE 24
#define WAITERS_MAX 256 /* requests that wait */
#define KEPT_MAX    32  /* runs that are over, which somebody may still ask for */
#define KEPT_NS     (600 * NS_PER_S)
#define STDIN_MAX   (1u << 20) /* bytes that wait for a guest to read them */

/* What is left of a run that is over. */
struct outcome {
    enum brig_status status;
    int exit_code, signal;
    char *notes;
    char tier[16];
    uint64_t wall_ns, memory_peak, redacted;
    /* of a tool of the file */
    bool ok;
    char *output, *metadata, *error;
    size_t output_len, metadata_len;
};

/* The guest's stdin, where it stays open. */
struct input {
    int read_end, write_end; /* of a pipe; -1 */
    struct buf pending;
    size_t at;
    bool closing;
};

struct run {
    struct run *next;
    char id[RUN_ID_SIZE];
    struct brig_run *run;   /* NULL when it is over; owned by the call, if there is one */
    struct brig_call *call; /* NULL: a command */
    const struct brig_tool *tool;
    struct outlog log;
    struct input input;
    int file;  /* what is fed to its stdin, a memfd; -1 */
    bool told; /* the client knows its id */
    bool over;
    uint64_t started, over_at;
    struct outcome outcome;
};

/* A request that is answered when its run is over, or its time. */
struct waiter {
    struct waiter *next;
    struct ask ask;
    struct run *run;
    bool owner; /* it started the run, which ends with it if it is cancelled */
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
    bool warmed;
    int null; /* where the output of guests goes, once it was seen */
    char *workdir;
    bool network;
    struct mcp_counts counts;
};

/* methods.c */
void server_message(struct server *server, const char *text, size_t len);

/* runs.c */
/* Is there room for one more, and a host to start it on? Else the request is answered. */
bool runs_may_start(struct server *server, const struct ask *ask);
/* A new run, not started, in no table; NULL without memory. */
struct run *run_new(const struct server *server);
void run_free(struct run *run);
/* It was started: it joins the table, and the request waits for it. */
void runs_add(struct server *server, struct run *run, const struct ask *ask, uint64_t yield_ns);
struct run *runs_find(const struct server *server, const char *id);
/* The request is answered when the run is over, or after that time; NULL: it was answered now. */
struct waiter *runs_wait(struct server *server, struct run *run, const struct ask *ask,
                         uint64_t since, uint64_t wait_ns);
void runs_step(struct server *server, struct run *run);
/* Answer who is to be answered, tell the progress, forget what is old. */
void runs_answer(struct server *server);
void runs_cancel(struct server *server, const char *id);
bool runs_is_waiting(const struct server *server, const char *id);
uint64_t runs_next(const struct server *server); /* when runs_answer() has something to do */
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
/* What is there to say of the run now, from a place of its output on. */
void answer_run(struct server *server, const struct waiter *waiter);

/* builtin.c: true if there is one of that name */
/* Is it one of them? */
bool builtin_has(const char *name);
bool builtin_call(struct server *server, const struct ask *ask, const char *name,
                  const struct jsonr *args);
void builtin_list(const struct server *server, struct jsonw *w);

/* hosted.c */
bool hosted_call(struct server *server, const struct ask *ask, const char *name,
                 const struct jsonr *args);
void hosted_list(const struct server *server, struct jsonw *w);
void hosted_outcome(struct run *run);

#endif
