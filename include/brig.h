/* brig: run one command as if it will misbehave.
 *
 * This header is the whole public interface of libbrig and the authority on it.
 *
 *     spec ──► plan ──► run ──► result
 *
 * A *spec* says what to run and its limits. brig_start() compiles it to a plan, starts it and gives
 * a *run*: one pollable descriptor and three verbs (step, wait, cancel). When the whole process
 * tree of the run is gone there is a *result*.
 *
 * Rules that hold for every function here:
 *  - Functions that can fail return 0 or a negative errno and take a `struct brig_error *` last,
 *    which may be NULL. Outputs are untouched on failure.
 *  - A fault of brig, or of the request, is an error. Whatever the guest does is a result.
 *  - Destructors accept NULL.
 *  - The library never logs, prints, exits, installs signal handlers, starts threads (but for the
 * one of brig_warm()) or keeps global state. Different handles may be used from different threads
 * at the same time; one handle must not be used by two threads at once.
 *  - What was asked for by name and cannot be enforced is refused. brig's own defaults may degrade,
 *    and then the result says so.
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

/* Version of the library, "MAJOR.MINOR.PATCH". */
BRIG_API const char *brig_version(void);

/* ---- errors ------------------------------------------------------------------------------- */

/* Whose fault it is; the command line turns it into an exit code. */
enum brig_fault {
    BRIG_FAULT_NONE,
    BRIG_FAULT_USAGE,          /* the request is malformed: exit 2 */
    BRIG_FAULT_REFUSED,        /* well-formed, but cannot be enforced or is not allowed here: 125 */
    BRIG_FAULT_SYSTEM,         /* a system call of the set-up failed: 125 */
    BRIG_FAULT_NOT_EXECUTABLE, /* the command exists and cannot be executed: 126 */
    BRIG_FAULT_NOT_FOUND,      /* there is no such command: 127 */
};

struct brig_error {
    enum brig_fault fault;
    int errnum;        /* the errno behind it, 0 if there is none */
    const char *stage; /* static string: "spec", "plan", "cgroup", "spawn", "exec", ... */
    char text[512];    /* one line for a person; printable UTF-8, control characters escaped */
};

/* ---- the keys of a spec ------------------------------------------------------------------- */

enum brig_key_type {
    BRIG_TYPE_SIZE,     /* bytes: 512M, 2G; JSON number or string */
    BRIG_TYPE_DURATION, /* 500ms 30s 5m 1h30m; bare: seconds */
    BRIG_TYPE_COUNT,    /* a whole number above 0 */
    BRIG_TYPE_CPUS,     /* processors: 0.5, 1, 2.25 */
    BRIG_TYPE_CHOICE,   /* one of `choices` */
    BRIG_TYPE_PATH,
    BRIG_TYPE_TEXT,
    BRIG_TYPE_LIST, /* may be given many times */
    BRIG_TYPE_MAP,  /* NAME=VALUE, may be given many times; an object in JSON */
};

/* One row per setting. The command line, the JSON spec, the manual and the completions are all made
 * from this table. */
struct brig_key {
    const char *name;   /* in JSON, in Python and, with '-' for '_', on the command line */
    const char *option; /* the long option without its dashes */
    char letter;        /* the short option or 0 */
    enum brig_key_type type;
    const char *argument; /* what stands for the value in the help */
    const char *initial;  /* the default as text; NULL: not set (inherited or empty) */
    const char *choices;  /* "a|b|c" for BRIG_TYPE_CHOICE */
    const char *help;     /* one line */
    const char *detail;   /* further sentences for the manual, or NULL */
    bool limit;           /* may be set by a job's own metadata and bounded by the operator */
    bool unlimited;       /* takes the word "unlimited" */
};

/* The table, *count rows. Static storage. */
BRIG_API const struct brig_key *brig_keys(size_t *count);

/* ---- spec --------------------------------------------------------------------------------- */

/* Where a value came from. A value replaces only one of the same or a lower origin, so the order of
 * the calls does not matter; lists grow in the order of the calls. */
enum brig_origin {
    BRIG_FROM_DEFAULT,
    BRIG_FROM_SPEC,        /* a spec file */
    BRIG_FROM_METADATA,    /* the job's own metadata */
    BRIG_FROM_ENVIRONMENT, /* a BRIG_* variable */
    BRIG_FROM_OPTION,      /* the caller, by name */
};

struct brig_spec;

BRIG_API int brig_spec_new(struct brig_spec **out, struct brig_error *err);
BRIG_API void brig_spec_free(struct brig_spec *spec);

/* A spec of its own with the same values. */
BRIG_API int brig_spec_copy(const struct brig_spec *spec, struct brig_spec **out,
                            struct brig_error *err);

/* The value of a key that is no list, as text; NULL: it has none. Free with brig_free(). */
BRIG_API char *brig_spec_get(const struct brig_spec *spec, const char *key);

/* Set a limit to less than it is, for somebody who may not ask for more: a value over the one that
 * the spec has is refused, with both numbers. */
BRIG_API int brig_spec_lower(struct brig_spec *spec, const char *key, const char *value,
                             const char *where, struct brig_error *err);

/* Set one key from its text form. `where` names the place in messages ("--memory", "BRIG_MEMORY",
 * "spec.json: memory"); NULL: the key's own name. -EINVAL: unknown key or bad value. */
BRIG_API int brig_spec_set(struct brig_spec *spec, const char *key, const char *value,
                           enum brig_origin origin, const char *where, struct brig_error *err);

/* Read a JSON object with the keys of the table and "command" (an array of strings). At most
 * BRIG_SPEC_MAX bytes; unknown keys, duplicate keys and trailing text are refused, and a refused
 * text changes nothing. `name` stands for the text in messages. */
#define BRIG_SPEC_MAX (1u << 20)
BRIG_API int brig_spec_read_json(struct brig_spec *spec, const char *text, size_t len,
                                 const char *name, struct brig_error *err);

/* Read limits from a job's own metadata: any JSON object; the members of its "limits" object are
 * keys of the table that are limits, everything else in it is the job's own and is ignored. */
BRIG_API int brig_spec_read_metadata(struct brig_spec *spec, const char *text, size_t len,
                                     const char *name, struct brig_error *err);

/* What to run; replaces an earlier one. The strings are copied. */
BRIG_API int brig_spec_set_command(struct brig_spec *spec, const char *const *argv, size_t argc,
                                   struct brig_error *err);

enum brig_stream { BRIG_STDIN = 0, BRIG_STDOUT = 1, BRIG_STDERR = 2 };

/* What becomes of a stream of the guest. The default is capture for stdout and stderr. */
enum brig_sink {
    BRIG_SINK_CAPTURE, /* kept in the result, up to the output budget */
    BRIG_SINK_PASS, /* relayed to `fd` as it comes; a slow reader slows the guest, not its clocks */
    BRIG_SINK_DISCARD, /* counted and dropped */
};

/* `fd` stays the caller's and must outlive the run. */
BRIG_API int brig_spec_set_sink(struct brig_spec *spec, enum brig_stream stream,
                                enum brig_sink sink, int fd, struct brig_error *err);

/* Feed the guest's stdin from `fd` through a pipe (the guest never gets `fd` itself). Without it,
 * and without the key "stdin", stdin is empty. `fd` stays the caller's and must outlive the run;
 * -1 takes it back. */
BRIG_API int brig_spec_set_stdin(struct brig_spec *spec, int fd, struct brig_error *err);
/* The guest gets `fd` itself: a memory file that was made for it, and that nobody else uses. */
BRIG_API int brig_spec_give_stdin(struct brig_spec *spec, int fd, struct brig_error *err);
/* What a call of a template gets with its job, at most BRIG_INPUT_MAX bytes: sooner than it could
 * read them. They stay the caller's, and must be there until brig_start() returns; NULL takes them
 * back. A run that is no call is refused with them. */
#define BRIG_INPUT_MAX 16384
BRIG_API int brig_spec_give_input(struct brig_spec *spec, const void *bytes, size_t len,
                                  struct brig_error *err);

/* ---- host --------------------------------------------------------------------------------- */

/* What this process needs to start runs: the place for cgroups, the operator's maxima, the sealed
 * image of brig's init. Opening it also removes what killed supervisors left behind. */
struct brig;

BRIG_API int brig_open(struct brig **out, struct brig_error *err);
BRIG_API void brig_close(struct brig *brig);

/* Keep up to `cells` cells (at most 64) built ahead for runs like `spec`: brig_start() of a spec
 * with the same limits, view and network takes one, whatever its command, environment, streams,
 * timeouts and output limits are, and starts in a fraction of the time. Each is used once; a thread
 * of the library's own builds the next ones and removes what is over. Where none is ready, or none
 * fits, a run builds its own as always. 0 cells: no more for this spec; when
 * that returns, nothing of them and of the runs that are over is left. Else the first cell is built
 * before it returns; fails if none can be built here.
 *
 * What a process inherits (umask, priority, processors) a warm cell has from when it was built. */
BRIG_API int brig_warm(struct brig *brig, const struct brig_spec *spec, unsigned cells,
                       struct brig_error *err);
/* How many are ready for this spec. */
BRIG_API unsigned brig_warm_ready(struct brig *brig, const struct brig_spec *spec);

/* ---- run ---------------------------------------------------------------------------------- */

struct brig_run;
struct brig_result;

/* Compile the spec, check it against this host and start it. The spec may be freed afterwards; the
 * host must outlive the run. On failure nothing is left of the attempt. */
BRIG_API int brig_start(struct brig *brig, const struct brig_spec *spec, struct brig_run **out,
                        struct brig_error *err);

/* One descriptor that is readable when brig_run_step() has something to do. Owned by the run. */
BRIG_API int brig_run_fd(const struct brig_run *run);

/* Do what can be done without blocking. Returns 1 when the run is over, 0 while it goes on. */
BRIG_API int brig_run_step(struct brig_run *run);

/* Step until the run is over or `timeout_ms` passed (-1: no limit of its own; the run's own clocks
 * always apply). Returns 1 when the run is over, 0 if not. */
BRIG_API int brig_run_wait(struct brig_run *run, int timeout_ms);

/* End the run: SIGTERM to the tree, kill-after, SIGKILL. `why` goes into the notes, may be NULL. A
 * second call does not wait for kill-after. Harmless when the run is over. */
BRIG_API void brig_run_cancel(struct brig_run *run, const char *why);

/* Did it start from a cell that was built ahead? */
BRIG_API bool brig_run_was_warm(const struct brig_run *run);

/* The process id of brig's init for this run, in the caller's pid namespace. */
BRIG_API int brig_run_pid(const struct brig_run *run);

/* What the guest sent on its result channel (key "channel"), as soon as all of it is there; NULL
 * until then. How the run ends is not known yet, nor whether the guest would send more, which would
 * leave it without a result: whatever it does from here on, this is its output. Owned by the run. A
 * run that is freed after that is ended and removed by the thread of brig_warm(), where there is
 * one. */
BRIG_API const char *brig_run_answer(struct brig_run *run, size_t *len);

/* The result, NULL while the run goes on. Owned by the run. */
BRIG_API const struct brig_result *brig_run_result(const struct brig_run *run);

/* Ends the run if it still goes on (SIGKILL, at once) and frees everything of it. In a fork of the
 * process that started it, it frees what the fork has of it, and the run goes on: a fork that lives
 * should do so, since it holds the guest's stdin open. */
BRIG_API void brig_run_free(struct brig_run *run);

/* ---- templates ---------------------------------------------------------------------------- */

/* A template is a run whose guest, an interpreter mostly, loads what it needs and then forks itself
 * for other runs, its calls: each in a cell of its own, with its own limits and streams
 * (docs/TEMPLATES.md, brig_template.h). *run is that run, to be stepped and freed as any other; the
 * calls end with it. */
struct brig_template;
BRIG_API int brig_template_start(struct brig *brig, const struct brig_spec *spec,
                                 struct brig_template **out, struct brig_run **run,
                                 struct brig_error *err);
/* Readable when brig_template_ready() has something new to say. Owned by the template. */
BRIG_API int brig_template_fd(const struct brig_template *template_);
/* 1: calls can be made; 0: not yet; -errno: it has ended. */
BRIG_API int brig_template_ready(struct brig_template *template_, struct brig_error *err);
BRIG_API void brig_template_free(struct brig_template *template_);

/* Runs of this spec are calls of the template: its command is what they are called in results; what
 * they are to do is their input, or on their stdin. They have the template's view and network;
 * brig_warm() forks ahead. */
BRIG_API void brig_spec_set_template(struct brig_spec *spec, struct brig_template *template_);

/* ---- events ------------------------------------------------------------------------------- */

enum brig_event_type {
    BRIG_EVENT_STARTED,
    BRIG_EVENT_OUTPUT, /* a chunk of stdout or stderr, at most 64 KiB, characters whole */
    BRIG_EVENT_USAGE,  /* a sample, once a second */
    BRIG_EVENT_LIMIT,  /* a limit was hit */
    BRIG_EVENT_ENDED,
};

struct brig_event {
    enum brig_event_type type;
    uint64_t sequence;         /* from 1, without gaps */
    uint64_t elapsed_ns;       /* since the start, monotonic */
    enum brig_stream stream;   /* OUTPUT */
    const unsigned char *data; /* OUTPUT; valid until the next step */
    size_t len;
    const char *limit; /* LIMIT: "timeout", "memory", "pids", "output", "cpu_time" */
    int pid;           /* STARTED: the guest's main process, in its own pid namespace */
    uint64_t memory_bytes, cpu_ns, pids; /* USAGE */
};

/* The events of the last brig_run_step(), one per call: returns 1 and fills *event, or 0 when there
 * are no more. Who does not want them need not ask. Call brig_run_watch() once, before the first
 * step, to have usage samples and output events made at all. */
BRIG_API void brig_run_watch(struct brig_run *run);
BRIG_API int brig_run_next_event(struct brig_run *run, struct brig_event *event);

/* A writer of events as NDJSON with a bounded queue of its own. A reader that is slow, stuck or
 * gone never holds the run up: the oldest lines are dropped and a line says how many. */
struct brig_event_log;
BRIG_API int brig_event_log_new(struct brig_event_log **out, int fd, size_t max_bytes,
                                struct brig_error *err);
BRIG_API void brig_event_log_add(struct brig_event_log *log, const struct brig_run *run,
                                 const struct brig_event *event);
/* A descriptor that polls readable when brig_event_log_flush() can write more. */
BRIG_API int brig_event_log_fd(const struct brig_event_log *log);
/* Write what can be written now. Returns the number of bytes still queued. */
BRIG_API size_t brig_event_log_flush(struct brig_event_log *log);
/* Lines dropped so far, because the reader was slow or gone. */
BRIG_API uint64_t brig_event_log_dropped(const struct brig_event_log *log);
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

BRIG_API const char *brig_status_name(enum brig_status status);

#define BRIG_UNLIMITED UINT64_MAX /* a limit that is not set */
#define BRIG_UNKNOWN   UINT64_MAX /* a counter that this host does not offer; null in JSON */

struct brig_output {
    bool captured;             /* the sink was capture */
    const unsigned char *data; /* what was captured; NULL if that is nothing */
    size_t len;
    uint64_t bytes;    /* delivered or kept; both streams together never exceed the budget */
    uint64_t omitted;  /* read from the guest and dropped */
    size_t omitted_at; /* where in `data` they are missing */
    bool truncated;    /* omitted > 0 */
    uint64_t redacted; /* secrets that were hidden in it */
    int error;         /* errno of a sink that failed, 0 if none did */
};

/* What became of the result channel (key "channel"). */
enum brig_channel {
    BRIG_CHANNEL_OFF,
    BRIG_CHANNEL_SILENT, /* nothing was sent */
    BRIG_CHANNEL_SENT,   /* one whole result: `output` */
    BRIG_CHANNEL_HALF,   /* the rest are faults: there is no output */
    BRIG_CHANNEL_JUNK,
    BRIG_CHANNEL_TWICE,
    BRIG_CHANNEL_TOO_LARGE,
    BRIG_CHANNEL_NOT_JSON,
    BRIG_CHANNEL_NO_MEMORY,
    BRIG_CHANNEL_WITHHELD, /* it could not be looked at for secrets in time */
};

struct brig_usage {
    uint64_t wall_ns, cpu_user_ns, cpu_system_ns;
    uint64_t memory_peak_bytes, pids_peak, read_bytes, write_bytes; /* may be BRIG_UNKNOWN */
};

struct brig_limits {
    uint64_t memory_bytes, pids, timeout_ns, kill_after_ns, cpu_time_ns, output_bytes, result_bytes,
        open_files, file_size_bytes; /* BRIG_UNLIMITED where there is none */
    uint64_t milli_cpus;
};

enum brig_layer_state {
    BRIG_LAYER_APPLIED,
    BRIG_LAYER_OFF,     /* the caller asked for none of it */
    BRIG_LAYER_MISSING, /* brig would have applied it, and could not */
};

/* One layer of the isolation. */
struct brig_layer {
    const char *name;
    enum brig_layer_state state;
    const char *how; /* the mechanism, or the reason for its absence */
};

struct brig_isolation {
    const char *tier; /* "cell", or "degraded": no namespaces, landlock and seccomp only */
    const struct brig_layer *layers;
    size_t count;
    bool warm; /* the cell was built ahead */
};

struct brig_result {
    const char *id;
    enum brig_status status;
    int exit_code;     /* -1 if there is none */
    int signal;        /* 0 if there is none */
    const char *notes; /* NULL after a clean exit */
    struct brig_output out, err;
    enum brig_channel channel;
    const char *output; /* the JSON that the guest sent as its result; may be empty: null */
    size_t output_len;
    const char *output_fault; /* why there is none, as a sentence, or NULL */
    struct brig_usage usage;
    struct brig_limits limits;
    struct brig_isolation isolation;
    int64_t started_at_ns, finished_at_ns; /* since the epoch */
    const char *const *labels;             /* "K=V", NULL-terminated */
    const struct brig_error *error;        /* status BRIG_ERROR only */
};

/* The result as a JSON object, schema "brig.result/1". Free with brig_free(). */
BRIG_API int brig_result_json(const struct brig_result *result, char **out, size_t *len,
                              struct brig_error *err);

/* The JSON object of a run that could not be started. */
BRIG_API int brig_error_json(const struct brig_error *error, char **out, size_t *len,
                             struct brig_error *err);

/* What a shell would return for it: the guest's own code, 124, 125, 128+N, 137. */
BRIG_API int brig_result_exit_code(const struct brig_result *result);
BRIG_API int brig_error_exit_code(const struct brig_error *error);

/* ---- tools -------------------------------------------------------------------------------- */

/* What others may call, and how it is run: read from a JSON file (docs/TOOLS.md,
 * docs/tools.schema.json). A tool takes its arguments as a JSON object on stdin and gives an
 * envelope as its result:
 * {"status": "success"|"error", "output": ..., "error": ..., "metadata": {...}}. */
struct brig_tools;

struct brig_tool {
    const char *name, *title, *description;                 /* the last two may be NULL */
    const char *input_schema, *output_schema, *annotations; /* JSON; the last two may be NULL */
};

/* At most BRIG_TOOLS_MAX bytes. `name` stands for the file in messages. -EINVAL: the message names
 * file, tool and key. */
#define BRIG_TOOLS_MAX (4u << 20)
BRIG_API int brig_tools_read(struct brig_tools **out, const char *text, size_t len,
                             const char *name, struct brig_error *err);
BRIG_API void brig_tools_free(struct brig_tools *tools);
BRIG_API size_t brig_tools_count(const struct brig_tools *tools);
/* NULL if there are not that many. Owned by the tools. */
BRIG_API const struct brig_tool *brig_tools_get(const struct brig_tools *tools, size_t index);
/* What it is run as, for brig_warm(). */
BRIG_API const struct brig_spec *brig_tools_spec(const struct brig_tools *tools, size_t index);
/* Lower the limits of all tools to those that the spec sets by name: the most that whoever offers
 * them allows. */
BRIG_API void brig_tools_bound(struct brig_tools *tools, const struct brig_spec *spec);
/* Could it be run here and now? Nothing is started. */
BRIG_API int brig_tools_check(const struct brig_tools *tools, size_t index, struct brig *brig,
                              struct brig_error *err);

/* One call. The arguments (a JSON object, at most BRIG_ARGS_MAX bytes; none: {}) are checked
 * against the tool's schema before anything is started. `id` names the call, NULL: one is made up.
 * The tools must outlive the call. */
#define BRIG_ARGS_MAX (4u << 20)
struct brig_call;
BRIG_API int brig_call_start(struct brig *brig, const struct brig_tools *tools, const char *tool,
                             const char *args, size_t len, const char *id, struct brig_call **out,
                             struct brig_error *err);
/* Ends it if it still goes on. */
BRIG_API void brig_call_free(struct brig_call *call);
/* The run behind it, to be stepped, waited for, cancelled. Owned by the call. */
BRIG_API struct brig_run *brig_call_run(const struct brig_call *call);
BRIG_API const char *brig_call_id(const struct brig_call *call);

struct brig_answer {
    bool ok;
    const char *output, *metadata; /* JSON, not NUL-terminated; NULL: none */
    size_t output_len, metadata_len;
    const char *error; /* what went wrong, in words; NULL if ok */
};

/* NULL while the run goes on. Owned by the call. */
BRIG_API const struct brig_answer *brig_call_answer(struct brig_call *call);

/* The same with the result of the run, as a JSON object, schema "brig.call/1". */
BRIG_API int brig_call_json(struct brig_call *call, char **out, size_t *len,
                            struct brig_error *err);
/* That object for a call that could not be started: denied, if it is the caller's fault. */
BRIG_API int brig_call_error_json(const char *tool, const char *id, const struct brig_error *error,
                                  char **out, size_t *len, struct brig_error *err);

/* The plan of such a run, in words or as JSON, without starting anything. */
BRIG_API int brig_explain(struct brig *brig, const struct brig_spec *spec, bool json, char **out,
                          size_t *len, struct brig_error *err);

/* Write bytes of unknown origin so that a terminal takes no harm: control characters and bad UTF-8
 * become \xNN. At most `size` bytes with the closing NUL. */
BRIG_API void brig_escape(const char *bytes, size_t len, char *out, size_t size);

/* A text with the secrets that brig knows hidden, NUL-terminated, in new memory: free with
 * brig_free(). NULL without memory. For what a program says itself. */
BRIG_API char *brig_redact(const char *text, size_t len);

BRIG_API void brig_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
