/* SPDX-License-Identifier: MIT */
/* The built-in tools: run_command, run_code, poll_run, write_stdin, cancel_run.
 *
 * The agent's arguments are applied to a copy of the operator's spec, and can only lower its
 * limits. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"
#include "base/units.h"
#include "schemas.h"
#include "server.h"

#define STAGE     "arguments"
#define CODE_MAX  (1u << 20)
#define POLL_WAIT (10 * NS_PER_S)
#define SHOWN(t)  (int)text_cut(t, 80), t

/* ---- arguments ------------------------------------------------------------------------------ */

#define IS(type) (1u << (type))
#define TRUTH    (IS(JSONR_TRUE) | IS(JSONR_FALSE))

struct argument {
    const char *name;
    unsigned types;
    bool required;
};

static int check_arguments(const struct argument *known, const struct jsonr *args,
                           struct brig_error *err)
{
    for (const struct jsonr *m = args ? args->first : NULL; m; m = m->next) {
        const struct argument *a = known;
        while (a->name && strcmp(a->name, m->key) != 0)
            a++;
        if (!a->name)
            return error_usage(err, STAGE, "%.*s: no such argument", SHOWN(m->key));
        if (!(a->types & IS(m->type)))
            return error_usage(err, STAGE, "%s: has the wrong type", a->name);
    }
    for (const struct argument *a = known; a->name; a++) {
        if (a->required && !(args && jsonr_get(args, a->name)))
            return error_usage(err, STAGE, "%s: is missing", a->name);
    }
    return 0;
}

/* The argument, or a null value with an empty text if it is absent. */
static const struct jsonr *get(const struct jsonr *args, const char *name)
{
    static char empty[1];
    static const struct jsonr nothing = {.type = JSONR_NULL, .text = empty};
    const struct jsonr *value = args ? jsonr_get(args, name) : NULL;
    return value ? value : &nothing;
}

static bool is_given(const struct jsonr *value)
{
    return value->type != JSONR_NULL;
}

static bool is_true(const struct jsonr *args, const char *name)
{
    return get(args, name)->type == JSONR_TRUE;
}

/* Read a duration in seconds; 0 is allowed. */
static int read_wait(const struct jsonr *args, const char *name, uint64_t most, uint64_t *ns,
                     struct brig_error *err)
{
    char number[JSONR_NUMBER_SIZE], most_text[UNITS_TEXT_SIZE];
    const struct jsonr *value = get(args, name);
    const char *text = NULL;
    uint64_t asked = 0;
    if (!jsonr_scalar(value, &text, number))
        return 0;
    const char *why = strcmp(text, "0") == 0 ? NULL : units_parse_duration(text, &asked);
    if (why)
        return error_usage(err, STAGE, "%s: \"%.*s\" %s", name, SHOWN(text), why);
    units_format_duration(most, most_text);
    if (asked > most)
        return error_refused(err, STAGE, "%s: %.*s s is over the maximum of %s", name, SHOWN(text),
                             most_text);
    *ns = asked;
    return 0;
}

static int read_since(const struct jsonr *args, const struct run *run, uint64_t *since,
                      struct brig_error *err)
{
    const struct jsonr *value = get(args, "since");
    if (!is_given(value))
        return 0;
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(value->text, &end, 10);
    if (*end || errno || value->text[0] == '-' || number > run->log.end)
        return error_usage(
            err, STAGE, "since: %.*s is not an offset in the output, which has %llu bytes so far",
            SHOWN(value->text), (unsigned long long)run->log.end);
    *since = number;
    return 0;
}

/* ---- the job -------------------------------------------------------------------------------- */

/* The program with its arguments, and the bytes to send before its stdin. */
struct job {
    const char **argv;
    size_t argc;
    const char *before;
    size_t before_len;
    char dir[PATH_MAX];
    char number[32];
};

static void put(struct job *job, const char *word)
{
    job->argv[job->argc++] = word;
}

static int job_init(struct job *job, size_t words, struct brig_error *err)
{
    *job = (struct job){.argv = calloc(words + 8, sizeof *job->argv)};
    return job->argv ? 0 : error_memory(err, STAGE);
}

/* Resolve a directory inside the operator's work directory. The guest is confined by its view; this
 * check is for a clear message. The message is the same for every other path, so that an agent,
 * with a symlink that its guest made, cannot learn which files exist outside. */
static int find_dir(const struct server *server, const char *asked, char out[PATH_MAX],
                    struct brig_error *err)
{
    char path[PATH_MAX], found[PATH_MAX];
    size_t len = strlen(server->workdir);
    int n = *asked == '/' ? snprintf(path, sizeof path, "%s", asked)
                          : snprintf(path, sizeof path, "%s/%s", server->workdir, asked);
    bool inside = n < (int)sizeof path && realpath(path, found) &&
                  strncmp(found, server->workdir, len) == 0 &&
                  (!found[len] || found[len] == '/' || server->workdir[len - 1] == '/');
    if (!inside)
        return error_refused(err, STAGE,
                             "workdir: %.*s: is not a directory in the work directory %.*s",
                             SHOWN(asked), SHOWN(server->workdir));
    memcpy(out, found, strlen(found) + 1);
    return 0;
}

/* The spec keeps the operator's work directory, and a shell in the cell changes to the directory
 * that was asked for. The shell also searches PATH for the program: brig's own message for a
 * missing program would tell the agent about files outside the view. */
static int begin_command(const struct server *server, struct job *job, const struct jsonr *args,
                         bool shell, struct brig_error *err)
{
    const struct jsonr *workdir = get(args, "workdir");
    if (!is_given(workdir) && shell)
        return 0;
    int ret = is_given(workdir) ? find_dir(server, workdir->text, job->dir, err) : 0;
    if (ret < 0)
        return ret;
    put(job, "/bin/sh");
    put(job, "-c");
    put(job, is_given(workdir) ? "cd -- \"$1\" || exit 126; shift; exec \"$@\"" : "exec \"$@\"");
    put(job, "sh");
    if (is_given(workdir))
        put(job, job->dir);
    return 0;
}

static int set_environment(struct brig_spec *spec, const struct jsonr *args, struct brig_error *err)
{
    const struct jsonr *env = get(args, "env");
    int ret = 0;
    for (const struct jsonr *m = env->first; m && ret == 0; m = m->next) {
        autofree char *entry = NULL;
        if (m->type != JSONR_STRING || !*m->key || strchr(m->key, '='))
            return error_usage(err, STAGE, "env: \"%.*s\": %s", SHOWN(m->key),
                               m->type == JSONR_STRING ? "is not a name" : "is not a string");
        if (asprintf(&entry, "%s=%s", m->key, m->text) < 0) {
            entry = NULL;
            return error_memory(err, STAGE);
        }
        ret = brig_spec_set(spec, "env", entry, BRIG_FROM_OPTION, "env", err);
    }
    return ret;
}

static int set_stdin(struct run *run, struct brig_spec *spec, const struct job *job,
                     const struct jsonr *args, struct brig_error *err)
{
    const struct jsonr *text = get(args, "stdin");
    const char *const texts[] = {job->before, text->text};
    const size_t lens[] = {job->before_len, text->len};
    int ret = 0;
    if (!is_true(args, "stdin_open")) {
        if (lens[0] + lens[1] == 0)
            return 0;
        ret = input_file(texts, lens, 2, &run->file, err);
        return ret < 0 ? ret : brig_spec_set_stdin(spec, run->file, err);
    }
    ret = input_open(&run->input, err);
    for (size_t i = 0; i < 2 && ret == 0; i++)
        ret = lens[i] ? input_add(&run->input, texts[i], lens[i], err) : 0;
    input_flush(&run->input);
    return ret < 0 ? ret : brig_spec_set_stdin(spec, run->input.read_end, err);
}

static int fill_spec(const struct server *server, struct run *run, struct brig_spec *spec,
                     const struct job *job, const struct jsonr *args, struct brig_error *err)
{
    char number[JSONR_NUMBER_SIZE];
    const char *text;
    const struct jsonr *timeout = get(args, "timeout");
    int ret = brig_spec_set_command(spec, job->argv, job->argc, err);
    if (ret == 0 && jsonr_scalar(timeout, &text, number))
        ret = brig_spec_lower(spec, "timeout", text, "timeout", err);
    if (ret == 0)
        ret = set_environment(spec, args, err);
    /* The output is discarded here; the log is filled from its events. */
    if (ret == 0)
        ret = brig_spec_set_sink(spec, BRIG_STDOUT, BRIG_SINK_PASS, server->null, err);
    if (ret == 0)
        ret = brig_spec_set_sink(spec, BRIG_STDERR, BRIG_SINK_PASS, server->null, err);
    return ret == 0 ? set_stdin(run, spec, job, args, err) : ret;
}

static int start(struct server *server, const struct ask *ask, const struct job *job,
                 const struct jsonr *args, struct brig_error *err)
{
    struct brig_spec *spec = NULL;
    struct run *run = run_new(server);
    uint64_t yield = server->options->yield_ns;
    if (!run)
        return error_memory(err, STAGE);
    int ret = read_wait(args, "yield_seconds", server->options->yield_ns, &yield, err);
    if (ret == 0)
        ret = brig_spec_copy(server->options->spec, &spec, err);
    if (ret == 0)
        brig_spec_hide_host(spec);
    if (ret == 0)
        ret = fill_spec(server, run, spec, job, args, err);
    if (ret == 0)
        ret = brig_start(server->brig, spec, &run->run, err);
    if (ret == 0)
        runs_add(server, run, ask, yield);
    else
        run_free(run);
    brig_spec_free(spec);
    return ret;
}

/* ---- run_command, run_code ------------------------------------------------------------------ */

static int run_command(struct server *server, const struct ask *ask, const struct jsonr *args,
                       struct brig_error *err)
{
    const struct jsonr *command = get(args, "command");
    struct job job;
    int ret = job_init(&job, command->count, err);
    if (ret == 0)
        ret = begin_command(server, &job, args, command->type == JSONR_STRING, err);
    if (ret == 0 && command->type == JSONR_STRING) {
        put(&job, "/bin/sh");
        put(&job, "-c");
        put(&job, command->text);
    }
    for (const struct jsonr *m = command->first; m && ret == 0; m = m->next) {
        if (m->type != JSONR_STRING)
            ret = error_usage(err, STAGE, "command: has to be a string or an array of strings");
        put(&job, m->text);
    }
    if (ret == 0 && (command->type == JSONR_STRING ? !command->len : !command->count))
        ret = error_usage(err, STAGE, "command: is empty");
    if (ret == 0)
        ret = start(server, ask, &job, args, err);
    free(job.argv);
    return ret;
}

/* The code is not written to a file on the host. It comes on stdin, before the program's own input,
 * and is stored in the private /tmp of the run, so that error messages have line numbers. Imports
 * are searched in the work directory. */
#define TAKE_CODE                                                                                  \
    "f=${TMPDIR:-/tmp}/code; "                                                                     \
    "dd of=\"$f\" bs=\"$1\" count=1 iflag=fullblock status=none || exit 126; "

static const struct language {
    const char *name, *program, *script;
} languages[] = {
    {"python", "python3",
     TAKE_CODE "export PYTHONUNBUFFERED=1 PYTHONPATH=\"$PWD${PYTHONPATH:+:$PYTHONPATH}\"; "
               "exec python3 \"$f\""},
    {"bash", "bash", TAKE_CODE "exec bash \"$f\""},
    {"node", "node",
     TAKE_CODE
     "exec node -e 'const M = require(\"module\"), c = process.cwd(), n = c + \"/[code]\", "
     "m = new M(n); m.filename = n; m.paths = M._nodeModulePaths(c); "
     "m._compile(require(\"fs\").readFileSync(process.argv.pop(), \"utf8\"), n)' \"$f\""},
};
#define LANGUAGE_COUNT (sizeof languages / sizeof *languages)

static bool is_there(const char *program)
{
    const char *path = getenv("PATH");
    path = path && *path ? path : "/usr/local/bin:/usr/bin:/bin";
    while (*path) {
        char file[PATH_MAX];
        size_t len = strcspn(path, ":");
        int n = snprintf(file, sizeof file, "%.*s/%s", (int)len, path, program);
        if (len && n < (int)sizeof file && access(file, X_OK) == 0)
            return true;
        path += len + (path[len] == ':');
    }
    return false;
}

static int run_code(struct server *server, const struct ask *ask, const struct jsonr *args,
                    struct brig_error *err)
{
    const struct jsonr *name = get(args, "language"), *code = get(args, "code");
    const struct language *language = languages;
    const struct language *end = languages + LANGUAGE_COUNT;
    struct job job;
    while (language < end && strcmp(language->name, name->text) != 0)
        language++;
    if (language == end || !is_there(language->program))
        return error_usage(err, STAGE, "language: \"%.*s\" is not available", SHOWN(name->text));
    if (code->len == 0 || code->len > CODE_MAX)
        return error_usage(err, STAGE, "code: has to be 1 to %u bytes, but has %zu", CODE_MAX,
                           code->len);
    int ret = job_init(&job, 8, err);
    if (ret == 0)
        ret = begin_command(server, &job, args, true, err);
    if (ret == 0) {
        put(&job, "/bin/sh");
        put(&job, "-c");
        put(&job, language->script);
        put(&job, "sh");
        snprintf(job.number, sizeof job.number, "%zu", code->len);
        put(&job, job.number);
        job.before = code->text;
        job.before_len = code->len;
        ret = start(server, ask, &job, args, err);
    }
    free(job.argv);
    return ret;
}

/* ---- poll_run, write_stdin, cancel_run ------------------------------------------------------ */

static int find_run(struct server *server, const struct jsonr *args, struct run **out,
                    struct brig_error *err)
{
    const char *id = get(args, "run_id")->text;
    *out = runs_find(server, id);
    if (!*out)
        return error_usage(err, STAGE, "run_id: there is no run %.*s, or it ended long ago",
                           SHOWN(id));
    return 0;
}

/* The run to report, the offset in its output, and the time to wait. */
struct look {
    struct run *run;
    uint64_t since, wait;
};

static int read_look(struct server *server, const struct jsonr *args, uint64_t wait,
                     struct look *look, struct brig_error *err)
{
    uint64_t most = server->options->yield_ns;
    *look = (struct look){.wait = wait < most ? wait : most};
    int ret = find_run(server, args, &look->run, err);
    if (ret == 0)
        ret = read_since(args, look->run, &look->since, err);
    if (ret == 0)
        ret = read_wait(args, "wait_seconds", most, &look->wait, err);
    return ret;
}

static int poll_run(struct server *server, const struct ask *ask, const struct jsonr *args,
                    struct brig_error *err)
{
    struct look look;
    int ret = read_look(server, args, POLL_WAIT, &look, err);
    if (ret == 0)
        runs_wait(server, look.run, ask, look.since, look.wait);
    return ret;
}

static int write_stdin(struct server *server, const struct ask *ask, const struct jsonr *args,
                       struct brig_error *err)
{
    const struct jsonr *data = get(args, "data");
    struct look look;
    int ret = read_look(server, args, 0, &look, err);
    if (ret == 0 && look.run->over)
        ret = error_refused(err, STAGE, "the run is over");
    if (ret == 0)
        ret = input_add(&look.run->input, data->text, data->len, err);
    if (ret == 0) {
        look.run->input.closing = is_true(args, "close");
        input_flush(&look.run->input);
        runs_wait(server, look.run, ask, look.since, look.wait);
    }
    return ret;
}

static int cancel_run(struct server *server, const struct ask *ask, const struct jsonr *args,
                      struct brig_error *err)
{
    struct look look;
    int ret = read_look(server, args, server->options->yield_ns, &look, err);
    if (ret == 0 && !look.run->over)
        brig_run_cancel(look.run->run, "cancel_run was called");
    if (ret == 0)
        runs_wait(server, look.run, ask, look.since, look.wait);
    return ret;
}

/* ---- the table ------------------------------------------------------------------------------ */

#define RUN_ARGUMENTS                                                                              \
    {"workdir", IS(JSONR_STRING), false}, {"stdin", IS(JSONR_STRING), false},                      \
        {"stdin_open", TRUTH, false}, {"timeout", IS(JSONR_STRING) | IS(JSONR_NUMBER), false},     \
        {"env", IS(JSONR_OBJECT), false}, {"yield_seconds", IS(JSONR_NUMBER), false},              \
    {                                                                                              \
        NULL                                                                                       \
    }
#define SINCE_ARGUMENTS                                                                            \
    {"since", IS(JSONR_NUMBER), false}, {"wait_seconds", IS(JSONR_NUMBER), false},                 \
    {                                                                                              \
        NULL                                                                                       \
    }

static const struct builtin {
    const char *name, *title, *description, *input;
    bool starts, reads; /* `starts`: starts a run; `reads`: changes nothing */
    int (*call)(struct server *server, const struct ask *ask, const struct jsonr *args,
                struct brig_error *err);
    struct argument arguments[10];
} builtins[] = {
    {"run_command",
     "Run a command",
     "Run a shell command, or a program with its arguments, in a sandbox, and return its output "
     "and exit code. Files outside of the work directory are read-only or do not exist.",
     schema_command,
     true,
     false,
     run_command,
     {{"command", IS(JSONR_STRING) | IS(JSONR_ARRAY), true}, RUN_ARGUMENTS}},
    {"run_code",
     "Run code",
     "Run source code in a sandbox, and return its output.",
     schema_code,
     true,
     false,
     run_code,
     {{"language", IS(JSONR_STRING), true}, {"code", IS(JSONR_STRING), true}, RUN_ARGUMENTS}},
    {"poll_run",
     "Poll a run",
     "Return the output of a run since an earlier answer, and its result when it is over.",
     schema_poll,
     false,
     true,
     poll_run,
     {{"run_id", IS(JSONR_STRING), true}, SINCE_ARGUMENTS}},
    {"write_stdin",
     "Write to a run",
     "Send text to the stdin of a run that was started with stdin_open.",
     schema_write,
     false,
     false,
     write_stdin,
     {{"run_id", IS(JSONR_STRING), true},
      {"data", IS(JSONR_STRING), true},
      {"close", TRUTH, false},
      SINCE_ARGUMENTS}},
    {"cancel_run",
     "Cancel a run",
     "End a run with every process that it started, and return its result.",
     schema_cancel,
     false,
     false,
     cancel_run,
     {{"run_id", IS(JSONR_STRING), true}, {NULL}}},
};
#define BUILTIN_COUNT (sizeof builtins / sizeof *builtins)

bool builtin_has(const char *name)
{
    for (size_t i = 0; i < BUILTIN_COUNT; i++) {
        if (strcmp(builtins[i].name, name) == 0)
            return true;
    }
    return false;
}

bool builtin_call(struct server *server, const struct ask *ask, const char *name,
                  const struct jsonr *args)
{
    const struct builtin *b = builtins;
    struct brig_error err = {0};
    while (b < builtins + BUILTIN_COUNT && strcmp(b->name, name) != 0)
        b++;
    if (b == builtins + BUILTIN_COUNT)
        return false;
    if (check_arguments(b->arguments, args, &err) < 0)
        answer_error(server, ask, err.text);
    else if ((!b->starts || runs_may_start(server, ask)) && b->call(server, ask, args, &err) < 0)
        answer_refusal(server, ask, &err);
    return true;
}

static void write_input(struct jsonw *w, const struct builtin *b)
{
    char names[64] = "";
    for (size_t i = 0; i < LANGUAGE_COUNT; i++) {
        size_t used = strlen(names);
        if (is_there(languages[i].program))
            snprintf(names + used, sizeof names - used, "%s\"%s\"", used ? "," : "",
                     languages[i].name);
    }
    schema_put(w, "inputSchema", b->input, names);
}

void builtin_list(const struct server *server, struct jsonw *w)
{
    for (const struct builtin *b = builtins; b < builtins + BUILTIN_COUNT; b++) {
        jsonw_open(w, NULL, '{');
        jsonw_text(w, "name", b->name);
        jsonw_text(w, "title", b->title);
        jsonw_text(w, "description", b->description);
        write_input(w, b);
        schema_put(w, "outputSchema", schema_output, "");
        jsonw_open(w, "annotations", '{');
        jsonw_text(w, "title", b->title);
        jsonw_bool(w, "readOnlyHint", b->reads);
        jsonw_bool(w, "destructiveHint", !b->reads);
        jsonw_bool(w, "openWorldHint", b->starts && server->network);
        jsonw_close(w, '}');
        jsonw_close(w, '}');
    }
}
