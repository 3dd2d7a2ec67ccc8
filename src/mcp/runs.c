/* SPDX-License-Identifier: MIT */
/* The table of runs, and the requests that wait for them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "server.h"

#define PROGRESS_NS NS_PER_S
#define WARM_CELLS  2

/* ---- one run ------------------------------------------------------------------------------- */

struct run *run_new(const struct server *server)
{
    uint64_t random = 0;
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = clock_now();
    snprintf(run->id, sizeof run->id, "run-%016" PRIx64, random);
    run->file = run->input.read_end = run->input.write_end = -1;
    buf_init(&run->input.pending,
             2 * STDIN_MAX); /* sent bytes, and bytes that are not moved up yet */
    outlog_init(&run->log, server->options->keep);
    return run;
}

static void release(struct run *run)
{
    if (run->call)
        brig_call_free(run->call);
    else
        brig_run_free(run->run);
    run->call = NULL;
    run->run = NULL;
    input_done(&run->input);
    fd_close_at(&run->file);
}

void run_free(struct run *run)
{
    if (!run)
        return;
    release(run);
    outlog_done(&run->log);
    free(run->outcome.notes);
    strings_done(&run->outcome.hints);
    free(run->outcome.output);
    free(run->outcome.metadata);
    free(run->outcome.error);
    free(run);
}

void runs_step(struct server *server, struct run *run)
{
    struct brig_event event;
    if (run->over)
        return;
    int over = brig_run_step(run->run);
    while (brig_run_next_event(run->run, &event)) {
        if (event.type == BRIG_EVENT_OUTPUT)
            outlog_add(&run->log, event.stream, event.data, event.len);
    }
    if (!over)
        return;
    run->over = true;
    run->over_at = clock_now();
    server->running--;
    server->kept++;
    outcome_keep(run, brig_run_result(run->run));
    release(run);
}

/* ---- the table ----------------------------------------------------------------------------- */

bool runs_may_start(struct server *server, const struct ask *ask)
{
    struct brig_error err;
    char text[160];
    if (server->running >= server->options->max_runs) {
        snprintf(text, sizeof text,
                 "too many runs: %u are running, which is the maximum; wait for one to end "
                 "(poll_run), or end one (cancel_run)",
                 server->running);
        answer_error(server, ask, text);
        return false;
    }
    if (server->waiting >= WAITERS_MAX) {
        answer_error(server, ask, "too many requests wait already; ask again later");
        return false;
    }
    if (!server->brig && brig_open(&server->brig, &err) < 0) {
        answer_error(server, ask, err.text);
        return false;
    }
    return true;
}

void runs_add(struct server *server, struct run *run, const struct ask *ask, uint64_t yield_ns)
{
    run->started = clock_now();
    run->next = server->runs;
    server->runs = run;
    server->running++;
    server->counts.runs++;
    server->counts.warm += brig_run_was_warm(run->run);
    if (brig_run_degraded(run->run) && !server->told_degraded) {
        server->told_degraded = true;
        server->options->degraded(brig_run_degraded(run->run));
    }
    brig_run_watch(run->run);
    struct waiter *waiter = runs_wait(server, run, ask, 0, yield_ns);
    if (waiter)
        waiter->owner = true;
    else
        brig_run_cancel(run->run, NULL);
    if (!run->call && !server->warmed) {
        /* Cells are built ahead from the second run on: a session without runs costs nothing. On
         * failure, runs build their own cells. */
        server->warmed = true;
        brig_warm(server->brig, server->options->spec, WARM_CELLS, NULL);
    }
}

struct run *runs_find(const struct server *server, const char *id)
{
    struct run *run = server->runs;
    while (run && (strcmp(run->id, id) != 0 || !run->told))
        run = run->next;
    return run;
}

static bool is_waited_for(const struct server *server, const struct run *run)
{
    const struct waiter *waiter = server->waiters;
    while (waiter && waiter->run != run)
        waiter = waiter->next;
    return waiter;
}

/* Drop finished runs that no request waits for: those whose id the client does not know, those that
 * are too old, and the oldest one if there are too many. */
static void forget(struct server *server, uint64_t now)
{
    struct run **at = &server->runs;
    struct run **oldest = NULL;
    while (*at) {
        struct run *run = *at;
        if (run->over && !is_waited_for(server, run)) {
            if (!run->told || now - run->over_at >= KEPT_NS) {
                *at = run->next;
                server->kept--;
                run_free(run);
                continue;
            }
            if (!oldest || run->over_at < (*oldest)->over_at)
                oldest = at;
        }
        at = &run->next;
    }
    if (oldest && server->kept > KEPT_MAX) {
        struct run *run = *oldest;
        *oldest = run->next;
        server->kept--;
        run_free(run);
    }
}

/* ---- waiting requests ---------------------------------------------------------------------- */

struct waiter *runs_wait(struct server *server, struct run *run, const struct ask *ask,
                         uint64_t since, uint64_t wait_ns)
{
    struct waiter *waiter = server->waiting < WAITERS_MAX ? calloc(1, sizeof *waiter) : NULL;
    uint64_t now = clock_now();
    if (!waiter) {
        answer_error(server, ask, "too many requests wait already; ask again later");
        return NULL;
    }
    *waiter = (struct waiter){.ask = *ask,
                              .run = run,
                              .since = since,
                              .asked = now,
                              .until = now + wait_ns,
                              .progress_at = *ask->token ? now + PROGRESS_NS : UINT64_MAX};
    struct waiter **at = &server->waiters;
    while (*at)
        at = &(*at)->next;
    *at = waiter;
    server->waiting++;
    return waiter;
}

static void remove_waiter(struct server *server, struct waiter **at)
{
    struct waiter *waiter = *at;
    *at = waiter->next;
    server->waiting--;
    free(waiter);
}

static void tell_progress(struct server *server, struct waiter *waiter, uint64_t now)
{
    char text[128];
    if (now < waiter->progress_at || wire_is_full(&server->wire))
        return;
    snprintf(text, sizeof text, "runs for %" PRIu64 " s; %" PRIu64 " lines, %" PRIu64 " bytes",
             (now - waiter->run->started) / NS_PER_S, waiter->run->log.lines, waiter->run->log.end);
    rpc_progress(&server->wire, &waiter->ask, now - waiter->asked, text);
    waiter->progress_at = now + PROGRESS_NS;
}

void runs_answer(struct server *server)
{
    uint64_t now = clock_now();
    for (struct waiter **at = &server->waiters; *at;) {
        struct waiter *waiter = *at;
        if ((waiter->run->over || now >= waiter->until) && !wire_is_full(&server->wire)) {
            waiter->run->told = waiter->run->told || !waiter->run->over;
            answer_run(server, waiter);
            remove_waiter(server, at);
            continue;
        }
        tell_progress(server, waiter, now);
        at = &waiter->next;
    }
    forget(server, now);
}

void runs_cancel(struct server *server, const char *id)
{
    for (struct waiter **at = &server->waiters; *at; at = &(*at)->next) {
        struct waiter *waiter = *at;
        if (strcmp(waiter->ask.id, id) != 0)
            continue;
        if (waiter->owner && !waiter->run->over)
            brig_run_cancel(waiter->run->run, "the client cancelled the request");
        remove_waiter(server, at);
        return;
    }
}

bool runs_is_waiting(const struct server *server, const char *id)
{
    const struct waiter *waiter = server->waiters;
    while (waiter && strcmp(waiter->ask.id, id) != 0)
        waiter = waiter->next;
    return waiter;
}

uint64_t runs_next(const struct server *server)
{
    uint64_t next = UINT64_MAX;
    if (wire_is_full(&server->wire))
        return next; /* no answer can be sent before the client reads */
    for (const struct waiter *waiter = server->waiters; waiter; waiter = waiter->next) {
        uint64_t at = waiter->run->over ? 0 : waiter->until;
        at = at < waiter->progress_at ? at : waiter->progress_at;
        next = at < next ? at : next;
    }
    return next;
}

void runs_done(struct server *server)
{
    while (server->waiters)
        remove_waiter(server, &server->waiters);
    /* Cancel all runs before waiting for the first. */
    for (struct run *run = server->runs; run; run = run->next) {
        if (run->run) {
            brig_run_cancel(run->run, NULL);
            brig_run_cancel(run->run, NULL);
        }
    }
    while (server->runs) {
        struct run *run = server->runs;
        server->runs = run->next;
        run_free(run);
    }
}
