/* SPDX-License-Identifier: MIT */
/* brig: run one command as if it will misbehave.
 *
 * This header is the whole public interface of libbrig and the authority on it.
 *
 *     spec ──► plan ──► run ──► result
 *
 * A *spec* holds a command and its limits. brig_start() compiles the spec to a plan, starts it and
 * returns a *run*: one pollable file descriptor and three verbs (step, wait, cancel). When every
 * process of the run is gone, the run has a *result*.
 *
 * These rules hold for every function in this header:
 *  - A function that can fail returns 0 or a negative errno, and its last parameter is a
 *    `struct brig_error *`, which may be NULL. Outputs are untouched on failure.
 *  - A fault of brig or of the request is an error. Anything that the guest does is a result.
 *  - Destructors accept NULL.
 *  - The library never logs, prints, exits or installs signal handlers. It keeps no global state,
 *    and starts no threads except the pool thread of brig_warm().
 *  - Different handles may be used by different threads at the same time. One handle must not be
 *    used by two threads at once.
 *  - A setting that was asked for by name and cannot be enforced is refused. If no cell can be
 *    built, the run is refused, unless the key "isolation" is "auto". The result lists the layers
 *    that were applied and those that were not.
 */
#ifndef BRIG_H
#define BRIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRIG_API __attribute__((visibility("default")))

/* The version of the library, "MAJOR.MINOR.PATCH". Static storage. */
BRIG_API const char *brig_version(void);

/* ---- version and ABI ---------------------------------------------------------------------- */

/* The version of this header; brig_version() gives that of the library. */
#define BRIG_VERSION_MAJOR 0
#define BRIG_VERSION_MINOR 1
#define BRIG_VERSION_PATCH 0
#define BRIG_VERSION       "0.1.0"

/* The ABI: a program runs with every library of the same soname (libbrig.so.0) that is not older
 * than its header. Functions are added, never changed or removed; new values are added at the end
 * of enums. Every struct of this header keeps its size: new fields take reserved space, which the
 * library sets to zero. */

/* ---- errors ------------------------------------------------------------------------------- */

/* The class of an error. The command line turns it into an exit code: brig_error_exit_code(). */
enum brig_fault {
    BRIG_FAULT_NONE,
    BRIG_FAULT_USAGE,          /* the request is malformed: exit 2 */
    BRIG_FAULT_REFUSED,        /* well-formed, but cannot be enforced or is not allowed here: 125 */
    BRIG_FAULT_SYSTEM,         /* a system call failed while the run was set up: 125 */
    BRIG_FAULT_NOT_EXECUTABLE, /* the command exists but cannot be executed: 126 */
    BRIG_FAULT_NOT_FOUND,      /* there is no such command: 127 */
};

struct brig_error {
    enum brig_fault fault;
    int errnum;        /* the errno of the failed system call, 0 if there was none */
    const char *stage; /* static string: "spec", "plan", "cgroup", "spawn", "exec", ... */
    const char *key;   /* static string: the key of the spec that the operator's maximum forbids;
                        * NULL */
    void *reserved[3];
    char text[512]; /* one line for people; printable UTF-8, control characters escaped */
};

/* The stage of an error that says: no cell can be built on this host, and the run would be started
 * without a cell if its key "isolation" were "auto". The text of the error does not mention the
 * key; a program adds how its own users set it. */
#define BRIG_STAGE_ISOLATION "isolation"

/* ---- the keys of a spec ------------------------------------------------------------------- */

enum brig_key_type {
    BRIG_TYPE_SIZE,     /* bytes: 512M, 2G; JSON number or string */
    BRIG_TYPE_DURATION, /* 500ms 30s 5m 1h30m; bare: seconds */
    BRIG_TYPE_COUNT,    /* a whole number above 0 */
    BRIG_TYPE_CPUS,     /* CPUs: 0.5, 1, 2.25 */
    BRIG_TYPE_CHOICE,   /* one of `choices` */
    BRIG_TYPE_PATH,
    BRIG_TYPE_TEXT,
    BRIG_TYPE_LIST, /* may be given many times */
    BRIG_TYPE_MAP,  /* NAME=VALUE, may be given many times; an object in JSON */
};

/* One row per setting. The command line, the JSON spec, the manual and the shell completions are
 * all generated from this table. */
struct brig_key {
    const char *name;   /* in JSON, in Python and, with '-' for '_', on the command line */
    const char *option; /* the long option without its dashes */
    char letter;        /* the short option or 0 */
    enum brig_key_type type;
    const char *argument; /* the placeholder for the value in the help */
    const char *initial;  /* the default as text; NULL: not set (inherited or empty) */
    const char *choices;  /* "a|b|c" for BRIG_TYPE_CHOICE and for a list of fixed words; or NULL */
    const char *help;     /* one line */
    const char *detail;   /* further sentences for the manual, or NULL */
    bool limit;           /* a job's own metadata may set it, and the operator may bound it */
    bool unlimited;       /* accepts the word "unlimited" */
    bool bounded;         /* not a limit, but the operator may bound it: a choice, by its order */
    const char *second;   /* for a list whose entries have two parts: the JSON name of the second */
    const char *shared;   /* the default after brig_spec_share(), or NULL if it is the same */
    const void *reserved[4];
};

/* Return the table of keys and set *count to the number of its rows. Static storage. */
BRIG_API const struct brig_key *brig_keys(size_t *count);

/* ---- spec --------------------------------------------------------------------------------- */

/* The source of a value, from the lowest precedence to the highest. A value replaces only values of
 * the same or a lower origin, so the order of the calls does not matter. Lists grow in the order of
 * the calls. */
enum brig_origin {
    BRIG_FROM_DEFAULT,
    BRIG_FROM_SPEC,        /* a spec file */
    BRIG_FROM_METADATA,    /* the job's own metadata */
    BRIG_FROM_ENVIRONMENT, /* a BRIG_* variable */
    BRIG_FROM_OPTION,      /* set by the caller, by name */
};

struct brig_spec;

/* Create a spec with the default values and no command. The caller owns it, and frees it with
 * brig_spec_free(). */
BRIG_API int brig_spec_new(struct brig_spec **out, struct brig_error *err);
BRIG_API void brig_spec_free(struct brig_spec *spec);

/* Create an independent spec with the same values. The caller owns it. */
BRIG_API int brig_spec_copy(const struct brig_spec *spec, struct brig_spec **out,
                            struct brig_error *err);

/* The value of a key that is not a list, as text; NULL if the key is unknown or not set. The caller
 * frees it with brig_free(). */
BRIG_API char *brig_spec_get(const struct brig_spec *spec, const char *key);

/* Lower a limit. A value above the present one is refused, and the message names both. This is for
 * requests of a party that may not raise its limits. */
BRIG_API int brig_spec_lower(struct brig_spec *spec, const char *key, const char *value,
                             const char *where, struct brig_error *err);

/* Declare that the output of runs of this spec leaves the caller: it goes to a model, a log or
 * another machine. Keys with a default for this case (`shared` in the table) take that default. An
 * explicit value wins, no matter if it was set before or after this call. The specs of
 * brig_tools_read() are shared. */
BRIG_API void brig_spec_share(struct brig_spec *spec);

/* Set one key from its text form. `where` names the source of the value in messages ("--memory",
 * "BRIG_MEMORY", "spec.json: memory"); NULL stands for the name of the key. Returns -EINVAL for an
 * unknown key or a bad value. */
BRIG_API int brig_spec_set(struct brig_spec *spec, const char *key, const char *value,
                           enum brig_origin origin, const char *where, struct brig_error *err);

/* Add an entry to a list whose entries have two parts (brig_key.second): a path, and its place in
 * the cell (ro, rw) or its size (tmpfs). If `second` is NULL, the path keeps its own place, or the
 * tmpfs gets the default size. A colon has no meaning here, unlike in the text form: use this
 * function for paths that come from elsewhere. */
BRIG_API int brig_spec_set_pair(struct brig_spec *spec, const char *key, const char *path,
                                const char *second, enum brig_origin origin, const char *where,
                                struct brig_error *err);

/* Keep the guest from changing a file or directory that controls other runs or records this one: a
 * journal, a result, a tool. `path` must exist. If it is inside a directory that the guest may
 * write, it is mounted read-only there, and neither it nor a directory above it can be moved or
 * replaced. A path outside the guest's view needs no protection. If `path` is NULL, all files that
 * the key env_file names so far are guarded.
 *
 * brig_start() refuses a path that cannot be guarded: a directory that is itself writable for the
 * guest, a FIFO, a file with a second hard link, and a path through a symlink that is in a
 * directory which the guest may write. */
BRIG_API int brig_spec_guard(struct brig_spec *spec, const char *path, struct brig_error *err);

/* Read a JSON object with the keys of the table and "command" (an array of strings), of at most
 * BRIG_SPEC_MAX bytes. Unknown keys, duplicate keys and trailing text are refused. A refused text
 * does not change the spec. `name` names the text in messages. */
#define BRIG_SPEC_MAX (1u << 20)
BRIG_API int brig_spec_read_json(struct brig_spec *spec, const char *text, size_t len,
                                 const char *name, struct brig_error *err);

/* Read limits from a job's own metadata, which is any JSON object. The members of its object
 * "limits" must be keys of the table that are limits. All other members of the metadata are
 * ignored. */
BRIG_API int brig_spec_read_metadata(struct brig_spec *spec, const char *text, size_t len,
                                     const char *name, struct brig_error *err);

/* Set the command: `argc` strings, which are copied. Replaces an earlier command. */
BRIG_API int brig_spec_set_command(struct brig_spec *spec, const char *const *argv, size_t argc,
                                   struct brig_error *err);

enum brig_stream { BRIG_STDIN = 0, BRIG_STDOUT = 1, BRIG_STDERR = 2 };

/* The destination of a stream of the guest. The default for stdout and stderr is capture. */
enum brig_sink {
    BRIG_SINK_CAPTURE, /* kept in the result, up to the output limit */
    BRIG_SINK_PASS,    /* relayed to `fd`; a slow reader slows the guest, but not its clocks */
    BRIG_SINK_DISCARD, /* counted and dropped */
};

/* Set the destination of stdout or stderr. `fd` is for BRIG_SINK_PASS; it stays the caller's and
 * must stay open until the run is freed. */
BRIG_API int brig_spec_set_sink(struct brig_spec *spec, enum brig_stream stream,
                                enum brig_sink sink, int fd, struct brig_error *err);

/* Relay `fd` to the guest's stdin through a pipe; the guest never gets `fd` itself. Without this
 * call and without the key "stdin", stdin is empty. `fd` stays the caller's and must outlive the
 * run. -1 undoes an earlier call. */
BRIG_API int brig_spec_set_stdin(struct brig_spec *spec, int fd, struct brig_error *err);

/* Give the guest `fd` itself as its stdin: a memfd that was made for this guest and has no other
 * user. -EINVAL if it is not a memfd. */
BRIG_API int brig_spec_give_stdin(struct brig_spec *spec, int fd, struct brig_error *err);

/* Send 1 to BRIG_INPUT_MAX bytes to a call of a template together with its job, which is faster
 * than a read from stdin. The bytes stay the caller's and must stay valid until brig_start()
 * returns. NULL undoes an earlier call. brig_start() refuses a spec with input that is not for a
 * call of a template. */
#define BRIG_INPUT_MAX 16384
BRIG_API int brig_spec_give_input(struct brig_spec *spec, const void *bytes, size_t len,
                                  struct brig_error *err);

/* Keep facts about the host out of hints and messages. This is for runs whose command was chosen,
 * and whose result is read, by another party than the caller, for example a model: it must not
 * learn which files exist outside the guest's view. */
BRIG_API void brig_spec_hide_host(struct brig_spec *spec);

/* ---- host --------------------------------------------------------------------------------- */

/* The handle with which a process starts runs. It holds the parent cgroup of the runs, the
 * operator's maxima and a sealed image of brig's init. After fork(), the child may use its copy;
 * the cells built ahead and the pool thread stay with the parent. */
struct brig;

/* Open a handle. This also removes the leftovers of killed supervisors. The
 * handle must outlive all of its runs; the caller frees it with brig_close(), which also removes
 * the cells built ahead. */
BRIG_API int brig_open(struct brig **out, struct brig_error *err);
BRIG_API void brig_close(struct brig *brig);

/* Keep up to `cells` cells (at most 64) built ahead for runs like `spec`. brig_start() with a spec
 * of the same limits, view and network takes one of them and starts in a fraction of the time. The
 * command, environment, streams, timeouts and output limits may differ. If no cell is ready or none
 * fits, brig_start() builds a cell as usual.
 *
 * Each cell is used once. The library's pool thread builds the next cells and removes used ones.
 * The first cell is built before this function returns, which fails if no cell can be built on this
 * host. With 0 cells, it removes the cells of this spec, and returns when they and all finished
 * runs are removed.
 *
 * The attributes that a process inherits (umask, priority, CPU affinity) are fixed when the cell is
 * built. */
BRIG_API int brig_warm(struct brig *brig, const struct brig_spec *spec, unsigned cells,
                       struct brig_error *err);

/* The number of cells that are ready for this spec. */
BRIG_API unsigned brig_warm_ready(struct brig *brig, const struct brig_spec *spec);

/* ---- run ---------------------------------------------------------------------------------- */

struct brig_run;
struct brig_result;

/* Compile the spec, check it against this host and start the run. The caller owns *out and frees it
 * with brig_run_free(). The spec may be changed or freed afterwards; `brig` must outlive the run.
 * On failure, everything that was set up for the run is removed. */
BRIG_API int brig_start(struct brig *brig, const struct brig_spec *spec, struct brig_run **out,
                        struct brig_error *err);

/* A file descriptor that is readable when brig_run_step() has something to do. Owned by the run. */
BRIG_API int brig_run_fd(const struct brig_run *run);

/* Process all pending work of the run without blocking. Returns 1 if the run is over, else 0. */
BRIG_API int brig_run_step(struct brig_run *run);

/* Step until the run is over or `timeout_ms` milliseconds have passed. -1 waits without a limit;
 * the timeout of the run itself always applies. Returns 1 if the run is over, else 0. */
BRIG_API int brig_run_wait(struct brig_run *run, int timeout_ms);

/* End the run: send SIGTERM to all of its processes, wait for the duration kill_after, then send
 * SIGKILL. Returns at once; step the run until it is over. `why` is copied to the notes of the
 * result, and may be NULL. A second call sends SIGKILL without waiting. Does nothing if the run is
 * over. */
BRIG_API void brig_run_cancel(struct brig_run *run, const char *why);

/* Stop all processes of the run with SIGSTOP, and continue them. This is for a program that is
 * about to be stopped itself, for example by Ctrl-Z. The clocks of the run keep going and its
 * timeout holds: if the program is not continued in time, brig's init ends the run one second after
 * its timeout and kill_after. Both do nothing if the run is over. Both are async-signal-safe. */
BRIG_API void brig_run_pause(struct brig_run *run);
BRIG_API void brig_run_resume(struct brig_run *run);

/* True if the run started in a cell that was built ahead. */
BRIG_API bool brig_run_was_warm(const struct brig_run *run);

/* The reason why the run has no cell ("isolation" is "auto" and no cell can be built on this host);
 * NULL if it has one. Owned by the run. */
BRIG_API const char *brig_run_degraded(const struct brig_run *run);

/* The process id of brig's init for this run, in the caller's PID namespace. */
BRIG_API int brig_run_pid(const struct brig_run *run);

/* The JSON that the guest sent on its result channel (key "channel"), as soon as it is complete;
 * NULL until then. Sets *len to its length. Owned by the run.
 *
 * This does not wait for the end of the run. The returned JSON is final: a second message from the
 * guest, which would otherwise invalidate its result, is ignored from here on. If brig_warm() keeps
 * cells for this handle, brig_run_free() leaves the end and the removal of such a run to the pool
 * thread. */
BRIG_API const char *brig_run_answer(struct brig_run *run, size_t *len);

/* The memory file of a call of a template: large parts of its result, to which its JSON may refer.
 * A call that has a result channel may write to the file (brig_template.h); nothing in it counts
 * until the guest has sealed it, and nobody can change it from then on. Secrets in it are not
 * hidden. For use after brig_run_answer() or the end of the run.
 *
 * Returns a file descriptor, which belongs to the run, and sets *size to at most the limit
 * "result_size". Returns -ENOENT if the run has no such file or it is empty, -EPERM if the guest
 * has not sealed it, and -EFBIG if it is larger. */
BRIG_API int brig_run_memory(const struct brig_run *run, uint64_t *size);

/* Hints: facts that brig is certain of and that the caller may not know, as sentences; a
 * NULL-terminated array. After brig_start(), the hints that matter no matter how the command ends;
 * when the run is over, the hints of the result, which begin with the former. Owned by the run,
 * valid until the next step. */
BRIG_API const char *const *brig_run_hints(const struct brig_run *run);

/* The result; NULL until the run is over. Owned by the run. */
BRIG_API const struct brig_result *brig_run_result(const struct brig_run *run);

/* Free the run and everything it owns. A run that is not over is ended at once with SIGKILL.
 *
 * In a fork of the process that started the run, this frees only the fork's copy, and the run
 * continues. A long-lived fork should call it: its copy holds the guest's stdin open. */
BRIG_API void brig_run_free(struct brig_run *run);

/* ---- templates ---------------------------------------------------------------------------- */

/* A template is a run whose guest, usually an interpreter, loads its modules and then forks itself
 * for other runs, its calls. Each call has its own cell, limits and streams (docs/TEMPLATES.md,
 * brig_template.h). */
struct brig_template;

/* Start a template. The caller owns both outputs: *out is freed with brig_template_free(), and *run
 * is stepped and freed like any other run. The calls end when that run ends. */
BRIG_API int brig_template_start(struct brig *brig, const struct brig_spec *spec,
                                 struct brig_template **out, struct brig_run **run,
                                 struct brig_error *err);

/* A file descriptor that is readable when the answer of brig_template_ready() may have changed.
 * Owned by the template. */
BRIG_API int brig_template_fd(const struct brig_template *template_);

/* Returns 1 if calls can be made, 0 if not yet, and -errno if the template ended before it was
 * ready. */
BRIG_API int brig_template_ready(struct brig_template *template_, struct brig_error *err);

/* Release the caller's reference. Specs that use the template hold references of their own. */
BRIG_API void brig_template_free(struct brig_template *template_);

/* Make runs of this spec calls of the template. The command of the spec only names the call in
 * results; the work itself is passed as input (brig_spec_give_input()) or on stdin. A call has the
 * view and the network of the template. brig_warm() with such a spec forks the template ahead. */
BRIG_API void brig_spec_set_template(struct brig_spec *spec, struct brig_template *template_);

/* ---- events ------------------------------------------------------------------------------- */

enum brig_event_type {
    BRIG_EVENT_STARTED,
    BRIG_EVENT_OUTPUT, /* a chunk of stdout or stderr, at most 64 KiB, no character split */
    BRIG_EVENT_USAGE,  /* a sample of the resource usage, once a second */
    BRIG_EVENT_LIMIT,  /* a limit was hit */
    BRIG_EVENT_ENDED,
};

struct brig_event {
    enum brig_event_type type;
    uint64_t sequence;         /* from 1, without gaps */
    uint64_t elapsed_ns;       /* monotonic time since the start */
    enum brig_stream stream;   /* OUTPUT */
    const unsigned char *data; /* OUTPUT; valid until the next step */
    size_t len;
    const char *limit; /* LIMIT: "timeout", "memory", "pids", "output", "cpu_time" */
    int pid;           /* STARTED: the guest's main process, in its own PID namespace */
    uint64_t memory_bytes, cpu_ns, pids; /* USAGE */
    uint64_t reserved[4];
};

/* Turn on usage samples and output events. Call it once, before the first step. */
BRIG_API void brig_run_watch(struct brig_run *run);

/* Fetch the next event of the last brig_run_step(). Returns 1 and fills *event, or 0 if there are
 * no more. Events that are not fetched are dropped by the next step. */
BRIG_API int brig_run_next_event(struct brig_run *run, struct brig_event *event);

/* A writer of events as NDJSON with a bounded queue. A reader that is slow, stuck or gone never
 * delays the run: the oldest lines are dropped, and a line in their place says how many. */
struct brig_event_log;

/* Create a log that writes to `fd` and queues at most `max_bytes`. `fd` stays the caller's. */
BRIG_API int brig_event_log_new(struct brig_event_log **out, int fd, size_t max_bytes,
                                struct brig_error *err);

/* Queue one event of the run. */
BRIG_API void brig_event_log_add(struct brig_event_log *log, const struct brig_run *run,
                                 const struct brig_event *event);

/* A file descriptor that is readable when brig_event_log_flush() can write more. The log owns it.
 */
BRIG_API int brig_event_log_fd(const struct brig_event_log *log);

/* Write as much as possible without blocking. Returns the number of bytes that are still queued. */
BRIG_API size_t brig_event_log_flush(struct brig_event_log *log);

/* The number of lines dropped so far because the reader was slow or gone. */
BRIG_API uint64_t brig_event_log_dropped(const struct brig_event_log *log);

/* Free the log; lines that are still queued are lost. */
BRIG_API void brig_event_log_free(struct brig_event_log *log);

/* ---- result ------------------------------------------------------------------------------- */

enum brig_status {
    BRIG_EXITED,
    BRIG_SIGNALED,
    BRIG_TIMEOUT,
    BRIG_MEMORY_LIMIT,
    BRIG_PIDS_LIMIT,
    BRIG_OUTPUT_LIMIT,
    BRIG_CPU_LIMIT,
    BRIG_CANCELLED,
    BRIG_ERROR,
};

#define BRIG_HINTS_MAX 8

/* The name of a status in JSON, "exited", "timeout", ... Static storage. */
BRIG_API const char *brig_status_name(enum brig_status status);

#define BRIG_UNLIMITED UINT64_MAX /* a limit that is not set */
#define BRIG_UNKNOWN   UINT64_MAX /* a counter that this host does not offer; null in JSON */

struct brig_output {
    bool captured;             /* the sink was capture */
    const unsigned char *data; /* the captured bytes; NULL if there are none */
    size_t len;
    uint64_t bytes;    /* delivered or kept; both streams together never exceed the limit */
    uint64_t omitted;  /* read from the guest and dropped */
    size_t omitted_at; /* the offset in `data` at which they are missing */
    bool truncated;    /* omitted > 0 */
    uint64_t redacted; /* the number of secrets that were hidden */
    int error;         /* the errno of a failed sink, 0 if it did not fail */
    uint64_t reserved[2];
};

/* The state of the result channel (key "channel"). From BRIG_CHANNEL_HALF on, the states are
 * faults, and the result has no output. */
enum brig_channel {
    BRIG_CHANNEL_OFF,
    BRIG_CHANNEL_SILENT, /* nothing was sent */
    BRIG_CHANNEL_SENT,   /* one complete result: brig_result.output */
    BRIG_CHANNEL_HALF,   /* the message is incomplete */
    BRIG_CHANNEL_JUNK,
    BRIG_CHANNEL_TWICE,
    BRIG_CHANNEL_TOO_LARGE,
    BRIG_CHANNEL_NOT_JSON,
    BRIG_CHANNEL_NO_MEMORY,
    BRIG_CHANNEL_WITHHELD, /* it could not be searched for secrets in time */
};

struct brig_usage {
    uint64_t wall_ns, cpu_user_ns, cpu_system_ns;
    uint64_t memory_peak_bytes, pids_peak, read_bytes, write_bytes; /* may be BRIG_UNKNOWN */
    uint64_t reserved[4];
};

struct brig_limits {
    uint64_t memory_bytes, pids, timeout_ns, kill_after_ns, cpu_time_ns, output_bytes, result_bytes,
        open_files, file_size_bytes; /* BRIG_UNLIMITED if not set */
    uint64_t milli_cpus;
    uint64_t reserved[8];
};

enum brig_layer_state {
    BRIG_LAYER_APPLIED,
    BRIG_LAYER_OFF,     /* turned off by the caller */
    BRIG_LAYER_MISSING, /* brig would have applied it but could not */
};

/* One layer of the isolation. */
struct brig_layer {
    const char *name;
    enum brig_layer_state state;
    const char *how; /* the mechanism, or the reason why the layer is absent */
    const void *reserved[2];
};

struct brig_isolation {
    const char *tier; /* "cell", or "degraded": no namespaces, landlock and seccomp only */
    const struct brig_layer *layers;
    size_t count;
    bool warm; /* the cell was built ahead: brig_warm() */
    uint64_t reserved[2];
};

struct brig_result {
    const char *id;
    enum brig_status status;
    int exit_code;     /* -1 if there is none */
    int signal;        /* 0 if there is none */
    const char *notes; /* NULL after a clean exit */
    /* At most BRIG_HINTS_MAX sentences, NULL-terminated: possible causes of a failure and possible
     * losses, from facts that brig is certain of. */
    const char *const *hints;
    struct brig_output out, err;
    enum brig_channel channel;
    const char *output; /* the JSON that the guest sent as its result; null if its length is 0 */
    size_t output_len;
    const char *output_fault; /* why there is no output, as a sentence, or NULL */
    struct brig_usage usage;
    struct brig_limits limits;
    struct brig_isolation isolation;
    int64_t started_at_ns, finished_at_ns; /* since the Unix epoch */
    const char *const *labels;             /* "K=V", NULL-terminated */
    const struct brig_error *error;        /* status BRIG_ERROR only */
    uint64_t reserved[16];
};

/* Write the result as a JSON object, schema "brig.result/1". The caller frees *out with
 * brig_free(). */
BRIG_API int brig_result_json(const struct brig_result *result, char **out, size_t *len,
                              struct brig_error *err);

/* Write the same object for a run that could not be started. The caller frees *out with
 * brig_free(). */
BRIG_API int brig_error_json(const struct brig_error *error, char **out, size_t *len,
                             struct brig_error *err);

/* The exit code by the conventions of a shell: the guest's own code; 124 for a timeout, 125 for an
 * error of brig, 128+N for signal N, 137 for other limits and a cancelled run. */
BRIG_API int brig_result_exit_code(const struct brig_result *result);

/* The exit code for an error: see enum brig_fault. */
BRIG_API int brig_error_exit_code(const struct brig_error *error);

/* ---- tools -------------------------------------------------------------------------------- */

/* A set of tools, read from a JSON file (docs/TOOLS.md, docs/tools.schema.json). A tool is a
 * command that other programs, for example agents, may call. It reads its arguments as a JSON
 * object from stdin and sends an envelope as its result:
 * {"status": "success"|"error", "output": ..., "error": ..., "metadata": {...}}. */
struct brig_tools;

struct brig_tool {
    const char *name, *title, *description;                 /* the last two may be NULL */
    const char *input_schema, *output_schema, *annotations; /* JSON; the last two may be NULL */
    const void *reserved[4];
};

/* Read the text of a tools file, at most BRIG_TOOLS_MAX bytes. `name` names the file in messages.
 * On -EINVAL, the message names the file, the tool and the key. The caller frees *out with
 * brig_tools_free(). */
#define BRIG_TOOLS_MAX (4u << 20)
BRIG_API int brig_tools_read(struct brig_tools **out, const char *text, size_t len,
                             const char *name, struct brig_error *err);
BRIG_API void brig_tools_free(struct brig_tools *tools);
BRIG_API size_t brig_tools_count(const struct brig_tools *tools);

/* The tool with this index; NULL if there is none. Owned by the tools. */
BRIG_API const struct brig_tool *brig_tools_get(const struct brig_tools *tools, size_t index);

/* The spec with which the tool is run, for brig_warm(); NULL if there is no such tool. Owned by the
 * tools. */
BRIG_API const struct brig_spec *brig_tools_spec(const struct brig_tools *tools, size_t index);

/* Lower the limits of all tools to the limits that were set in `spec`; defaults do not count. This
 * is for a program that offers the tools with maxima of its own. */
BRIG_API void brig_tools_bound(struct brig_tools *tools, const struct brig_spec *spec);

/* Keep the guests of all tools, and those of the spec `more` (may be NULL), from changing the
 * tools. This guards, as brig_spec_guard() does, the tools file at `path` (may be NULL), the
 * env_files of the tools, the directories of their commands, of the interpreters of their commands
 * and of the files that the commands and env name, and the directories of PATH if a program is
 * searched there. Refused if one of them cannot be guarded. */
BRIG_API int brig_tools_guard(struct brig_tools *tools, const char *path, struct brig_spec *more,
                              struct brig_error *err);

/* Check whether the tool could be run on this host. Nothing is started. */
BRIG_API int brig_tools_check(const struct brig_tools *tools, size_t index, struct brig *brig,
                              struct brig_error *err);

/* One call of a tool. */
struct brig_call;

/* Start a call. The arguments, a JSON object of at most BRIG_ARGS_MAX bytes, are checked against
 * the schema of the tool before anything is started; with a `len` of 0 they are {}. `id` names the
 * call; if it is NULL, an id is generated. `brig` and the tools must outlive the call. */
#define BRIG_ARGS_MAX (4u << 20)
BRIG_API int brig_call_start(struct brig *brig, const struct brig_tools *tools, const char *tool,
                             const char *args, size_t len, const char *id, struct brig_call **out,
                             struct brig_error *err);

/* Free the call and its run. A run that is not over is ended at once. */
BRIG_API void brig_call_free(struct brig_call *call);

/* The run of the call: step it, wait for it or cancel it. Owned by the call; do not free it. */
BRIG_API struct brig_run *brig_call_run(const struct brig_call *call);

/* The id of the call. Owned by the call. */
BRIG_API const char *brig_call_id(const struct brig_call *call);

struct brig_answer {
    bool ok;
    const char *output, *metadata; /* JSON, not NUL-terminated; NULL if absent */
    size_t output_len, metadata_len;
    const char *error; /* the failure as a sentence; NULL if ok */
    uint64_t reserved[4];
};

/* The answer of the tool; NULL until the run is over. Owned by the call. */
BRIG_API const struct brig_answer *brig_call_answer(struct brig_call *call);

/* Write the answer and the result of the run as a JSON object, schema "brig.call/1". -EINVAL until
 * the run is over. The caller frees *out with brig_free(). */
BRIG_API int brig_call_json(struct brig_call *call, char **out, size_t *len,
                            struct brig_error *err);

/* Write the same object for a call that could not be started. It is "denied" if the request was
 * malformed or refused. The caller frees *out with brig_free(). */
BRIG_API int brig_call_error_json(const char *tool, const char *id, const struct brig_error *error,
                                  char **out, size_t *len, struct brig_error *err);

/* ---- other -------------------------------------------------------------------------------- */

/* Write the plan of a run, as text or as JSON, without starting the run. The caller frees *out with
 * brig_free(). */
BRIG_API int brig_explain(struct brig *brig, const struct brig_spec *spec, bool json, char **out,
                          size_t *len, struct brig_error *err);

/* The fix for a host on which no cell can be built. `why` is the reason from brig_run_degraded() or
 * from a missing layer (brig_layer.how). Static storage. */
BRIG_API const char *brig_cell_fix(const char *why);

/* Make bytes of unknown origin safe for a terminal: control characters and invalid UTF-8 become
 * \xNN. Writes at most `size` bytes to `out`, including the closing NUL. */
BRIG_API void brig_escape(const char *bytes, size_t len, char *out, size_t size);

/* Return a copy of the text, NUL-terminated, in which secrets of the kinds that brig recognizes are
 * hidden. This is for messages of the program itself. The caller frees it with brig_free(). NULL if
 * memory is short. */
BRIG_API char *brig_redact(const char *text, size_t len);

/* Free memory that the library returned. */
BRIG_API void brig_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
