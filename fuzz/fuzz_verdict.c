/* SPDX-License-Identifier: MIT */
/* lib/verdict.c: any facts give one status, matching codes, and printable notes. */
#include "lib/result/verdict.h"

#include <signal.h>

#include "target.h"

static struct facts facts_from(struct input *input, char why[64])
{
    static const int codes[] = {CLD_EXITED, CLD_KILLED, CLD_DUMPED, 0};
    uint64_t flags = input_number(input, 1);
    const uint8_t *bytes;
    struct facts facts = {
        .main_ended = flags & 1,
        .output_over = flags & 2,
        .truncate_output = flags & 4,
        .stuck = flags & 8,
        .why = flags & 16 ? why : NULL,
        .code = codes[flags >> 5 & 3],
        .reason = (enum end_reason)(input_number(input, 1) % (END_READER_GONE + 1)),
        .status = (int)input_number(input, 1),
        .pid = (int)input_number(input, 4),
    };
    uint64_t *const numbers[] = {
        &facts.oom_kills,           &facts.pids_refused,
        &facts.pids_seen,           &facts.output_omitted,
        &facts.usage.cpu_user_ns,   &facts.usage.cpu_system_ns,
        &facts.limits.memory_bytes, &facts.usage.memory_peak_bytes,
        &facts.limits.pids,         &facts.limits.timeout_ns,
        &facts.limits.cpu_time_ns,  &facts.limits.output_bytes,
    };
    /* Mostly small, sometimes the value for unknown or unlimited, sometimes any number. */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uint64_t value = input_number(input, 1);
        *numbers[i] = value == 255   ? BRIG_UNKNOWN
                      : value == 254 ? input_number(input, 8)
                                     : value * value;
    }
    size_t len = input_bytes(input, &bytes, sizeof facts.comm);
    memcpy(facts.comm, bytes, len);
    len = input_bytes(input, &bytes, 63);
    memcpy(why, bytes, len);
    why[len] = 0;
    facts.sink_errors[0] = (int)input_number(input, 1);
    facts.sink_errors[1] = (int)input_number(input, 1);
    return facts;
}

static void check_codes(const struct facts *facts, const struct verdict *verdict)
{
    bool exited = facts->main_ended && facts->code == CLD_EXITED;
    ensure((unsigned)verdict->status <= BRIG_ERROR);
    ensure(verdict->exit_code == (exited ? facts->status : -1));
    ensure(verdict->signal == (facts->main_ended && !exited ? facts->status : 0));
    ensure(verdict->status != BRIG_EXITED || exited);
    ensure(verdict->status != BRIG_SIGNALED || (facts->main_ended && !exited));
    ensure(verdict->status != BRIG_ERROR || !facts->main_ended);
    /* A memory verdict is based on the kernel's count, or says that it was sampled. */
    bool counted = facts->oom_kills != BRIG_UNKNOWN && facts->oom_kills > 0;
    ensure((verdict->status == BRIG_MEMORY_LIMIT) == (counted || facts->reason == END_MEMORY));
}

static void check_notes(const struct facts *facts, const struct verdict *verdict, const char *notes)
{
    size_t len = strlen(notes);
    ensure(is_printable(notes));
    if (len == 0) {
        ensure(verdict->status == BRIG_EXITED);
        return;
    }
    ensure(notes[len - 1] == '.');
    ensure(notes[0] != ' ' || facts->comm[0] == ' '); /* a process name chosen by the guest */
    ensure(!facts->stuck || strstr(notes, "SIGKILL"));
    ensure(!(facts->output_over && facts->truncate_output) || strstr(notes, "were left out"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    char why[64];
    struct buf buf;
    struct facts facts = facts_from(&input, why);
    struct verdict verdict = verdict_of(&facts);
    check_codes(&facts, &verdict);
    buf_init(&buf, 4096);
    verdict_notes(&facts, &verdict, &buf);
    ensure(buf_failed(&buf) == 0);
    char *notes = target_text((const uint8_t *)buf.data, buf.len);
    check_notes(&facts, &verdict, notes);
    free(notes);
    buf_done(&buf);
    return 0;
}
