/* brig run: one command, its streams live or captured, its result as exit code, message and JSON.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
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

#define EVENTS_QUEUE     (4u << 20) /* bytes kept for a slow reader of --events */
#define EVENTS_LINGER_MS 1000       /* how long it may take to read the rest at the end */

/* What one `brig run` holds. */
struct session {
    struct run_options options;
    struct brig *brig;
    struct brig_run *run;
    struct brig_event_log *events;
    struct supervisor supervisor;
    int result_fd, events_fd;
};

static int open_targets(struct session *s, struct brig_error *err)
{
    int ret = 0;
    if (s->options.result)
        ret = target_open(s->options.result, "--result", &s->result_fd, err);
    if (ret == 0 && s->options.events)
        ret = target_open(s->options.events, "--events", &s->events_fd, err);
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

static int start(struct session *s, struct brig_error *err)
{
    int ret = open_targets(s, err);
    if (ret == 0)
        ret = choose_sinks(s, err);
    if (ret == 0)
        ret = supervise_prepare(&s->supervisor, err);
    if (ret == 0)
        ret = brig_open(&s->brig, err);
    if (ret == 0 && s->options.warm)
        ret = brig_warm(s->brig, s->options.spec, 1, err);
    if (ret == 0)
        ret = brig_start(s->brig, s->options.spec, &s->run, err);
    if (ret == 0 && s->options.warm)
        ret = brig_warm(s->brig, s->options.spec, 0, err); /* there is no next run */
    if (ret == 0 && s->events)
        brig_run_watch(s->run);
    return ret;
}

/* Give a slow reader a little time for the rest, and say what it never got. */
static void finish_events(struct session *s)
{
    uint64_t until = clock_now() + EVENTS_LINGER_MS * NS_PER_MS;
    while (s->events && brig_event_log_flush(s->events) && clock_now() < until) {
        struct pollfd ready = {.fd = brig_event_log_fd(s->events), .events = POLLIN};
        poll(&ready, 1, 50);
    }
    uint64_t dropped = s->events ? brig_event_log_dropped(s->events) : 0;
    if (dropped && !s->options.quiet)
        term_message("--events: %llu lines were dropped, its reader was too slow or gone",
                     (unsigned long long)dropped);
}

/* The layers that are missing, those with the same reason together. */
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
    term_message("%s; %s real, %s processor, %s memory at most, %llu bytes of output",
                 brig_status_name(result->status), wall, cpu, memory, (unsigned long long)output);
    show_missing(&result->isolation);
}

static int write_json(int fd, const char *what, char *text, size_t len)
{
    int ret = target_write(fd, text, len);
    brig_free(text);
    if (ret < 0)
        term_message("%s: cannot write the result: %s", what, error_text(-ret));
    return ret;
}

/* 0, or 125 if a result that was asked for could not be delivered. */
static int deliver(struct session *s, const struct brig_result *result,
                   const struct brig_error *failed)
{
    const int fds[] = {s->result_fd, s->options.json ? STDOUT_FILENO : -1};
    const char *const names[] = {"--result", "--json"};
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
            ret = write_json(fds[i], names[i], text, len);
        code = ret < 0 ? 125 : code;
    }
    return code;
}

/* Output that could not be delivered, but for a reader that went away because it had enough. */
static bool is_lost(const struct brig_output *output)
{
    return output->error && output->error != EPIPE;
}

/* Bytes that were replaced on their way to a file or a pipe: never without being told. */
static void show_redacted(const struct session *s, const struct brig_result *result)
{
    uint64_t count = result->out.redacted + result->err.redacted;
    if (count && !s->options.quiet && !s->options.json)
        term_message("%llu secret%s hidden in the output; --redact off passes it on as it is",
                     (unsigned long long)count, count == 1 ? " was" : "s were");
}

static int report(struct session *s)
{
    const struct brig_result *result = brig_run_result(s->run);
    if (!result)
        return 125;
    finish_events(s);
    if (result->notes && !s->options.quiet && !s->options.json)
        term_message("%s: %s", brig_status_name(result->status), result->notes);
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
        if (s->options.json || s->options.quiet) /* else the notes have said it */
            term_message("the output could not be kept: %s", error_text(error));
        return 125;
    }
    return brig_result_exit_code(result);
}

static int run_session(struct session *s)
{
    struct brig_error err;
    if (start(s, &err) < 0) {
        supervise_failed(&s->supervisor);
        term_error(&err);
        deliver(s, NULL, &err);
        return brig_error_exit_code(&err);
    }
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
        help_run(stdout);
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
