/* SPDX-License-Identifier: MIT */
/* brig run: run one command with live or captured streams; report its result as exit code, message
 * and JSON. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/units.h"
#include "brig.h"
#include "commands.h"
#include "cmd_explain.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/supervise.h"
#include "cli/target.h"
#include "cli/term.h"

#define EVENTS_QUEUE     (4u << 20) /* bytes queued for a slow reader of --events */
#define EVENTS_LINGER_MS 1000       /* time to read the rest at the end */

/* The state of one `brig run`. */
struct session {
    struct run_options options;
    struct brig *brig;
    struct brig_run *run;
    struct brig_event_log *events;
    struct supervisor supervisor;
    int result_fd, events_fd;
    size_t hints_shown;
};

/* The guest must not be able to forge a result: a target must be neither its stdout or stderr nor a
 * file that it can write. */
static int open_target(struct session *s, const char *target, const char *option, int *fd,
                       struct brig_error *err)
{
    int ret = target_open(target, option, fd, err);
    for (int out = STDOUT_FILENO; ret == 0 && !s->options.json && out <= STDERR_FILENO; out++) {
        if (target_is_same(*fd, out))
            ret = error_usage(err, "command line",
                              "%s: %.80s: is also the command's %s; name a file or another file "
                              "descriptor (%s fd:3 3>FILE), or use --json",
                              option, target, out == STDOUT_FILENO ? "stdout" : "stderr", option);
    }
    if (ret < 0)
        fd_close_at(fd);
    return ret == 0 ? target_guard(*fd, s->options.spec, err) : ret;
}

static int open_targets(struct session *s, struct brig_error *err)
{
    int ret = 0;
    if (s->options.result)
        ret = open_target(s, s->options.result, "--result", &s->result_fd, err);
    if (ret == 0 && s->options.events)
        ret = open_target(s, s->options.events, "--events", &s->events_fd, err);
    if (ret == 0 && s->options.json)
        ret = target_guard(STDOUT_FILENO, s->options.spec, err);
    if (ret == 0 && s->options.events)
        ret = brig_event_log_new(&s->events, s->events_fd, EVENTS_QUEUE, err);
    return ret;
}

static int choose_sinks(struct session *s, struct brig_error *err)
{
    enum brig_sink sink = s->options.json ? BRIG_SINK_CAPTURE : BRIG_SINK_PASS;
    int ret = brig_spec_set_sink(s->options.spec, BRIG_STDOUT, sink, STDOUT_FILENO, err);
    if (ret == 0)
        ret = brig_spec_set_sink(s->options.spec, BRIG_STDERR, sink, STDERR_FILENO, err);
    return ret;
}

/* True for input that has an end: no terminal. /dev/null needs no stdin relay. */
static bool is_input(int fd)
{
    struct stat st;
    int type = 0, flags = fcntl(fd, F_GETFL);
    socklen_t len = sizeof type;
    if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_WRONLY || fstat(fd, &st) < 0)
        return false;
    if (S_ISSOCK(st.st_mode))
        return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM;
    return S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode);
}

/* A pipe or file on our stdin is passed to the command, unless the key "stdin" is set. */
static int choose_stdin(struct session *s, struct brig_error *err)
{
    char *named = brig_spec_get(s->options.spec, "stdin");
    bool pass = !named && is_input(STDIN_FILENO);
    brig_free(named);
    return pass ? brig_spec_set_stdin(s->options.spec, STDIN_FILENO, err) : 0;
}

static int start(struct session *s, struct brig_error *err)
{
    int ret = choose_stdin(s, err);
    if (ret == 0)
        ret = open_targets(s, err);
    if (ret == 0)
        ret = choose_sinks(s, err);
    if (ret == 0)
        ret = supervise_prepare(&s->supervisor, err);
    if (ret == 0 && s->options.die_with_parent)
        ret = supervise_parent(&s->supervisor, err);
    if (ret == 0)
        ret = brig_open(&s->brig, err);
    if (ret == 0 && s->options.warm)
        ret = brig_warm(s->brig, s->options.spec, 1, err);
    if (ret == 0)
        ret = brig_start(s->brig, s->options.spec, &s->run, err);
    if (ret == 0 && s->options.warm)
        ret = brig_warm(s->brig, s->options.spec, 0,
                        err); /* removes the next cell, which was built meanwhile */
    if (ret == 0 && s->events)
        brig_run_watch(s->run);
    return ret;
}

/* Give a slow reader some time for the rest, and report the lines that it missed. */
static void finish_events(struct session *s)
{
    uint64_t until = clock_now() + EVENTS_LINGER_MS * NS_PER_MS;
    while (s->events && brig_event_log_flush(s->events) && clock_now() < until) {
        struct pollfd ready = {.fd = brig_event_log_fd(s->events), .events = POLLIN};
        poll(&ready, 1, 50);
    }
    uint64_t dropped = s->events ? brig_event_log_dropped(s->events) : 0;
    if (dropped && !s->options.quiet)
        term_message("--events: %llu lines were dropped because the reader was too slow or gone",
                     (unsigned long long)dropped);
    if (s->events && !target_is_kept(s->events_fd))
        term_message("--events: the file was removed or replaced during the run");
}

/* Print the missing layers; those with the same reason share a line. */
static void show_missing(const struct brig_isolation *isolation)
{
    const struct brig_layer *layers = isolation->layers;
    for (size_t i = 0; i < isolation->count; i++) {
        char names[512];
        bool told = layers[i].state != BRIG_LAYER_MISSING;
        for (size_t j = 0; j < i && !told; j++)
            told = layers[j].state == BRIG_LAYER_MISSING && !strcmp(layers[j].how, layers[i].how);
        if (told)
            continue;
        size_t used = (size_t)snprintf(names, sizeof names, "%s", layers[i].name);
        for (size_t j = i + 1; j < isolation->count && used < sizeof names; j++) {
            if (layers[j].state == BRIG_LAYER_MISSING && !strcmp(layers[j].how, layers[i].how))
                used += (size_t)snprintf(names + used, sizeof names - used, ", %s", layers[j].name);
        }
        term_message("not enforced: %s: %s", names, layers[i].how);
    }
}

static void show_usage(const struct brig_result *result)
{
    char wall[UNITS_TEXT_SIZE], cpu[UNITS_TEXT_SIZE], memory[UNITS_TEXT_SIZE] = "unknown";
    const struct brig_usage *usage = &result->usage;
    uint64_t output = result->out.bytes + result->err.bytes;
    units_format_duration(usage->wall_ns, wall);
    units_format_duration(usage->cpu_user_ns + usage->cpu_system_ns, cpu);
    if (usage->memory_peak_bytes != BRIG_UNKNOWN)
        units_format_size(usage->memory_peak_bytes, memory);
    term_message("%s; %s wall time, %s CPU time, %s peak memory, %llu bytes of output",
                 brig_status_name(result->status), wall, cpu, memory, (unsigned long long)output);
    show_missing(&result->isolation);
}

static int write_json(int fd, const char *what, char *text, size_t len, uint64_t patience_ns)
{
    int ret = target_write(fd, text, len, patience_ns);
    brig_free(text);
    if (ret == 0 && !target_is_kept(fd)) {
        term_message("%s: the file was removed or replaced during the run", what);
        return -ENOENT;
    }
    if (ret < 0)
        term_message("%s: cannot write the result: %s", what, error_text(-ret));
    return ret;
}

/* Write the requested results. Returns 0, or 125 if one could not be delivered. */
static int deliver(struct session *s, const struct brig_result *result,
                   const struct brig_error *failed)
{
    const int fds[] = {s->result_fd, s->options.json ? STDOUT_FILENO : -1};
    const char *const names[] = {"--result", "--json"};
    uint64_t patience = supervise_patience(&s->supervisor, result ? result->limits.timeout_ns : 0);
    int code = 0;
    for (size_t i = 0; i < 2; i++) {
        struct brig_error err;
        char *text = NULL;
        size_t len = 0;
        if (fds[i] < 0)
            continue;
        int ret = result ? brig_result_json(result, &text, &len, &err)
                         : brig_error_json(failed, &text, &len, &err);
        if (ret < 0)
            term_error(&err);
        else
            ret = write_json(fds[i], names[i], text, len, patience);
        code = ret < 0 ? 125 : code;
    }
    return code;
}

/* True if output could not be delivered. A reader that closed its end early does not count. */
static bool is_lost(const struct brig_output *output)
{
    return output->error && output->error != EPIPE;
}

/* Report bytes that were replaced on their way to a file or a pipe. */
static void show_redacted(const struct session *s, const struct brig_result *result)
{
    uint64_t count = result->out.redacted + result->err.redacted;
    if (count && !s->options.quiet && !s->options.json)
        term_message("%llu secret%s hidden in the output; --redact off passes it on as it is",
                     (unsigned long long)count, count == 1 ? " was" : "s were");
}

/* Print the hints that are new since the last call. If stderr takes no output now they are skipped,
 * so as not to delay the run; the result has them too. */
static void show_hints(struct session *s, const char *what)
{
    const char *const *hints = brig_run_hints(s->run);
    for (; hints[s->hints_shown]; s->hints_shown++) {
        struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (!s->options.quiet && !s->options.json && poll(&ready, 1, 0) > 0)
            term_message("%s: %s", what, hints[s->hints_shown]);
    }
}

static int report(struct session *s)
{
    const struct brig_result *result = brig_run_result(s->run);
    if (!result)
        return 125;
    finish_events(s);
    if (result->notes && !s->options.quiet && !s->options.json)
        term_message("%s: %s", brig_status_name(result->status), result->notes);
    show_hints(s, "hint");
    show_redacted(s, result);
    if (s->options.verbose)
        show_usage(result);
    int code = deliver(s, result, NULL);
    if (code)
        return code;
    if (result->status == BRIG_CANCELLED && s->supervisor.caught)
        return 128 + s->supervisor.caught;
    if (result->status == BRIG_EXITED && (is_lost(&result->out) || is_lost(&result->err))) {
        int error = is_lost(&result->out) ? result->out.error : result->err.error;
        if (s->options.json || s->options.quiet) /* otherwise the notes have said so */
            term_message("the output could not be stored: %s", error_text(error));
        return 125;
    }
    return brig_result_exit_code(result);
}

static int run_session(struct session *s)
{
    struct brig_error err;
    if (start(s, &err) < 0) {
        supervise_failed(&s->supervisor);
        term_advise(&err, "--isolation auto");
        term_error(&err);
        deliver(s, NULL, &err);
        return brig_error_exit_code(&err);
    }
    show_hints(s, "warning");
    if (brig_run_degraded(s->run))
        term_degraded(brig_run_degraded(s->run));
    supervise_run(&s->supervisor, s->run, s->events);
    return report(s);
}

int cmd_run(int argc, char **argv)
{
    struct session s = {.supervisor = SUPERVISOR_NONE, .result_fd = -1, .events_fd = -1};
    struct brig_error err;
    int code = 0;
    if (options_read(&s.options, argc, argv, &err) < 0) {
        term_error(&err);
        return brig_error_exit_code(&err);
    }
    if (s.options.help)
        options_help(stdout);
    else if (s.options.dry_run)
        code = explain_spec(s.options.spec, s.options.json);
    else
        code = run_session(&s);
    brig_run_free(s.run);
    brig_close(s.brig);
    brig_event_log_free(s.events);
    options_done(&s.options);
    fd_close_at(&s.result_fd);
    fd_close_at(&s.events_fd);
    supervise_done(&s.supervisor);
    return code;
}
