/* brig run: one command, its streams live or captured, its result as exit code, message and JSON.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/signals.h"
#include "base/units.h"
#include "brig.h"
#include "commands.h"
#include "explain.h"
#include "help.h"
#include "options.h"
#include "target.h"
#include "term.h"

#define EVENTS_QUEUE     (4u << 20) /* bytes kept for a slow reader of --events */
#define ORPHAN_ROUNDS    1000
#define EVENTS_LINGER_MS 1000 /* how long it may take to read the rest at the end */

/* What one `brig run` holds. */
struct session {
    struct run_options options;
    struct brig *brig;
    struct brig_run *run;
    struct brig_event_log *events;
    int result_fd, events_fd, signals;
    bool alone;      /* we had no children when we started */
    char first[64];  /* those we had */
    int caught;      /* the first signal that told us to end */
    sigset_t before; /* the signals that our caller blocked */
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

static int catch_signals(struct session *s, struct brig_error *err)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction now;
        /* What our caller ignores (nohup) stays ignored. */
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, ends[i]);
    }
    /* A reader that goes away is an error of a write, not a reason to die without cleaning up. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, &s->before);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signals < 0)
        return error_system(err, "start", errno, "signalfd: %s", error_text(errno));
    return 0;
}

static int start(struct session *s, struct brig_error *err)
{
    s->alone = fd_read_file(AT_FDCWD, "/proc/thread-self/children", s->first, sizeof s->first) == 0;
    if (s->alone)
        prctl(PR_SET_CHILD_SUBREAPER, 1); /* see end_orphans() */
    int ret = open_targets(s, err);
    if (ret == 0)
        ret = choose_sinks(s, err);
    if (ret == 0)
        ret = catch_signals(s, err);
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

/* A guest that kills brig's init leaves its tree to us: no cgroup may be there to end it. We have
 * no other children by then. */
static void end_orphans(const struct session *s)
{
    if (!s->alone)
        return; /* born with children of our caller's, by an exec: those are not ours to end */
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (int round = 0; round < ORPHAN_ROUNDS; round++) {
        siginfo_t info;
        if (fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
            return;
        for (char *at = text; *at;) {
            long pid = strtol(at, &at, 10);
            at += *at == ' ';
            if (pid > 1)
                kill((pid_t)pid, SIGKILL);
        }
        poll(NULL, 0, 1);
        while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid) {
        }
    }
}

static void read_signals(struct session *s)
{
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == sizeof info) {
        char why[64];
        if (!s->caught)
            s->caught = (int)info.ssi_signo;
        snprintf(why, sizeof why, "brig got SIG%s", signal_name((int)info.ssi_signo));
        brig_run_cancel(s->run, why);
    }
}

static void log_events(struct session *s)
{
    struct brig_event event;
    while (s->events && brig_run_next_event(s->run, &event))
        brig_event_log_add(s->events, s->run, &event);
}

static void supervise(struct session *s)
{
    for (;;) {
        int over = brig_run_step(s->run);
        log_events(s);
        if (over)
            return;
        struct pollfd polls[] = {
            {.fd = brig_run_fd(s->run), .events = POLLIN},
            {.fd = s->signals, .events = POLLIN},
            {.fd = s->events ? brig_event_log_fd(s->events) : -1, .events = POLLIN},
        };
        if (poll(polls, 3, -1) < 0) {
            /* No memory for it, say: look again a little later. */
            for (size_t i = 0; i < 3; i++)
                polls[i].revents = polls[i].fd >= 0 ? POLLIN : 0;
            if (errno != EINTR)
                clock_sleep(10 * NS_PER_MS);
        }
        if (polls[1].revents)
            read_signals(s);
        if (polls[2].revents)
            brig_event_log_flush(s->events);
    }
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

static int report(struct session *s)
{
    const struct brig_result *result = brig_run_result(s->run);
    if (!result)
        return 125;
    finish_events(s);
    if (result->notes && !s->options.quiet && !s->options.json)
        term_message("%s: %s", brig_status_name(result->status), result->notes);
    if (s->options.verbose)
        show_usage(result);
    int code = deliver(s, result, NULL);
    if (code)
        return code;
    if (result->status == BRIG_CANCELLED && s->caught)
        return 128 + s->caught;
    if (result->status == BRIG_EXITED && (is_lost(&result->out) || is_lost(&result->err)))
        return 125;
    return brig_result_exit_code(result);
}

static int run_session(struct session *s)
{
    struct brig_error err;
    if (start(s, &err) < 0) {
        end_orphans(s);
        term_error(&err);
        deliver(s, NULL, &err);
        return brig_error_exit_code(&err);
    }
    supervise(s);
    end_orphans(s);
    /* The tree is gone: from here on a signal may end us, whoever does not read what we write; but
     * not one that was sent before. */
    read_signals(s);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    return report(s);
}

int cmd_run(int argc, char **argv)
{
    struct session s = {.result_fd = -1, .events_fd = -1, .signals = -1};
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
    fd_close_at(&s.signals);
    return code;
}
