/* The event loop of a batch. */
#include "batch.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/signals.h"
#include "cli/term.h"

#define STAGE "batch"

#define WARM_MOST    8
#define MISSES_MOST  16             /* runs in a row that no cell fits, though some are ready */
#define GIVE_UP      (1 * NS_PER_S) /* for a stuck reader, when told to end twice */
#define RESULTS_MAX  (SIZE_MAX / 4)
#define RESULTS_KEPT (1u << 20) /* memory for the results of a round, when they are written */
#define SKIP_MOST    256        /* lines that are done already, between two looks at what runs */

/* ---- ending -------------------------------------------------------------------------------- */

static void cancel_all(struct batch *b, const char *why)
{
    for (unsigned i = 0; i < b->jobs; i++) {
        if (b->slots[i].run)
            brig_run_cancel(b->slots[i].run, why);
    }
}

static void break_off(struct batch *b, const struct brig_error *err)
{
    if (b->stop == BATCH_BROKEN)
        return;
    b->stop = BATCH_BROKEN;
    term_error(err);
    cancel_all(b, "the batch could not go on");
}

static void break_off_output(struct batch *b, int errnum)
{
    struct brig_error err;
    error_system(&err, STAGE, errnum, "stdout: cannot write the results: %s", error_text(errnum));
    break_off(b, &err);
}

static void read_signals(struct batch *b)
{
    struct signalfd_siginfo info;
    while (read(b->supervisor.signals, &info, sizeof info) == sizeof info) {
        char why[64];
        if (b->supervisor.caught || b->stop)
            b->give_up_ns = clock_now() + GIVE_UP;
        if (!b->supervisor.caught)
            b->supervisor.caught = (int)info.ssi_signo;
        if (b->stop == BATCH_GOES_ON)
            b->stop = BATCH_SIGNAL;
        snprintf(why, sizeof why, "brig got SIG%s", signal_name((int)info.ssi_signo));
        cancel_all(b, why);
    }
}

/* Those that change how many run at once in other programs of this kind. */
static void read_other_signals(struct batch *b)
{
    struct signalfd_siginfo info;
    while (read(b->other_signals, &info, sizeof info) == sizeof info)
        term_message("SIG%s: how many jobs run at once cannot be changed while they run; end the "
                     "batch and start it again with --resume",
                     signal_name((int)info.ssi_signo));
}

static int catch_other_signals(struct batch *b, struct brig_error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    b->other_signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (b->other_signals < 0)
        return error_system(err, STAGE, errno, "signalfd: %s", error_text(errno));
    return 0;
}

/* ---- results ------------------------------------------------------------------------------- */

/* A job that was cut short because the batch ended has no result of its own yet: a journal does not
 * have it, and it runs again. */
static bool is_final(const struct batch *b, const struct brig_result *result)
{
    bool cut = result && result->status == BRIG_CANCELLED && b->stop;
    return !(cut && b->journal.fd >= 0);
}

static void write_line(struct batch *b, const char *line, size_t len, bool final)
{
    struct brig_error err;
    int ret = b->journal.fd >= 0 && final ? journal_add(&b->journal, line, len, &err) : 0;
    if (ret < 0) {
        break_off(b, &err);
        return;
    }
    buf_add(&b->results, line, len);
    if (buf_failed(&b->results) < 0)
        break_off_output(b, ENOMEM);
}

static void deliver(struct batch *b, const struct job *job, bool ok, bool final, const char *text,
                    size_t text_len)
{
    size_t len = 0;
    autofree char *line = job_result(job, ok, b->journal.fd >= 0, text, text_len, &len);
    if (!line)
        break_off_output(b, ENOMEM);
    else if (b->stop != BATCH_BROKEN)
        write_line(b, line, len, final);
}

static void count_end(struct batch *b, bool ok, bool cancelled)
{
    b->progress.ok += ok;
    b->progress.cancelled += cancelled;
    b->progress.failed += !ok && !cancelled;
    if (ok || cancelled || !b->fail_fast || b->stop != BATCH_GOES_ON)
        return;
    b->stop = BATCH_FAILED;
    cancel_all(b, "another job of the batch failed (--fail-fast)");
}

/* What could not be started has a result as well. Whatever its text holds, secrets are hidden. A
 * journal has it only if it is the line's own fault: what this machine could not do now, it may
 * later. */
static void deliver_error(struct batch *b, const struct job *job, const struct brig_error *failed)
{
    struct brig_error shown = *failed, err;
    char *text = brig_redact(failed->text, strlen(failed->text));
    size_t len = 0;
    snprintf(shown.text, sizeof shown.text, "%s", text ? text : "out of memory");
    brig_free(text);
    text = NULL;
    if (brig_error_json(&shown, &text, &len, &err) < 0)
        break_off(b, &err);
    else
        deliver(b, job, false, failed->fault == BRIG_FAULT_USAGE, text, len);
    brig_free(text);
    count_end(b, false, false);
}

static void end_run(struct batch *b, struct batch_slot *slot)
{
    const struct brig_result *result = brig_run_result(slot->run);
    struct brig_error err;
    char *text = NULL;
    size_t len = 0;
    bool ok = result && result->status == BRIG_EXITED && result->exit_code == 0;
    bool cancelled = result && result->status == BRIG_CANCELLED && b->stop;
    if (!result || brig_result_json(result, &text, &len, &err) < 0) {
        if (!result)
            error_system(&err, STAGE, EIO, "a run ended without a result");
        break_off(b, &err);
    } else if (is_final(b, result)) {
        deliver(b, &slot->job, ok, true, text, len);
    }
    brig_free(text);
    brig_run_free(slot->run);
    slot->run = NULL;
    b->progress.running--;
    count_end(b, ok, cancelled);
}

/* What this round brought: first it is in the journal for good, then it is shown. */
static void flush(struct batch *b)
{
    struct brig_error err;
    if (b->stop == BATCH_BROKEN)
        return;
    if (b->journal.fd >= 0 && journal_sync(&b->journal, &err) < 0) {
        break_off(b, &err);
        return;
    }
    int ret = b->results.len ? output_add(&b->output, b->results.data, b->results.len) : 0;
    b->results.len = 0;
    if (b->results.size > RESULTS_KEPT) {
        buf_done(&b->results);
        buf_init(&b->results, RESULTS_MAX);
    }
    if (ret == 0)
        ret = output_flush(&b->output);
    if (ret < 0)
        break_off_output(b, -ret);
}

/* ---- starting ------------------------------------------------------------------------------ */

/* Cells are built ahead for the shape that most jobs have, as far as can be told from outside: if
 * many in a row found none that fits while some were ready, theirs is the one. */
static void keep_warm(struct batch *b, struct brig_spec *spec)
{
    brig_spec_free(b->warm);
    b->warm = spec;
    b->misses = 0;
    if (brig_warm(b->brig, spec, b->jobs < WARM_MOST ? b->jobs : WARM_MOST, NULL) < 0)
        b->warm_fails = true; /* a run tells why, if it matters */
}

static void count_start(struct batch *b, const struct brig_run *run)
{
    bool warm = brig_run_was_warm(run);
    b->runs++;
    b->warm_runs += warm;
    if (warm)
        b->misses = 0;
    else if (b->warm && brig_warm_ready(b->brig, b->warm) > 0)
        b->misses++;
}

/* Takes the spec. */
static void choose_warm(struct batch *b, struct brig_spec *spec)
{
    bool first = b->runs == 1; /* and maybe the only one */
    if (first || b->warm_fails || (b->warm && b->misses < MISSES_MOST)) {
        brig_spec_free(spec);
        return;
    }
    if (b->warm)
        brig_warm(b->brig, b->warm, 0, NULL);
    keep_warm(b, spec);
}

static struct batch_slot *free_slot(struct batch *b)
{
    for (unsigned i = 0; i < b->jobs; i++) {
        if (!b->slots[i].run)
            return &b->slots[i];
    }
    return NULL;
}

static void start_job(struct batch *b, const struct job *job, struct brig_spec *spec)
{
    struct batch_slot *slot = free_slot(b);
    struct brig_error err;
    if (!slot) /* a line is taken only if there is one */
        error_system(&err, STAGE, EBUSY, "more jobs than places for them");
    if (!slot || brig_start(b->brig, spec, &slot->run, &err) < 0) {
        deliver_error(b, job, &err);
        brig_spec_free(spec);
        return;
    }
    slot->job = *job;
    b->progress.running++;
    count_start(b, slot->run);
    if (brig_run_step(slot->run))
        end_run(b, slot);
    choose_warm(b, spec);
}

/* The journal is of another input. */
static void refuse_input(struct batch *b)
{
    struct brig_error err;
    journal_refuse(&b->journal, b->source.name, &err);
    break_off(b, &err);
}

static bool is_done(struct batch *b, const struct job *job)
{
    if (b->journal.fd < 0)
        return false;
    enum journal_state state = journal_follow(&b->journal, job->line, job->hash);
    if (state == JOURNAL_OTHER)
        refuse_input(b);
    return state != JOURNAL_TODO;
}

/* False if there was nothing to do for it. */
static bool begin_line(struct batch *b, enum lines_found found, const char *line, size_t len)
{
    struct job job = {.line = b->lines.number, .hash = b->lines.hash};
    struct brig_spec *spec = NULL;
    struct brig_error err;
    job_name(&job);
    if (is_done(b, &job))
        return false;
    if (found == LINES_TOO_LONG) {
        error_usage(&err, "job", "%.200s: line %" PRIu64 ": is longer than %u bytes",
                    b->source.name, job.line, LINES_LINE_MAX);
        deliver_error(b, &job, &err);
    } else if (job_read(&job, &b->source, line, len, &spec, &err) < 0) {
        deliver_error(b, &job, &err);
    } else {
        start_job(b, &job, spec);
    }
    return true;
}

/* One job, at most: what runs is looked after between any two. */
static void take_line(struct batch *b)
{
    bool begun = false;
    b->wants_input = b->more = false;
    for (int i = 0; i < SKIP_MOST && !begun; i++) {
        const char *line = NULL;
        size_t len = 0;
        b->more = false;
        b->held_up = output_is_full(&b->output);
        if (b->stop || b->progress.running >= b->jobs || b->held_up)
            return;
        enum lines_found found = lines_next(&b->lines, &line, &len);
        b->wants_input = found == LINES_WAIT;
        b->input_ended = found == LINES_END;
        b->more = found == LINES_LINE || found == LINES_TOO_LONG;
        if (b->input_ended && journal_follow_end(&b->journal) == JOURNAL_OTHER)
            refuse_input(b);
        if (!b->more)
            return;
        begun = begin_line(b, found, line, len);
    }
}

static void fill(struct batch *b)
{
    struct brig_error err;
    int ret = lines_fill(&b->lines);
    if (ret == 0)
        return;
    error_system(&err, STAGE, -ret, "%.200s: cannot be read: %s", b->source.name, error_text(-ret));
    break_off(b, &err);
}

/* ---- the loop ------------------------------------------------------------------------------ */

enum { POLL_SIGNALS, POLL_OTHER, POLL_INPUT, POLL_OUTPUT, POLL_RUNS };

static bool is_over(const struct batch *b)
{
    if (b->progress.running > 0)
        return false;
    if (b->stop == BATCH_BROKEN || (b->give_up_ns && clock_now() > b->give_up_ns))
        return true;
    return (b->stop || b->input_ended) && !output_pending(&b->output);
}

static void wait_for_something(struct batch *b)
{
    struct pollfd *polls = b->polls;
    int timeout = progress_draw(&b->progress);
    bool free_again = b->held_up && !output_is_full(&b->output); /* by what was flushed since */
    if (b->more || free_again)
        timeout = 0;
    else if (b->give_up_ns && (timeout < 0 || timeout > 50))
        timeout = 50;
    polls[POLL_SIGNALS] = (struct pollfd){.fd = b->supervisor.signals, .events = POLLIN};
    polls[POLL_OTHER] = (struct pollfd){.fd = b->other_signals, .events = POLLIN};
    polls[POLL_INPUT] = (struct pollfd){.fd = b->wants_input ? b->lines.fd : -1, .events = POLLIN};
    polls[POLL_OUTPUT] = (struct pollfd){
        .fd = b->stop == BATCH_BROKEN ? -1 : output_fd(&b->output),
        .events = output_pending(&b->output) ? POLLOUT : 0,
    };
    for (unsigned i = 0; i < b->jobs; i++)
        polls[POLL_RUNS + i] = (struct pollfd){
            .fd = b->slots[i].run ? brig_run_fd(b->slots[i].run) : -1, .events = POLLIN};
    if (poll(polls, POLL_RUNS + b->jobs, timeout) < 0) {
        /* No memory for it, say: look at everything a little later. */
        for (unsigned i = 0; i < POLL_RUNS + b->jobs; i++)
            polls[i].revents = i >= POLL_RUNS || i == POLL_SIGNALS ? POLLIN : 0;
        if (errno != EINTR)
            clock_sleep(10 * NS_PER_MS);
    }
}

static void step_all(struct batch *b)
{
    for (unsigned i = 0; i < b->jobs; i++) {
        if (b->slots[i].run && b->polls[POLL_RUNS + i].revents && brig_run_step(b->slots[i].run))
            end_run(b, &b->slots[i]);
    }
}

static void loop(struct batch *b)
{
    for (;;) {
        take_line(b);
        flush(b);
        if (is_over(b))
            return;
        wait_for_something(b);
        if (b->polls[POLL_SIGNALS].revents)
            read_signals(b);
        if (b->polls[POLL_OTHER].revents)
            read_other_signals(b);
        if (b->polls[POLL_INPUT].revents)
            fill(b);
        step_all(b);
        /* A reader that is gone is noticed before there is something to tell it. */
        if (b->polls[POLL_OUTPUT].revents & (POLLERR | POLLHUP))
            break_off_output(b, EPIPE);
    }
}

static int prepare(struct batch *b, struct brig_error *err)
{
    b->slots = calloc(b->jobs, sizeof *b->slots);
    b->polls = calloc(POLL_RUNS + b->jobs, sizeof *b->polls);
    buf_init(&b->results, RESULTS_MAX);
    if (!b->slots || !b->polls)
        return error_memory(err, STAGE);
    int ret = supervise_prepare(&b->supervisor, err);
    if (ret == 0)
        ret = catch_other_signals(b, err);
    if (ret == 0)
        ret = brig_open(&b->brig, err);
    return ret;
}

static void tell_end(struct batch *b)
{
    char line[PROGRESS_SIZE];
    progress_clear(&b->progress);
    progress_summary(&b->progress, clock_now(), line);
    if (!b->quiet)
        term_message("%s", line);
    if (b->verbose)
        term_message("%" PRIu64 " of %" PRIu64 " runs were warm", b->warm_runs, b->runs);
    if (!b->quiet && b->journal.fd >= 0 && b->stop && b->stop != BATCH_BROKEN)
        term_message("the rest runs with the same command: --resume %s", b->journal.path);
}

int batch_run(struct batch *b)
{
    struct brig_error err;
    if (prepare(b, &err) < 0) {
        term_error(&err);
        return 125;
    }
    b->progress.started_ns = clock_now();
    loop(b);
    if (b->warm)
        brig_warm(b->brig, b->warm, 0, NULL);
    tell_end(b);
    if (b->stop == BATCH_BROKEN)
        return 125;
    if (b->supervisor.caught)
        return 128 + b->supervisor.caught;
    return b->progress.failed || b->stop ? 1 : 0;
}

void batch_done(struct batch *b)
{
    for (unsigned i = 0; b->slots && i < b->jobs; i++)
        brig_run_free(b->slots[i].run);
    brig_spec_free(b->warm);
    brig_close(b->brig);
    supervise_failed(&b->supervisor); /* nothing of ours runs any more */
    supervise_done(&b->supervisor);
    fd_close_at(&b->other_signals);
    free(b->slots);
    free(b->polls);
    buf_done(&b->results);
    output_close(&b->output);
    journal_close(&b->journal);
    lines_done(&b->lines);
    free(b->source.defaults);
}
