/* SPDX-License-Identifier: MIT */
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
#include "cli/target.h"
#include "cli/term.h"

#define STAGE "batch"

#define WARM_MOST    8
#define MISSES_MOST  16 /* runs in a row without a fitting warm cell, though some are ready */
#define GIVE_UP      (1 * NS_PER_S) /* for a stuck reader, after a second signal */
#define GIVE_UP_ONCE (5 * NS_PER_S) /* for a reader that takes no bytes, after the first signal */
#define MESSAGES_MS  1000           /* for all messages together: the runs have to wait meanwhile */
#define RESULTS_MAX  (SIZE_MAX / 4)
#define RESULTS_KEPT (1u << 20) /* the largest result buffer kept between rounds */
#define SKIP_MOST    256        /* finished lines skipped between two polls of the runs */

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
    cancel_all(b, "the batch could not continue");
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

/* --die-with-parent: end as if our parent had sent SIGTERM. */
static void parent_gone(struct batch *b)
{
    fd_close_at(&b->supervisor.parent);
    b->supervisor.orphaned = true;
    if (!b->supervisor.caught)
        b->supervisor.caught = SIGTERM;
    if (b->stop == BATCH_GOES_ON)
        b->stop = BATCH_SIGNAL;
    cancel_all(b, "the process that started brig is gone (--die-with-parent)");
}

/* Ctrl-Z: stop all runs together with this process. */
static void stop_together(struct batch *b)
{
    for (unsigned i = 0; i < b->jobs; i++) {
        if (b->slots[i].run)
            brig_run_pause(b->slots[i].run);
    }
    supervise_stop(SIGTSTP);
    for (unsigned i = 0; i < b->jobs; i++) {
        if (b->slots[i].run)
            brig_run_resume(b->slots[i].run);
    }
}

/* SIGUSR1 and SIGUSR2 change the number of parallel jobs in similar programs; here they print a
 * message. */
static void read_other_signals(struct batch *b)
{
    struct signalfd_siginfo info;
    while (read(b->other_signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTSTP) {
            stop_together(b);
            continue;
        }
        term_message("SIG%s: the number of parallel jobs cannot be changed while the batch runs; "
                     "end it and start it again with --resume and another --jobs",
                     signal_name((int)info.ssi_signo));
    }
}

static int catch_other_signals(struct batch *b, struct brig_error *err)
{
    sigset_t set;
    struct sigaction now;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    if (sigaction(SIGTSTP, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaddset(&set, SIGTSTP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    b->other_signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (b->other_signals < 0)
        return error_system(err, STAGE, errno, "signalfd: %s", error_text(errno));
    return 0;
}

/* ---- results ------------------------------------------------------------------------------- */

/* False for a job that was cancelled because the batch ended: it is not added to the journal, and
 * --resume runs it again. */
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

/* Deliver the result of a job that could not be started, with secrets in its text hidden. The
 * journal records it only if the line itself is at fault: a fault of this host may be gone in the
 * next run. */
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

/* Write the results of this round: first sync the journal, then print them. */
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

/* Warm cells are built for the shape of most jobs. That shape is guessed: if many jobs in a row
 * found no fitting cell although some were ready, the cells are built for the last of them. */
static void keep_warm(struct batch *b, struct brig_spec *spec)
{
    brig_spec_free(b->warm);
    b->warm = spec;
    b->misses = 0;
    if (brig_warm(b->brig, spec, b->jobs < WARM_MOST ? b->jobs : WARM_MOST, NULL) < 0)
        b->warm_fails = true; /* a run reports the reason, if it matters */
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

/* Takes ownership of the spec. */
static void choose_warm(struct batch *b, struct brig_spec *spec)
{
    bool first = b->runs == 1; /* and perhaps the only one */
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

/* No job may change the journal and the results, nor its env_file, which later jobs may use too. */
static int guard_records(const struct batch *b, struct brig_spec *spec, struct brig_error *err)
{
    int ret = target_guard(STDOUT_FILENO, spec, err);
    if (ret == 0 && b->journal.fd >= 0)
        ret = target_guard(b->journal.fd, spec, err);
    return ret == 0 ? brig_spec_guard(spec, NULL, err) : ret;
}

static void start_job(struct batch *b, const struct job *job, struct brig_spec *spec)
{
    struct batch_slot *slot = free_slot(b);
    struct brig_error err;
    if (!slot) /* cannot happen: a line is taken only if a slot is free */
        error_system(&err, STAGE, EBUSY, "no free slot for a job");
    if (!slot || guard_records(b, spec, &err) < 0 ||
        brig_start(b->brig, spec, &slot->run, &err) < 0) {
        term_advise(&err, "\"isolation\": \"auto\" in the job or in the file of --spec");
        deliver_error(b, job, &err);
        brig_spec_free(spec);
        return;
    }
    slot->job = *job;
    if (brig_run_degraded(slot->run) && !b->told_degraded) {
        b->told_degraded = true; /* one warning for all jobs; each result repeats it */
        term_degraded(brig_run_degraded(slot->run));
    }
    b->progress.running++;
    count_start(b, slot->run);
    if (brig_run_step(slot->run))
        end_run(b, slot);
    choose_warm(b, spec);
}

/* The journal belongs to another input. */
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

/* Returns false if there was nothing to do. */
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

/* Start at most one job, so that the runs are polled between any two starts. */
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

enum { POLL_SIGNALS, POLL_OTHER, POLL_PARENT, POLL_INPUT, POLL_OUTPUT, POLL_RUNS };

/* After a signal, wait for the reader of the results as long as it takes some. */
static void watch_reader(struct batch *b)
{
    if (b->stop != BATCH_SIGNAL || !output_pending(&b->output) ||
        (b->give_up_ns && b->taken == b->output.total))
        return;
    b->give_up_ns = clock_now() + GIVE_UP_ONCE;
    b->taken = b->output.total;
}

static bool is_over(struct batch *b)
{
    if (b->progress.running > 0)
        return false;
    watch_reader(b);
    if (b->stop == BATCH_BROKEN || (b->give_up_ns && clock_now() > b->give_up_ns))
        return true;
    return (b->stop || b->input_ended) && !output_pending(&b->output);
}

static void wait_for_something(struct batch *b)
{
    struct pollfd *polls = b->polls;
    int timeout = progress_draw(&b->progress);
    bool free_again = b->held_up && !output_is_full(&b->output); /* the last flush made room */
    if (b->more || free_again)
        timeout = 0;
    else if (b->give_up_ns && (timeout < 0 || timeout > 50))
        timeout = 50;
    polls[POLL_SIGNALS] = (struct pollfd){.fd = b->supervisor.signals, .events = POLLIN};
    polls[POLL_OTHER] = (struct pollfd){.fd = b->other_signals, .events = POLLIN};
    polls[POLL_PARENT] = (struct pollfd){.fd = b->supervisor.parent, .events = POLLIN};
    polls[POLL_INPUT] = (struct pollfd){.fd = b->wants_input ? b->lines.fd : -1, .events = POLLIN};
    polls[POLL_OUTPUT] = (struct pollfd){
        .fd = b->stop == BATCH_BROKEN ? -1 : output_fd(&b->output),
        .events = output_pending(&b->output) ? POLLOUT : 0,
    };
    for (unsigned i = 0; i < b->jobs; i++)
        polls[POLL_RUNS + i] = (struct pollfd){
            .fd = b->slots[i].run ? brig_run_fd(b->slots[i].run) : -1, .events = POLLIN};
    if (poll(polls, POLL_RUNS + b->jobs, timeout) < 0) {
        /* poll() failed, for example for want of memory: check everything after a pause. */
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
        if (b->polls[POLL_PARENT].revents)
            parent_gone(b);
        if (b->polls[POLL_INPUT].revents)
            fill(b);
        step_all(b);
        /* Detects a closed reader before there is output to write. */
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
    term_hurry(MESSAGES_MS);
    int ret = supervise_prepare(&b->supervisor, err);
    if (ret == 0 && b->die_with_parent)
        ret = supervise_parent(&b->supervisor, err);
    if (ret == 0)
        ret = catch_other_signals(b, err);
    if (ret == 0)
        ret = brig_open(&b->brig, err);
    return ret;
}

static void tell_end(struct batch *b)
{
    char line[PROGRESS_SIZE];
    struct brig_error err;
    if (b->journal.fd >= 0 && !target_is_kept(b->journal.fd)) {
        error_refused(&err, STAGE, "--resume: %.200s: was removed or replaced while the batch ran",
                      b->journal.path);
        break_off(b, &err);
    }
    progress_clear(&b->progress);
    progress_summary(&b->progress, clock_now(), line);
    if (!b->quiet)
        term_message("%s", line);
    if (b->verbose)
        term_message("%" PRIu64 " of %" PRIu64 " runs were warm", b->warm_runs, b->runs);
    if (!b->quiet && b->journal.fd >= 0 && b->stop && b->stop != BATCH_BROKEN)
        term_message("to run the remaining jobs, repeat the command with --resume %s",
                     b->journal.path);
}

int batch_run(struct batch *b)
{
    struct brig_error err;
    if (prepare(b, &err) < 0) {
        term_error(&err);
        return brig_error_exit_code(&err);
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
    supervise_failed(&b->supervisor); /* ends leftovers: no run is alive here */
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
