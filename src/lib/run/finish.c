/* SPDX-License-Identifier: MIT */
/* Builds the result of a run from the recorded facts: usage, verdict, notes, hints and the guest's
 * answer. Called by run.c at the end of a run; only run_control.c calls finish_group() earlier. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/jsonscan.h"
#include "lib/plan/hints.h"
#include "lib/redact/redact_json.h"
#include "run.h"

#define NOTES_MAX 4096

/* The greatest nesting depth of a result that the guest sends. The result is embedded in other JSON
 * documents, which must stay within JSONSCAN_DEPTH_MAX. */
#define DEPTH_MAX (JSONSCAN_DEPTH_MAX - 16)

#define BLOCK 512 /* the unit of ru_inblock on every device */

static void fill_usage(struct brig_run *run, const struct group_counters *counters, uint64_t now)
{
    struct brig_usage *usage = &run->facts.usage;
    const struct init_report *gone = &run->seen.gone;
    bool told = run->seen.tree_gone;
    *usage = (struct brig_usage){
        .wall_ns = now - run->clocks.started,
        .cpu_user_ns = told ? gone->user_us * 1000 : run->seen.sampled_user,
        .cpu_system_ns = told ? gone->system_us * 1000 : run->seen.sampled_system,
        .memory_peak_bytes = counters->memory_peak,
        .pids_peak = counters->pids_peak,
        .read_bytes = told ? gone->blocks_in * BLOCK : BRIG_UNKNOWN,
        .write_bytes = told ? gone->blocks_out * BLOCK : BRIG_UNKNOWN,
    };
    /* The cgroup also counts the CPU time of processes that no parent waited for. */
    if (counters->cpu_user_ns != BRIG_UNKNOWN && counters->cpu_system_ns != BRIG_UNKNOWN) {
        usage->cpu_user_ns = counters->cpu_user_ns;
        usage->cpu_system_ns = counters->cpu_system_ns;
    }
    if (run->plan.use_group)
        return;
    /* The samples may have missed the peak of the tree; the largest process is a lower bound for
     * it. */
    uint64_t largest = told ? gone->max_rss_kib * 1024 : 0;
    usage->memory_peak_bytes = run->seen.peak_memory > largest ? run->seen.peak_memory : largest;
    usage->pids_peak = run->seen.peak_pids ? run->seen.peak_pids : BRIG_UNKNOWN;
}

static struct brig_output output_of(const struct pump_stream *s)
{
    return (struct brig_output){
        .captured = s->sink == BRIG_SINK_CAPTURE,
        .data = (const unsigned char *)s->capture.data,
        .len = s->capture.len,
        .bytes = s->bytes,
        .omitted = s->omitted,
        .omitted_at = s->omitted_at,
        .truncated = s->omitted > 0,
        .redacted = s->redactor ? redactor_count(s->redactor) : 0,
        .error = s->broken,
    };
}

static void reap_init(struct brig_run *run)
{
    siginfo_t info;
    /* ECHILD is no error: the host may ignore SIGCHLD, or wait for any child. */
    while (waitid(P_PIDFD, (id_t)run->spawned.pidfd, &info, WEXITED | __WALL) < 0 &&
           errno == EINTR) {
    }
}

/* A pattern of the caller that exceeded its time: the redactor shows nothing after that point. */
static void add_withheld(const struct brig_run *run, struct buf *notes)
{
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++) {
        const struct redactor *redactor = run->pump.streams[i].redactor;
        const char *name = redactor ? redactor_failure(redactor) : NULL;
        if (name)
            buf_printf(notes, "%sThe rest of %s is withheld: the pattern %s took too long on it.",
                       notes->len ? " " : "", i == BRIG_STDOUT ? "stdout" : "stderr", name);
    }
}

static void make_notes(struct brig_run *run, const struct verdict *verdict)
{
    struct buf notes;
    buf_init(&notes, NOTES_MAX);
    verdict_notes(&run->facts, verdict, &notes);
    add_withheld(run, &notes);
    if (notes.len)
        run->report.notes = buf_take(&notes, NULL);
    buf_done(&notes);
    if (run->report.notes && run->plan.rules) {
        char *plain = run->report.notes;
        run->report.notes = redact_copy(run->plan.rules, plain);
        free(plain);
    }
}

/* Add hints about the likely cause of the failure, only if the command failed. */
static void make_hints(struct brig_run *run, const struct verdict *verdict)
{
    struct strings found = {0};
    bool failed =
        verdict->status == BRIG_EXITED ? verdict->exit_code != 0 : verdict->status == BRIG_SIGNALED;
    if (!failed)
        return;
    hints_of_failure(&found, &run->plan, run->seen.no_routes, run->seen.no_ports);
    for (size_t i = 0; i < found.count && run->report.hints.count < BRIG_HINTS_MAX; i++)
        hints_add(&run->report.hints, run->plan.rules, found.items[i]);
    strings_done(&found);
}

static void hide_in_answer(struct brig_run *run, struct brig_result *result)
{
    struct buf shown;
    struct channel *channel = &run->channel;
    uint64_t found = 0;
    buf_init(&shown, channel->body.len * 4 + (1u << 20));
    int ret = redact_json(run->plan.rules, channel->body.data, channel->body.len, &shown, &found);
    if (ret < 0) { /* bytes that cannot be searched for secrets are not shown */
        channel->state = ret == -ETIMEDOUT ? BRIG_CHANNEL_WITHHELD : BRIG_CHANNEL_NO_MEMORY;
        result->output_fault =
            channel_fault(channel, run->report.output_fault, sizeof run->report.output_fault);
    } else if (found) {
        buf_done(&channel->body);
        channel->body = shown;
        return;
    }
    buf_done(&shown);
}

void finish_answer(struct brig_run *run)
{
    struct brig_result *result = &run->report.result;
    struct channel *channel = &run->channel;
    struct jsonscan scan;
    bool sent = channel->state == BRIG_CHANNEL_SENT && channel->body.len;
    bool json = sent && jsonscan(&scan, channel->body.data, channel->body.len);
    if (json && scan.deepest > DEPTH_MAX) {
        json = false;
        scan.where = 0;
        scan.why = "nested too deeply";
    }
    if (sent && !json) {
        channel->state = BRIG_CHANNEL_NOT_JSON;
        snprintf(run->report.output_fault, sizeof run->report.output_fault,
                 "the result is not JSON: byte %zu: %s", scan.where, scan.why);
        result->output_fault = run->report.output_fault;
    } else {
        result->output_fault =
            channel_fault(channel, run->report.output_fault, sizeof run->report.output_fault);
    }
    if (channel->state == BRIG_CHANNEL_SENT && channel->body.len && run->plan.redacts)
        hide_in_answer(run, result);
    result->channel = channel->state;
    if (channel->state == BRIG_CHANNEL_SENT) {
        result->output = channel->body.data ? channel->body.data : "";
        result->output_len = channel->body.len;
    }
}

void finish_group(struct brig_run *run)
{
    if (run->settled)
        return;
    run->settled = true;
    if (!run->seen.counted)
        group_read_final(&run->spawned.group, &run->seen.counters);
    if (run->deferred)
        return;
    if (group_remove(&run->spawned.group) < 0)
        run->facts.stuck = true;
}

/* Keep the answer that brig_run_answer() has already given to the caller. */
static void keep_answer(struct brig_result *result, const struct brig_result *given)
{
    result->output = given->output;
    result->output_len = given->output_len;
    result->output_fault = given->output_fault;
    result->channel = given->channel;
}

void finish_run(struct brig_run *run)
{
    struct brig_result *result = &run->report.result;
    struct facts *facts = &run->facts;
    uint64_t now = clock_now();
    run_reap_helper(run);
    if (!run->deferred || run->seen.init_gone)
        reap_init(run);
    finish_group(run);
    facts->sampled = !run->plan.use_group;
    facts->pids_seen = run->seen.peak_pids;
    run_note_gap(run, now);
    facts->sample_gap_ns = run->seen.longest_gap;
    facts->left_files = spawn_clear(&run->spawned) < 0;
    facts->oom_kills = run->seen.counters.oom_kills;
    facts->pids_refused = run->plan.use_group ? run->seen.pids_refused : BRIG_UNKNOWN;
    facts->pids_fail = run->plan.pids_fail;
    facts->limits = run->plan.limits;
    facts->truncate_output = run->plan.truncate_output;
    facts->output_over = run->pump.over;
    facts->output_omitted =
        run->pump.streams[BRIG_STDOUT].omitted + run->pump.streams[BRIG_STDERR].omitted;
    facts->sink_errors[0] = run->pump.streams[BRIG_STDOUT].broken;
    facts->sink_errors[1] = run->pump.streams[BRIG_STDERR].broken;
    fill_usage(run, &run->seen.counters, now);
    struct verdict verdict = verdict_of(facts);
    const struct brig_result given = *result;
    make_notes(run, &verdict);
    make_hints(run, &verdict);
    *result = (struct brig_result){
        .id = run->report.id,
        .status = verdict.status,
        .exit_code = verdict.exit_code,
        .signal = verdict.signal,
        .notes = run->report.notes,
        .hints = run_hints(run),
        .out = output_of(&run->pump.streams[BRIG_STDOUT]),
        .err = output_of(&run->pump.streams[BRIG_STDERR]),
        .usage = facts->usage,
        .limits = run->plan.limits,
        .isolation = {run->plan.tier, run->plan.layers, run->plan.layer_count, run->warm},
        .started_at_ns = run->clocks.started_at,
        .finished_at_ns = run->clocks.started_at + (int64_t)(now - run->clocks.started),
        .labels = (const char *const *)run->plan.labels.items,
    };
    if (run->answered)
        keep_answer(result, &given);
    else
        finish_answer(run);
    if (verdict.status == BRIG_ERROR) {
        error_system(&run->report.error, "run", ECHILD, "%s",
                     run->report.notes ? run->report.notes : "init was killed");
        result->error = &run->report.error;
    }
    run->phase = PHASE_OVER;
    if (verdict.status == BRIG_MEMORY_LIMIT && facts->reason != END_MEMORY && !run->told_memory)
        run_push_event(run, (struct brig_event){.type = BRIG_EVENT_LIMIT, .limit = "memory"});
    if (verdict.status == BRIG_PIDS_LIMIT && facts->reason == END_NONE)
        run_push_event(run, (struct brig_event){.type = BRIG_EVENT_LIMIT, .limit = "pids"});
    run_push_event(run, (struct brig_event){.type = BRIG_EVENT_ENDED});
}
