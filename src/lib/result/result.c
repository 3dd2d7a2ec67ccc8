/* SPDX-License-Identifier: MIT */
/* Writes a result as JSON ("brig.result/1") and as an exit code. Implements brig_result_*() of
 * brig.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/jsonw.h"
#include "brig.h"
#include "result.h"

#define SCHEMA "brig.result/1"

/* Added to the space that the output may take. */
#define ROOM (1u << 20)

const char *brig_status_name(enum brig_status status)
{
    static const char *const names[] = {
        [BRIG_EXITED] = "exited",         [BRIG_SIGNALED] = "signaled",
        [BRIG_TIMEOUT] = "timeout",       [BRIG_MEMORY_LIMIT] = "memory_limit",
        [BRIG_PIDS_LIMIT] = "pids_limit", [BRIG_OUTPUT_LIMIT] = "output_limit",
        [BRIG_CPU_LIMIT] = "cpu_limit",   [BRIG_CANCELLED] = "cancelled",
        [BRIG_ERROR] = "error",
    };
    return (size_t)status < sizeof names / sizeof *names ? names[status] : "unknown";
}

int brig_result_exit_code(const struct brig_result *result)
{
    switch (result->status) {
    case BRIG_EXITED:
        return result->exit_code;
    case BRIG_SIGNALED:
        return 128 + result->signal;
    case BRIG_TIMEOUT:
        return 124;
    case BRIG_ERROR:
        return 125;
    case BRIG_MEMORY_LIMIT:
    case BRIG_PIDS_LIMIT:
    case BRIG_OUTPUT_LIMIT:
    case BRIG_CPU_LIMIT:
    case BRIG_CANCELLED:
        return 137; /* killed */
    }
    return 125;
}

int brig_error_exit_code(const struct brig_error *error)
{
    switch (error->fault) {
    case BRIG_FAULT_USAGE:
        return 2;
    case BRIG_FAULT_NOT_EXECUTABLE:
        return 126;
    case BRIG_FAULT_NOT_FOUND:
        return 127;
    default:
        return 125;
    }
}

static void add_output(struct jsonw *w, const char *name, const struct brig_output *output)
{
    char key[32], encoding[32], text[32];
    snprintf(encoding, sizeof encoding, "%s_encoding", name);
    snprintf(text, sizeof text, "%s_text", name);
    const char *const names[] = {name, encoding, text};
    if (output->captured) {
        jsonw_output(w, names, output->data, output->len);
    } else {
        jsonw_null(w, name);
        jsonw_null(w, encoding);
    }
    snprintf(key, sizeof key, "%s_bytes", name);
    jsonw_uint(w, key, output->bytes);
    snprintf(key, sizeof key, "%s_truncated", name);
    jsonw_bool(w, key, output->truncated);
    snprintf(key, sizeof key, "%s_redacted", name);
    jsonw_uint(w, key, output->redacted);
    if (output->error) {
        snprintf(key, sizeof key, "%s_error", name);
        jsonw_text(w, key, error_text(output->error));
    }
    if (!output->truncated)
        return;
    snprintf(key, sizeof key, "%s_omitted_bytes", name);
    jsonw_uint(w, key, output->omitted);
    snprintf(key, sizeof key, "%s_omitted_at", name);
    jsonw_uint(w, key, output->omitted_at);
}

void result_add_hints(struct jsonw *w, const char *const *hints)
{
    jsonw_open(w, "hints", '[');
    for (; hints && *hints; hints++)
        jsonw_text(w, NULL, *hints);
    jsonw_close(w, ']');
}

static void add_answer(struct jsonw *w, const struct brig_result *result)
{
    static const char *const states[] = {
        [BRIG_CHANNEL_OFF] = "off",
        [BRIG_CHANNEL_SILENT] = "silent",
        [BRIG_CHANNEL_SENT] = "sent",
        [BRIG_CHANNEL_HALF] = "half",
        [BRIG_CHANNEL_JUNK] = "junk",
        [BRIG_CHANNEL_TWICE] = "twice",
        [BRIG_CHANNEL_TOO_LARGE] = "too_large",
        [BRIG_CHANNEL_NOT_JSON] = "not_json",
        [BRIG_CHANNEL_NO_MEMORY] = "no_memory",
        [BRIG_CHANNEL_WITHHELD] = "withheld",
    };
    if (result->output_len)
        jsonw_raw(w, "output", result->output, result->output_len);
    else
        jsonw_null(w, "output");
    if (result->channel != BRIG_CHANNEL_OFF)
        jsonw_text(w, "output_state", states[result->channel]);
    if (result->output_fault)
        jsonw_text(w, "output_error", result->output_fault);
}

static void add_usage(struct jsonw *w, const struct brig_usage *usage)
{
    jsonw_open(w, "usage", '{');
    jsonw_counter(w, "wall_seconds", usage->wall_ns, NS_PER_S);
    jsonw_counter(w, "cpu_user_seconds", usage->cpu_user_ns, NS_PER_S);
    jsonw_counter(w, "cpu_system_seconds", usage->cpu_system_ns, NS_PER_S);
    jsonw_counter(w, "memory_peak_bytes", usage->memory_peak_bytes, 1);
    jsonw_counter(w, "pids_peak", usage->pids_peak, 1);
    jsonw_counter(w, "read_bytes", usage->read_bytes, 1);
    jsonw_counter(w, "write_bytes", usage->write_bytes, 1);
    jsonw_close(w, '}');
}

static void add_limits(struct jsonw *w, const struct brig_limits *limits)
{
    jsonw_open(w, "limits", '{');
    jsonw_counter(w, "memory_bytes", limits->memory_bytes, 1);
    jsonw_counter(w, "cpus", limits->milli_cpus, 1000);
    jsonw_counter(w, "pids", limits->pids, 1);
    jsonw_counter(w, "timeout_seconds", limits->timeout_ns, NS_PER_S);
    jsonw_counter(w, "kill_after_seconds", limits->kill_after_ns, NS_PER_S);
    jsonw_counter(w, "cpu_time_seconds", limits->cpu_time_ns, NS_PER_S);
    jsonw_counter(w, "output_bytes", limits->output_bytes, 1);
    jsonw_counter(w, "result_bytes", limits->result_bytes, 1);
    jsonw_counter(w, "open_files", limits->open_files, 1);
    jsonw_counter(w, "file_size_bytes", limits->file_size_bytes, 1);
    jsonw_close(w, '}');
}

static void add_layers(struct jsonw *w, const char *key, const struct brig_isolation *isolation,
                       enum brig_layer_state state)
{
    jsonw_open(w, key, '{');
    for (size_t i = 0; i < isolation->count; i++) {
        if (isolation->layers[i].state == state)
            jsonw_text(w, isolation->layers[i].name, isolation->layers[i].how);
    }
    jsonw_close(w, '}');
}

static void add_isolation(struct jsonw *w, const struct brig_isolation *isolation)
{
    jsonw_open(w, "isolation", '{');
    jsonw_text(w, "tier", isolation->tier);
    jsonw_bool(w, "warm", isolation->warm);
    add_layers(w, "layers", isolation, BRIG_LAYER_APPLIED);
    add_layers(w, "degraded", isolation, BRIG_LAYER_MISSING);
    add_layers(w, "off", isolation, BRIG_LAYER_OFF);
    jsonw_close(w, '}');
}

static void add_labels(struct jsonw *w, const char *const *labels)
{
    jsonw_open(w, "labels", '{');
    for (; labels && *labels; labels++) {
        size_t len = strcspn(*labels, "=");
        autofree char *name = strndup(*labels, len);
        if (name)
            jsonw_text(w, name, (*labels)[len] ? *labels + len + 1 : "");
        else
            w->buf->failed = ENOMEM;
    }
    jsonw_close(w, '}');
}

static void add_error(struct jsonw *w, const struct brig_error *error)
{
    if (!error) {
        jsonw_null(w, "error");
        return;
    }
    jsonw_open(w, "error", '{');
    jsonw_text(w, "stage", error->stage);
    jsonw_int(w, "errno", error->errnum);
    jsonw_text(w, "text", error->text);
    jsonw_close(w, '}');
}

static void add_time(struct jsonw *w, const char *key, int64_t calendar_ns)
{
    char text[CLOCK_TEXT_SIZE];
    clock_format(calendar_ns, text);
    jsonw_text(w, key, text);
}

int result_take(struct buf *buf, const char *stage, char **out, size_t *len, struct brig_error *err)
{
    int failed = buf_failed(buf);
    char *text = buf_take(buf, len);
    if (!text)
        return error_system(err, stage, failed ? -failed : ENOMEM, "cannot write the result: %s",
                            error_text(failed ? -failed : ENOMEM));
    *out = text;
    return 0;
}

int brig_result_json(const struct brig_result *result, char **out, size_t *len,
                     struct brig_error *err)
{
    struct buf buf;
    struct jsonw w;
    size_t labels = 0;
    for (size_t i = 0; result->labels && result->labels[i]; i++)
        labels += strlen(result->labels[i]);
    size_t bytes = result->out.len + result->err.len + labels + result->output_len;
    buf_init(&buf, bytes * JSONW_OUTPUT_MAX + ROOM);
    jsonw_init(&w, &buf);
    jsonw_open(&w, NULL, '{');
    jsonw_text(&w, "schema", SCHEMA);
    jsonw_text(&w, "id", result->id);
    jsonw_text(&w, "status", brig_status_name(result->status));
    if (result->exit_code >= 0)
        jsonw_int(&w, "exit_code", result->exit_code);
    else
        jsonw_null(&w, "exit_code");
    if (result->signal)
        jsonw_int(&w, "signal", result->signal);
    else
        jsonw_null(&w, "signal");
    jsonw_text(&w, "notes", result->notes);
    result_add_hints(&w, result->hints);
    add_output(&w, "stdout", &result->out);
    add_output(&w, "stderr", &result->err);
    add_answer(&w, result);
    add_usage(&w, &result->usage);
    add_limits(&w, &result->limits);
    add_isolation(&w, &result->isolation);
    add_labels(&w, result->labels);
    add_time(&w, "started_at", result->started_at_ns);
    add_time(&w, "finished_at", result->finished_at_ns);
    add_error(&w, result->error);
    jsonw_close(&w, '}');
    buf_text(&buf, "\n");
    return result_take(&buf, "result", out, len, err);
}

int brig_error_json(const struct brig_error *error, char **out, size_t *len, struct brig_error *err)
{
    struct buf buf;
    struct jsonw w;
    buf_init(&buf, ROOM);
    jsonw_init(&w, &buf);
    jsonw_open(&w, NULL, '{');
    jsonw_text(&w, "schema", SCHEMA);
    jsonw_text(&w, "status", brig_status_name(BRIG_ERROR));
    jsonw_null(&w, "exit_code");
    jsonw_null(&w, "signal");
    jsonw_text(&w, "notes", error->text);
    result_add_hints(&w, NULL);
    add_error(&w, error);
    jsonw_close(&w, '}');
    buf_text(&buf, "\n");
    return result_take(&buf, "result", out, len, err);
}
