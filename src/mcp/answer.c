/* SPDX-License-Identifier: MIT */
/* Answers to tool calls: the same object as structured content and as text. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "server.h"

void answer_error(struct server *server, const struct ask *ask, const char *text)
{
    struct reply reply;
    reply_open(&reply, ask);
    jsonw_open(&reply.w, "content", '[');
    jsonw_open(&reply.w, NULL, '{');
    jsonw_text(&reply.w, "type", "text");
    jsonw_text(&reply.w, "text", text);
    jsonw_close(&reply.w, '}');
    jsonw_close(&reply.w, ']');
    jsonw_bool(&reply.w, "isError", true);
    reply_send(&reply, &server->wire);
}

void answer_refusal(struct server *server, const struct ask *ask, struct brig_error *err)
{
    error_advise(err, BRIG_STAGE_ISOLATION,
                 "only the operator of this server can fix this, or allow less with isolation "
                 "auto; ask them to run brig doctor");
    answer_error(server, ask, err->text);
}

static void write_stream(struct jsonw *w, const struct run *run, enum brig_stream stream,
                         uint64_t since)
{
    static const char *const names[][2] = {{"stdout", "stdout_encoding"},
                                           {"stderr", "stderr_encoding"}};
    const char *const *name = names[stream == BRIG_STDERR];
    struct buf bytes;
    bool utf8;
    buf_init(&bytes, RPC_MESSAGE_MAX);
    outlog_read(&run->log, stream, since, &bytes);
    jsonw_bytes(w, name[0], (const unsigned char *)bytes.data, bytes.len, &utf8);
    jsonw_text(w, name[1], utf8 ? "utf-8" : "base64");
    w->buf->failed = bytes.failed ? bytes.failed : w->buf->failed;
    buf_done(&bytes);
}

static void write_end(struct jsonw *w, const struct run *run)
{
    const struct outcome *o = &run->outcome;
    bool exited = run->over && o->exit_code >= 0, signaled = run->over && o->signal > 0;
    if (exited)
        jsonw_int(w, "exit_code", o->exit_code);
    else
        jsonw_null(w, "exit_code");
    if (signaled)
        jsonw_int(w, "signal", o->signal);
    else
        jsonw_null(w, "signal");
    jsonw_text(w, "notes", o->notes);
    if (o->hints.count == 0)
        return;
    jsonw_open(w, "hints", '[');
    for (size_t i = 0; i < o->hints.count; i++)
        jsonw_text(w, NULL, o->hints.items[i]);
    jsonw_close(w, ']');
}

/* The result of a tool, for a client that polled for it. */
static void write_tool(struct jsonw *w, const struct run *run)
{
    const struct outcome *o = &run->outcome;
    jsonw_text(w, "tool", run->tool->name);
    if (o->output)
        jsonw_raw(w, "output", o->output, o->output_len);
    else
        jsonw_null(w, "output");
    jsonw_text(w, "error", o->error);
}

/* The object that schema_output describes. */
static void write_state(struct jsonw *w, const struct run *run, uint64_t since)
{
    uint64_t wall = run->over ? run->outcome.wall_ns : clock_now() - run->started;
    jsonw_open(w, NULL, '{');
    jsonw_text(w, "status", run->over ? brig_status_name(run->outcome.status) : "running");
    if (run->told)
        jsonw_text(w, "run_id", run->id);
    write_end(w, run);
    write_stream(w, run, BRIG_STDOUT, since);
    write_stream(w, run, BRIG_STDERR, since);
    jsonw_uint(w, "sequence", run->log.end);
    jsonw_uint(w, "dropped_bytes", run->log.start > since ? run->log.start - since : 0);
    jsonw_decimal(w, "duration_seconds", wall / NS_PER_MS, 1000);
    if (run->over) {
        jsonw_counter(w, "memory_peak_bytes", run->outcome.memory_peak, 1);
        jsonw_uint(w, "secrets_hidden", run->outcome.redacted);
        jsonw_text(w, "isolation", run->outcome.tier);
    }
    if (run->over && run->tool)
        write_tool(w, run);
    jsonw_close(w, '}');
}

/* Write the text, which is JSON or the JSON string itself, and the object if `structured` is
 * true. */
static void write_content(struct jsonw *w, const char *json, size_t len, bool structured)
{
    bool utf8;
    jsonw_open(w, "content", '[');
    jsonw_open(w, NULL, '{');
    jsonw_text(w, "type", "text");
    if (json[0] == '"')
        jsonw_raw(w, "text", json, len);
    else
        jsonw_bytes(w, "text", (const unsigned char *)json, len, &utf8);
    jsonw_close(w, '}');
    jsonw_close(w, ']');
    if (structured && json[0] == '{')
        jsonw_raw(w, "structuredContent", json, len);
}

static void send_or_say_why(struct server *server, const struct ask *ask, struct reply *reply)
{
    if (!reply_send(reply, &server->wire))
        answer_error(server, ask,
                     "the answer is larger than a message may be: print less, or write the output "
                     "to a file");
}

static void answer_state(struct server *server, const struct waiter *waiter)
{
    const struct run *run = waiter->run;
    const struct ask *ask = &waiter->ask;
    struct reply reply;
    struct buf state;
    struct jsonw w;
    /* The state of a tool that is still running does not match the tool's output schema, which
     * clients check for every answer except errors. */
    bool misfit = waiter->owner && run->tool && run->tool->output_schema;
    buf_init(&state, RPC_MESSAGE_MAX);
    jsonw_init(&w, &state);
    write_state(&w, run, waiter->since);
    reply_open(&reply, ask);
    if (buf_failed(&state))
        reply.buf.failed = state.failed;
    else
        write_content(&reply.w, state.data, state.len, !misfit);
    jsonw_bool(&reply.w, "isError", misfit);
    send_or_say_why(server, ask, &reply);
    buf_done(&state);
}

/* Answer with the output of a tool from the file, without a wrapper. */
static void answer_tool(struct server *server, const struct waiter *waiter)
{
    const struct outcome *o = &waiter->run->outcome;
    struct reply reply;
    if (!o->ok) {
        answer_error(server, &waiter->ask, o->error ? o->error : "out of memory");
        return;
    }
    reply_open(&reply, &waiter->ask);
    write_content(&reply.w, o->output ? o->output : "null", o->output ? o->output_len : 4, true);
    jsonw_bool(&reply.w, "isError", false);
    if (o->metadata) {
        jsonw_open(&reply.w, "_meta", '{');
        jsonw_raw(&reply.w, "brig/metadata", o->metadata, o->metadata_len);
        jsonw_close(&reply.w, '}');
    }
    send_or_say_why(server, &waiter->ask, &reply);
}

void answer_run(struct server *server, const struct waiter *waiter)
{
    const struct run *run = waiter->run;
    if (run->over && run->outcome.status == BRIG_ERROR && !run->tool)
        answer_error(server, &waiter->ask,
                     run->outcome.notes ? run->outcome.notes : "the sandbox failed");
    else if (run->over && run->tool && waiter->owner)
        answer_tool(server, waiter);
    else
        answer_state(server, waiter);
}
