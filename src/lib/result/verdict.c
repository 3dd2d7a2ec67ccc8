/* SPDX-License-Identifier: MIT */
/* Decides why a run ended, and writes the sentences that explain it. verdict.h has the
 * interface. */
#include "verdict.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/signals.h"
#include "base/text.h"
#include "base/units.h"

#define UNSEEN_NS UINT64_C(200000000) /* so short a run has few samples, if any */
#define GAP_NS    UINT64_C(100000000) /* twice the time between two samples */
/* RLIMIT_NPROC is 32 above the limit; the rest are processes that ended before. */
#define AT_THE_LIMIT 48

static bool over_cpu_time(const struct facts *facts)
{
    uint64_t used = facts->usage.cpu_user_ns + facts->usage.cpu_system_ns;
    return facts->limits.cpu_time_ns != BRIG_UNLIMITED && used >= facts->limits.cpu_time_ns;
}

static enum brig_status status_of(const struct facts *facts)
{
    /* The kernel's count of OOM kills in the cgroup of the run decides, whichever process was
     * killed, and whatever the main process returned. */
    if (facts->oom_kills != BRIG_UNKNOWN && facts->oom_kills > 0)
        return BRIG_MEMORY_LIMIT;
    switch (facts->reason) {
    case END_MEMORY:
        return BRIG_MEMORY_LIMIT;
    case END_TIMEOUT:
        return BRIG_TIMEOUT;
    case END_CANCELLED:
        return BRIG_CANCELLED;
    case END_PIDS:
        return BRIG_PIDS_LIMIT;
    case END_CPU:
        return BRIG_CPU_LIMIT;
    case END_OUTPUT:
        return BRIG_OUTPUT_LIMIT;
    case END_READER_GONE:
        return BRIG_CANCELLED;
    case END_NONE:
        break;
    }
    /* The guest may have ended before the supervisor could end it; the limit decides all the
     * same. */
    if (facts->pids_refused != BRIG_UNKNOWN && facts->pids_refused > 0 && !facts->pids_fail)
        return BRIG_PIDS_LIMIT;
    if (facts->sampled && facts->pids_seen > facts->limits.pids && !facts->pids_fail)
        return BRIG_PIDS_LIMIT;
    if (facts->output_over && !facts->truncate_output)
        return BRIG_OUTPUT_LIMIT;
    if (!facts->main_ended)
        return BRIG_ERROR;
    if (facts->code == CLD_EXITED)
        return BRIG_EXITED;
    /* RLIMIT_CPU ends a single process if the check of the whole tree comes too late. */
    if ((facts->status == SIGXCPU || facts->status == SIGKILL) && over_cpu_time(facts))
        return BRIG_CPU_LIMIT;
    return BRIG_SIGNALED;
}

struct verdict verdict_of(const struct facts *facts)
{
    struct verdict verdict = {.status = status_of(facts), .exit_code = -1};
    if (facts->main_ended && facts->code == CLD_EXITED)
        verdict.exit_code = facts->status;
    else if (facts->main_ended)
        verdict.signal = facts->status;
    return verdict;
}

/* ---- notes --------------------------------------------------------------------------------- */

static void add_size(struct buf *out, uint64_t bytes)
{
    char text[UNITS_TEXT_SIZE];
    units_format_size(bytes, text);
    buf_text(out, text);
}

static void add_duration(struct buf *out, uint64_t ns)
{
    char text[UNITS_TEXT_SIZE];
    units_format_duration(ns, text);
    buf_text(out, text);
}

/* Escaped, because the guest chooses the name. */
static void add_comm(struct buf *out, const struct facts *facts)
{
    char name[sizeof facts->comm * 4];
    text_escape(facts->comm, strnlen(facts->comm, sizeof facts->comm), name, sizeof name);
    buf_text(out, name[0] ? name : "a process");
}

static void note_memory(const struct facts *facts, struct buf *out)
{
    bool sampled = facts->reason == END_MEMORY;
    bool main_killed =
        facts->main_ended && facts->code != CLD_EXITED && facts->status == SIGKILL && !sampled;
    uint64_t limit = facts->limits.memory_bytes, peak = facts->usage.memory_peak_bytes;
    bool above = limit == BRIG_UNLIMITED || (!sampled && peak != BRIG_UNKNOWN && peak < limit / 2);
    if (above) {
        buf_text(out, "Killed: the machine, or a cgroup above, ran out of memory (");
    } else {
        buf_text(out, "Killed: memory reached its ");
        add_size(out, limit);
        buf_text(out, " limit (");
    }
    if (facts->usage.memory_peak_bytes != BRIG_UNKNOWN) {
        buf_text(out, "peak ");
        add_size(out, facts->usage.memory_peak_bytes);
        buf_text(out, ", ");
    }
    if (sampled) {
        buf_text(out, "found by sampling, without a cgroup");
    } else if (main_killed) {
        buf_text(out, "OOM kill of ");
        add_comm(out, facts);
        buf_printf(out, ", pid %d", facts->pid);
    } else {
        buf_printf(out, "%llu OOM kill%s in its process tree", (unsigned long long)facts->oom_kills,
                   facts->oom_kills == 1 ? "" : "s");
        if (facts->main_ended && facts->code == CLD_EXITED)
            buf_printf(out, "; the main process itself exited with %d", facts->status);
    }
    buf_text(out, above ? "). It did not reach its own limit."
                        : "). Raise --memory or process the data in parts.");
}

static void note_pids(const struct facts *facts, struct buf *out)
{
    buf_printf(out, "Killed: the process tree reached its limit of %llu processes and threads (",
               (unsigned long long)facts->limits.pids);
    if (facts->pids_refused != BRIG_UNKNOWN)
        buf_printf(out, "%llu fork%s refused", (unsigned long long)facts->pids_refused,
                   facts->pids_refused == 1 ? " was" : "s were");
    else
        buf_printf(out, "%llu were counted by sampling", (unsigned long long)facts->pids_seen);
    buf_text(out, "). Raise --pids, or use --on-pids-limit fail to let fork fail instead.");
}

static void note_output(const struct facts *facts, struct buf *out)
{
    buf_text(out, "Killed: stdout and stderr together went over their budget of ");
    add_size(out, facts->limits.output_bytes);
    buf_text(out, "; the first part of that size was kept. Raise --output, or use "
                  "--on-output-limit truncate to keep the beginning and the end.");
}

static void note_truncated(const struct facts *facts, struct buf *out)
{
    buf_printf(out, "%llu bytes of output over the budget of ",
               (unsigned long long)facts->output_omitted);
    add_size(out, facts->limits.output_bytes);
    buf_text(out, " were left out between its beginning and its end.");
}

/* Name the likely cause of a signal. */
static const char *signal_hint(int signal)
{
    switch (signal) {
    case SIGXFSZ:
        return " A file grew over --file-size.";
    case SIGSEGV:
    case SIGBUS:
        return " It crashed on a bad memory access; this is not a limit of brig.";
    case SIGABRT:
        return " It aborted itself.";
    case SIGSYS:
        return " It made a system call that is not allowed.";
    case SIGPIPE:
        return " Nobody reads its output any more.";
    default:
        return "";
    }
}

static void note_signal(const struct facts *facts, struct buf *out)
{
    const char *name = signal_name(facts->status);
    add_comm(out, facts);
    if (name)
        buf_printf(out, " (pid %d) was killed by SIG%s.", facts->pid, name);
    else
        buf_printf(out, " (pid %d) was killed by signal %d.", facts->pid, facts->status);
    buf_text(out, signal_hint(facts->status));
}

static void note_cancelled(const struct facts *facts, struct buf *out)
{
    buf_text(out, "Cancelled");
    if (facts->reason == END_READER_GONE)
        buf_text(out, ": the reader of its output went away");
    if (facts->why) {
        char why[256];
        text_escape(facts->why, strlen(facts->why), why, sizeof why);
        buf_printf(out, ": %s", why);
    }
    buf_text(out, ".");
}

static void note_exited(const struct facts *facts, struct buf *out)
{
    if (facts->pids_refused != BRIG_UNKNOWN && facts->pids_refused > 0)
        buf_printf(out, "%llu fork%s refused at the limit of %llu processes and threads. ",
                   (unsigned long long)facts->pids_refused,
                   facts->pids_refused == 1 ? " was" : "s were",
                   (unsigned long long)facts->limits.pids);
}

/* Did the run end before a sample saw that it exceeded the limit? The kernel records the peak of
 * each process. */
static bool was_over_unseen(const struct facts *facts, const struct verdict *verdict)
{
    uint64_t peak = facts->usage.memory_peak_bytes;
    return facts->sampled && verdict->status != BRIG_MEMORY_LIMIT && peak != BRIG_UNKNOWN &&
           facts->limits.memory_bytes != BRIG_UNLIMITED && peak > facts->limits.memory_bytes;
}

static void note_unseen(const struct facts *facts, struct buf *out)
{
    buf_text(out, " Its memory reached ");
    add_size(out, facts->usage.memory_peak_bytes);
    buf_text(out, ", over its limit of ");
    add_size(out, facts->limits.memory_bytes);
    buf_text(out, ", between two samples: without a cgroup the limit is kept by sampling.");
}

/* The kernel leaves no trace of forks that it refuses by RLIMIT_NPROC. This is a guess: the run
 * failed and made more processes than it may have at once; and it was too short to be sampled, or a
 * sample was late, or one saw half of the limit, or it made about as many as RLIMIT_NPROC allows.
 */
static bool may_have_reached_pids(const struct facts *facts)
{
    bool failed = facts->main_ended && (facts->code != CLD_EXITED || facts->status != 0);
    bool unseen = facts->usage.wall_ns < UNSEEN_NS || facts->sample_gap_ns >= GAP_NS ||
                  facts->pids_seen >= facts->limits.pids / 2 ||
                  facts->pids_made <= facts->limits.pids + AT_THE_LIMIT;
    return facts->sampled && failed && unseen && facts->limits.pids != BRIG_UNLIMITED &&
           facts->pids_made > facts->limits.pids;
}

static void note_pids_guess(const struct facts *facts, struct buf *out)
{
    buf_printf(
        out,
        " It may have reached its limit of %llu processes and threads between two samples: it "
        "made %llu in all. This is a guess; without a cgroup refused forks are not counted.",
        (unsigned long long)facts->limits.pids, (unsigned long long)facts->pids_made);
}

void verdict_notes(const struct facts *facts, const struct verdict *verdict, struct buf *out)
{
    switch (verdict->status) {
    case BRIG_MEMORY_LIMIT:
        note_memory(facts, out);
        break;
    case BRIG_PIDS_LIMIT:
        note_pids(facts, out);
        break;
    case BRIG_OUTPUT_LIMIT:
        note_output(facts, out);
        break;
    case BRIG_TIMEOUT:
        buf_text(out, "Killed: it ran longer than its timeout of ");
        add_duration(out, facts->limits.timeout_ns);
        buf_text(out, ". Raise --timeout or give it less to do.");
        break;
    case BRIG_CPU_LIMIT:
        buf_text(out, "Killed: its processes used ");
        add_duration(out, facts->usage.cpu_user_ns + facts->usage.cpu_system_ns);
        buf_text(out, " of CPU time, the limit is ");
        add_duration(out, facts->limits.cpu_time_ns);
        buf_text(out, ". Raise --cpu-time.");
        break;
    case BRIG_CANCELLED:
        note_cancelled(facts, out);
        break;
    case BRIG_SIGNALED:
        note_signal(facts, out);
        break;
    case BRIG_EXITED:
        note_exited(facts, out);
        break;
    case BRIG_ERROR:
        buf_text(out, "brig's init was killed before the command ended; how the command "
                      "ended is not known.");
        break;
    }
    if (facts->truncate_output && facts->output_over) {
        if (out->len && out->data[out->len - 1] != ' ')
            buf_text(out, " ");
        note_truncated(facts, out);
    }
    if (was_over_unseen(facts, verdict))
        note_unseen(facts, out);
    bool own_end = verdict->status == BRIG_EXITED || verdict->status == BRIG_SIGNALED;
    if (own_end && may_have_reached_pids(facts))
        note_pids_guess(facts, out);
    for (size_t i = 0; i < 2; i++) {
        /* EPIPE is not worth a note: a reader that has read enough goes away. */
        if (facts->sink_errors[i] && facts->sink_errors[i] != EPIPE)
            buf_printf(out, " Its %s could not be delivered: %s.", i ? "stderr" : "stdout",
                       error_text(facts->sink_errors[i]));
    }
    if (facts->left_files)
        buf_text(out, " Its temporary directory could not be removed; the next run tries again.");
    if (facts->stuck)
        buf_text(out, " Some of its processes did not end on SIGKILL in time; they may be stuck in "
                      "the kernel.");
    while (out->len && out->data[out->len - 1] == ' ')
        out->len--;
    if (out->len && out->data[0] == ' ')
        memmove(out->data, out->data + 1, --out->len);
}
