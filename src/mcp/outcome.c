/* SPDX-License-Identifier: MIT */
/* The data kept of a finished run after its memory is freed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

#define OUTPUT_MAX (3u << 20) /* an answer has it twice, once with its quotes escaped */

static char *copy(const char *json, size_t len)
{
    return json ? strndup(json, len) : NULL;
}

static void keep_answer(struct run *run)
{
    const struct brig_answer *answer = brig_call_answer(run->call);
    struct outcome *o = &run->outcome;
    char text[160];
    if (!answer)
        return;
    o->ok = answer->ok;
    o->error = answer->error ? strdup(answer->error) : NULL;
    if (answer->output_len + answer->metadata_len > OUTPUT_MAX) {
        snprintf(text, sizeof text,
                 "the output of the tool has %zu bytes, but an answer can have at most %u: ask the "
                 "tool for less",
                 answer->output_len + answer->metadata_len, OUTPUT_MAX);
        free(o->error);
        o->ok = false;
        o->error = strdup(text);
        return;
    }
    o->output = copy(answer->output, answer->output_len);
    o->output_len = o->output ? answer->output_len : 0;
    o->metadata = copy(answer->metadata, answer->metadata_len);
    o->metadata_len = o->metadata ? answer->metadata_len : 0;
}

void outcome_keep(struct run *run, const struct brig_result *result)
{
    struct outcome *o = &run->outcome;
    const char *notes = result->notes;
    if (result->status == BRIG_ERROR && result->error)
        notes = result->error->text;
    o->status = result->status;
    o->exit_code = result->exit_code;
    o->signal = result->signal;
    o->notes = notes ? strdup(notes) : NULL;
    for (const char *const *hint = result->hints; hint && *hint; hint++)
        (void)strings_add_text(&o->hints, *hint);
    o->wall_ns = result->usage.wall_ns;
    o->memory_peak = result->usage.memory_peak_bytes;
    o->redacted = result->out.redacted + result->err.redacted;
    snprintf(o->tier, sizeof o->tier, "%s", result->isolation.tier ? result->isolation.tier : "");
    if (run->call)
        keep_answer(run);
}
