/* SPDX-License-Identifier: MIT */
/* lib/verdict.c: a table from what was seen to what is said about it. */
#include "lib/result/verdict.h"

#include <errno.h>
#include <signal.h>

#include "base/text.h"
#include "check.h"
#include "random.h"

#define SECOND UINT64_C(1000000000)

/* A run that ended well, within its limits, with every counter known. */
static struct facts clean(void)
{
    return (struct facts){
        .main_ended = true,
        .code = CLD_EXITED,
        .pid = 4711,
        .comm = "python3",
        .usage = {.wall_ns = SECOND,
                  .cpu_user_ns = SECOND / 2,
                  .cpu_system_ns = SECOND / 4,
                  .memory_peak_bytes = 100 << 20,
                  .pids_peak = 3},
        .limits = {.memory_bytes = 512 << 20,
                   .pids = 100,
                   .timeout_ns = 90 * SECOND,
                   .kill_after_ns = 3 * SECOND,
                   .cpu_time_ns = BRIG_UNLIMITED,
                   .output_bytes = 10 << 20,
                   .milli_cpus = 1000},
    };
}

static struct facts killed_by(int signal)
{
    struct facts facts = clean();
    facts.code = CLD_KILLED;
    facts.status = signal;
    return facts;
}

static struct facts ended_for(enum end_reason reason)
{
    struct facts facts = killed_by(SIGTERM);
    facts.reason = reason;
    return facts;
}

/* The notes, in memory that the next call uses again. */
static const char *notes_of(const struct facts *facts)
{
    static char text[4097];
    struct buf buf;
    struct verdict verdict = verdict_of(facts);
    buf_init(&buf, 4096);
    verdict_notes(facts, &verdict, &buf);
    assert_int_equal(buf_failed(&buf), 0);
    memcpy(text, buf.len ? buf.data : "", buf.len);
    text[buf.len] = 0;
    buf_done(&buf);
    return text;
}

static void check(const struct facts *facts, enum brig_status status, const char *part)
{
    struct verdict verdict = verdict_of(facts);
    assert_string_equal(brig_status_name(verdict.status), brig_status_name(status));
    assert_contains(notes_of(facts), part);
}

/* ---- each status --------------------------------------------------------------------------- */

static void test_a_clean_exit_has_nothing_to_say(void **state)
{
    struct facts facts = clean();
    struct verdict verdict = verdict_of(&facts);
    assert_int_equal(verdict.status, BRIG_EXITED);
    assert_int_equal(verdict.exit_code, 0);
    assert_int_equal(verdict.signal, 0);
    assert_string_equal(notes_of(&facts), "");
}

static void test_an_exit_code_is_the_guests_own(void **state)
{
    struct facts facts = clean();
    facts.status = 124; /* not a timeout */
    struct verdict verdict = verdict_of(&facts);
    assert_int_equal(verdict.status, BRIG_EXITED);
    assert_int_equal(verdict.exit_code, 124);
    assert_string_equal(notes_of(&facts), "");
}

static void test_a_signal_is_named_with_the_process_it_hit(void **state)
{
    struct facts facts = killed_by(SIGUSR1);
    struct verdict verdict = verdict_of(&facts);
    assert_int_equal(verdict.status, BRIG_SIGNALED);
    assert_int_equal(verdict.signal, SIGUSR1);
    assert_int_equal(verdict.exit_code, -1);
    assert_string_equal(notes_of(&facts), "python3 (pid 4711) was killed by SIGUSR1.");
    facts.status = 40; /* a signal without a name */
    assert_contains(notes_of(&facts), "killed by signal 40.");
    facts.comm[0] = 0;
    assert_contains(notes_of(&facts), "a process (pid 4711)");
}

static void test_a_core_dump_is_a_signal_too(void **state)
{
    struct facts facts = killed_by(SIGQUIT);
    facts.code = CLD_DUMPED;
    check(&facts, BRIG_SIGNALED, "SIGQUIT");
}

static void test_timeout(void **state)
{
    struct facts facts = ended_for(END_TIMEOUT);
    check(&facts, BRIG_TIMEOUT, "longer than its timeout of 1m30s. Raise --timeout");
    facts.main_ended = false;
    check(&facts, BRIG_TIMEOUT, "timeout");
}

static void test_cancelled_says_why_and_makes_it_safe(void **state)
{
    struct facts facts = ended_for(END_CANCELLED);
    assert_string_equal((check(&facts, BRIG_CANCELLED, "Cancelled."), notes_of(&facts)),
                        "Cancelled.");
    facts.why = "SIGINT\x1b[2J";
    assert_string_equal(notes_of(&facts), "Cancelled: SIGINT\\x1b[2J.");
}

static void test_a_reader_that_went_away_is_a_cancel(void **state)
{
    struct facts facts = ended_for(END_READER_GONE);
    facts.main_ended = false;
    facts.why = "stdout: Broken pipe";
    check(&facts, BRIG_CANCELLED,
          "Cancelled: the reader of its output went away: stdout: Broken pipe.");
    facts = killed_by(SIGPIPE);
    facts.reason = END_READER_GONE;
    check(&facts, BRIG_CANCELLED, "Cancelled: the reader of its output went away");
}

/* brig itself sent the signal, and knows why. */
static void test_a_guest_that_was_ended_for_its_reader_is_not_just_signaled(void **state)
{
    static const int signals[] = {SIGTERM, SIGKILL};
    for (size_t i = 0; i < COUNT(signals); i++) {
        struct facts facts = killed_by(signals[i]);
        facts.reason = END_READER_GONE;
        facts.why = "stdout: No space left on device";
        check(&facts, BRIG_CANCELLED, "No space left on device");
    }
}

static void test_a_stream_that_could_not_be_delivered_is_said_whatever_the_status(void **state)
{
    struct facts facts = clean();
    facts.sink_errors[1] = ENOSPC;
    assert_string_equal(notes_of(&facts),
                        "Its stderr could not be delivered: No space left on device.");
    facts = ended_for(END_TIMEOUT);
    facts.sink_errors[0] = EIO;
    check(&facts, BRIG_TIMEOUT,
          "less to do. Its stdout could not be delivered: Input/output error.");
    facts = clean();
    facts.sink_errors[0] = EPIPE; /* a reader that has enough */
    assert_string_equal(notes_of(&facts), "");
}

static void test_pids_by_the_kernels_count_and_by_sampling(void **state)
{
    struct facts facts = ended_for(END_PIDS);
    facts.pids_refused = 1;
    check(&facts, BRIG_PIDS_LIMIT, "limit of 100 processes and threads (1 fork was refused)");
    facts.pids_refused = 5;
    check(&facts, BRIG_PIDS_LIMIT, "(5 forks were refused)");
    facts.pids_refused = BRIG_UNKNOWN;
    facts.pids_seen = 123;
    check(&facts, BRIG_PIDS_LIMIT, "(123 were counted by sampling)");
}

/* Without a group: what init saw at the end is certain, what it can only suppose is called a guess.
 */
static void test_review_d10_pids_that_no_sample_saw(void **state)
{
    struct facts facts = clean();
    facts.pids_refused = BRIG_UNKNOWN;
    facts.status = 2;
    facts.pids_seen = 110;
    facts.pids_made = 132;
    facts.usage.wall_ns = SECOND;
    assert_int_equal(verdict_of(&facts).status, BRIG_EXITED); /* a group counts what it refuses */
    facts.sampled = true;
    check(&facts, BRIG_PIDS_LIMIT, "(110 were counted by sampling)");
    facts.pids_fail = true;
    check(&facts, BRIG_EXITED, "It may have reached its limit of 100 processes and threads");
    facts.pids_fail = false;
    facts.pids_seen = 3;
    check(&facts, BRIG_EXITED, "This is a guess");
    facts.pids_made = 3000; /* one after another, and never many of them */
    assert_string_equal(notes_of(&facts), "");
    facts.sample_gap_ns = SECOND / 10; /* the machine was too busy to look in time */
    check(&facts, BRIG_EXITED, "it made 3000 in all. This is a guess");
    facts.sample_gap_ns = SECOND / 11;
    assert_string_equal(notes_of(&facts), "");
    facts.pids_seen = 50;
    check(&facts, BRIG_EXITED, "it made 3000 in all. This is a guess");
    facts.status = 0;
    assert_string_equal(notes_of(&facts), "");
}

static void test_cpu_time_by_the_trees_count(void **state)
{
    struct facts facts = ended_for(END_CPU);
    facts.limits.cpu_time_ns = SECOND / 2;
    check(&facts, BRIG_CPU_LIMIT, "used 750ms of CPU time, the limit is 500ms.");
}

/* The kernel enforces RLIMIT_CPU per process, with SIGXCPU and then SIGKILL. */
static void test_cpu_time_by_the_kernels_signal(void **state)
{
    static const int signals[] = {SIGXCPU, SIGKILL};
    for (size_t i = 0; i < COUNT(signals); i++) {
        struct facts facts = killed_by(signals[i]);
        facts.limits.cpu_time_ns = 3 * SECOND / 4; /* exactly what was used */
        check(&facts, BRIG_CPU_LIMIT, "Raise --cpu-time.");
        facts.limits.cpu_time_ns++;
        check(&facts, BRIG_SIGNALED, "was killed by");
        facts.limits.cpu_time_ns = BRIG_UNLIMITED;
        check(&facts, BRIG_SIGNALED, "was killed by");
    }
}

static void test_output_over_its_budget(void **state)
{
    struct facts facts = ended_for(END_OUTPUT);
    facts.output_over = true;
    check(&facts, BRIG_OUTPUT_LIMIT, "over their budget of 10 MiB");
    /* Found only after the guest had ended by itself. */
    facts = clean();
    facts.output_over = true;
    check(&facts, BRIG_OUTPUT_LIMIT, "over their budget of 10 MiB");
    assert_int_equal(verdict_of(&facts).exit_code, 0);
}

static void test_truncated_output_is_said_and_not_a_limit(void **state)
{
    struct facts facts = clean();
    facts.truncate_output = facts.output_over = true;
    facts.output_omitted = 12345;
    assert_int_equal(verdict_of(&facts).status, BRIG_EXITED);
    assert_string_equal(notes_of(&facts), "12345 bytes of output over the budget of 10 MiB were "
                                          "left out between its beginning and its end.");
    facts.code = CLD_KILLED;
    facts.status = SIGABRT;
    check(&facts, BRIG_SIGNALED, "It aborted itself. 12345 bytes of output");
}

static void test_an_init_that_was_killed_is_an_error(void **state)
{
    struct facts facts = clean();
    facts.main_ended = false;
    check(&facts, BRIG_ERROR, "brig's init was killed");
    assert_int_equal(verdict_of(&facts).exit_code, -1);
}

/* ---- memory -------------------------------------------------------------------------------- */

static void test_an_oom_kill_of_the_main_process_names_it(void **state)
{
    struct facts facts = killed_by(SIGKILL);
    facts.oom_kills = 1;
    facts.usage.memory_peak_bytes = 512 << 20;
    check(&facts, BRIG_MEMORY_LIMIT,
          "memory reached its 512 MiB limit (peak 512 MiB, OOM kill of python3, pid 4711). Raise");
    assert_int_equal(verdict_of(&facts).signal, SIGKILL);
}

static void test_an_oom_kill_below_a_main_process_that_exits_with_0_is_memory(void **state)
{
    struct facts facts = clean();
    facts.oom_kills = 1;
    check(&facts, BRIG_MEMORY_LIMIT,
          "1 OOM kill in its process tree; the main process itself "
          "exited with 0");
    assert_int_equal(verdict_of(&facts).exit_code, 0);
    facts.oom_kills = 3;
    facts.status = 1;
    check(&facts, BRIG_MEMORY_LIMIT,
          "3 OOM kills in its process tree; the main process itself "
          "exited with 1");
}

static void test_the_kernels_count_outranks_every_other_reason(void **state)
{
    for (int reason = END_NONE; reason <= END_READER_GONE; reason++) {
        struct facts facts = ended_for((enum end_reason)reason);
        facts.oom_kills = 1;
        assert_int_equal(verdict_of(&facts).status, BRIG_MEMORY_LIMIT);
    }
    struct facts facts = killed_by(SIGSEGV);
    facts.oom_kills = 1;
    assert_int_equal(verdict_of(&facts).status, BRIG_MEMORY_LIMIT);
}

static void test_sampling_says_that_it_was_sampling(void **state)
{
    struct facts facts = killed_by(SIGKILL);
    facts.reason = END_MEMORY;
    facts.oom_kills = BRIG_UNKNOWN;
    facts.usage.memory_peak_bytes = 600 << 20;
    check(&facts, BRIG_MEMORY_LIMIT, "(peak 600 MiB, found by sampling, without a cgroup)");
    facts.usage.memory_peak_bytes = BRIG_UNKNOWN;
    check(&facts, BRIG_MEMORY_LIMIT, "limit (found by sampling");
}

/* Words and signals are not evidence: only the count is. */
static void test_a_crash_near_the_limit_is_not_memory(void **state)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGKILL};
    for (size_t i = 0; i < COUNT(signals); i++) {
        for (int known = 0; known < 2; known++) {
            struct facts facts = killed_by(signals[i]);
            facts.usage.memory_peak_bytes = facts.limits.memory_bytes;
            facts.oom_kills = known ? 0 : BRIG_UNKNOWN;
            check(&facts, BRIG_SIGNALED, "was killed by SIG");
            assert_null(strstr(notes_of(&facts), "limit ("));
        }
    }
    struct facts facts = killed_by(SIGSEGV);
    check(&facts, BRIG_SIGNALED, "bad memory access; this is not a limit of brig");
}

/* The count also goes up when a group above, or the whole machine, runs out. */
static void test_an_oom_kill_without_a_limit_does_not_invent_one(void **state)
{
    struct facts facts = killed_by(SIGKILL);
    facts.oom_kills = 1;
    facts.limits.memory_bytes = BRIG_UNLIMITED;
    assert_null(strstr(notes_of(&facts), "EiB"));
}

static void test_an_oom_kill_far_below_the_limit_does_not_blame_it(void **state)
{
    struct facts facts = killed_by(SIGKILL);
    facts.oom_kills = 1;
    facts.usage.memory_peak_bytes = 10 << 20;
    assert_null(strstr(notes_of(&facts), "reached its 512 MiB limit"));
}

/* ---- notes --------------------------------------------------------------------------------- */

static void test_likely_causes_of_signals_are_named(void **state)
{
    static const struct {
        int signal;
        const char *hint;
    } rows[] = {
        {SIGXFSZ, "over --file-size"}, {SIGSEGV, "bad memory access"},
        {SIGBUS, "bad memory access"}, {SIGABRT, "aborted itself"},
        {SIGSYS, "not allowed"},       {SIGPIPE, "Nobody reads"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct facts facts = killed_by(rows[i].signal);
        check(&facts, BRIG_SIGNALED, rows[i].hint);
    }
}

static void test_refused_forks_are_said_after_a_normal_exit(void **state)
{
    struct facts facts = clean();
    facts.pids_refused = 2;
    facts.pids_fail = true;
    assert_string_equal(notes_of(&facts),
                        "2 forks were refused at the limit of 100 processes and threads.");
    facts.pids_refused = BRIG_UNKNOWN;
    assert_string_equal(notes_of(&facts), "");
}

static void test_processes_that_did_not_end_are_said(void **state)
{
    struct facts facts = ended_for(END_TIMEOUT);
    facts.stuck = true;
    check(&facts, BRIG_TIMEOUT, "less to do. Some of its processes did not end on SIGKILL");
}

static void test_notes_never_begin_with_a_space(void **state)
{
    struct facts facts = clean();
    facts.stuck = true;
    assert_int_not_equal(notes_of(&facts)[0], ' ');
}

static void test_a_name_that_the_guest_chose_is_safe_to_print(void **state)
{
    struct facts facts = killed_by(SIGKILL);
    memcpy(facts.comm, "\x1b]0;a\x07\xff\n", 9);
    assert_contains(notes_of(&facts), "\\x1b]0;a\\x07\\xff\\x0a (pid 4711)");
    memset(facts.comm, '\x01', sizeof facts.comm); /* not even terminated */
    assert_contains(notes_of(&facts), "\\x01\\x01");
}

static void test_memory_that_no_sample_saw_is_said(void **state)
{
    struct facts facts = clean();
    facts.limits.memory_bytes = 64 << 20;
    facts.usage.memory_peak_bytes = 200 << 20;
    assert_string_equal(notes_of(&facts), ""); /* a group holds it: what it counts is not over */
    facts.sampled = true;
    assert_int_equal(verdict_of(&facts).status, BRIG_EXITED);
    assert_contains(notes_of(&facts), "Its memory reached 200 MiB, over its limit of 64 MiB");
    facts.usage.memory_peak_bytes = 64 << 20;
    assert_string_equal(notes_of(&facts), "");
}

static void test_every_status_can_be_reached_by_random_facts_and_is_printable(void **state)
{
    struct random random = {10};
    unsigned reached = 0;
    for (int i = 0; i < 20000; i++) {
        struct facts facts = clean();
        facts.main_ended = random_below(&random, 4) > 0;
        facts.code = (int[]){CLD_EXITED, CLD_KILLED, CLD_DUMPED}[random_below(&random, 3)];
        facts.status = (int)random_below(&random, 65);
        facts.reason = (enum end_reason)random_below(&random, END_READER_GONE + 1);
        facts.oom_kills = random_below(&random, 4) == 0;
        facts.output_over = random_below(&random, 4) == 0;
        facts.truncate_output = random_below(&random, 2);
        facts.pids_refused = random_below(&random, 2) ? BRIG_UNKNOWN : random_below(&random, 3);
        random_fill(&random, (unsigned char *)facts.comm, sizeof facts.comm);
        reached |= 1u << verdict_of(&facts).status;
        const char *notes = notes_of(&facts);
        assert_true(text_is_utf8((const unsigned char *)notes, strlen(notes)));
        for (const char *p = notes; *p; p++)
            assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
    }
    assert_int_equal(reached, (1u << (BRIG_ERROR + 1)) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_clean_exit_has_nothing_to_say),
        cmocka_unit_test(test_an_exit_code_is_the_guests_own),
        cmocka_unit_test(test_a_signal_is_named_with_the_process_it_hit),
        cmocka_unit_test(test_a_core_dump_is_a_signal_too),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_cancelled_says_why_and_makes_it_safe),
        cmocka_unit_test(test_a_reader_that_went_away_is_a_cancel),
        cmocka_unit_test(test_a_guest_that_was_ended_for_its_reader_is_not_just_signaled),
        cmocka_unit_test(test_a_stream_that_could_not_be_delivered_is_said_whatever_the_status),
        cmocka_unit_test(test_pids_by_the_kernels_count_and_by_sampling),
        cmocka_unit_test(test_review_d10_pids_that_no_sample_saw),
        cmocka_unit_test(test_cpu_time_by_the_trees_count),
        cmocka_unit_test(test_cpu_time_by_the_kernels_signal),
        cmocka_unit_test(test_output_over_its_budget),
        cmocka_unit_test(test_truncated_output_is_said_and_not_a_limit),
        cmocka_unit_test(test_memory_that_no_sample_saw_is_said),
        cmocka_unit_test(test_an_init_that_was_killed_is_an_error),
        cmocka_unit_test(test_an_oom_kill_of_the_main_process_names_it),
        cmocka_unit_test(test_an_oom_kill_below_a_main_process_that_exits_with_0_is_memory),
        cmocka_unit_test(test_the_kernels_count_outranks_every_other_reason),
        cmocka_unit_test(test_sampling_says_that_it_was_sampling),
        cmocka_unit_test(test_a_crash_near_the_limit_is_not_memory),
        cmocka_unit_test(test_an_oom_kill_without_a_limit_does_not_invent_one),
        cmocka_unit_test(test_an_oom_kill_far_below_the_limit_does_not_blame_it),
        cmocka_unit_test(test_likely_causes_of_signals_are_named),
        cmocka_unit_test(test_refused_forks_are_said_after_a_normal_exit),
        cmocka_unit_test(test_processes_that_did_not_end_are_said),
        cmocka_unit_test(test_notes_never_begin_with_a_space),
        cmocka_unit_test(test_a_name_that_the_guest_chose_is_safe_to_print),
        cmocka_unit_test(test_every_status_can_be_reached_by_random_facts_and_is_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
