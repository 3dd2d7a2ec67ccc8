/* SPDX-License-Identifier: MIT */
/* One call of a tool: checks the arguments before anything is started, passes them on stdin, and
 * turns the result and the end of the run into one answer.
 *
 * Nothing that a guest sends is trusted: an envelope is parsed but never acted upon, and a run that
 * did not end well has no output, even if it sent some before. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "envelope.h"
#include "lib/result/result.h"
#include "lib/run/run.h"
#include "tools.h"

#define STAGE       "call"
#define SCHEMA      "brig.call/1"
#define ID_MAX      128
#define CHECKED_MAX (8u << 20) /* bytes of an output that has a schema */
#define LAST_WORDS  400        /* bytes of stderr in the message of a failed call */
#define ERROR_MAX   65536      /* bytes of a tool's own error */
#define MARKER_SIZE 64
#define ROOM        (1u << 16)

struct brig_call {
    const struct tool *tool;
    char id[ID_MAX + 1];
    struct brig_spec *spec;
    struct brig_run *run;
    int arguments; /* a memfd, which the stdin relay passes on */
    char begin[MARKER_SIZE], end[MARKER_SIZE];
    bool answered;
    struct brig_answer answer;
    char *output, *error; /* storage of the answer, unless it refers to the bytes of the run */
};

/* ---- start -------------------------------------------------------------------------------------
 */

static int make_nonce(char out[33], struct brig_error *err)
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return error_system(err, STAGE, errno, "getrandom: %s", error_text(errno));
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return 0;
}

/* Use the caller's id, or generate one. */
static int choose_id(char out[ID_MAX + 1], const char *id, struct brig_error *err)
{
    char nonce[33];
    if (id && (!*id || strlen(id) > ID_MAX))
        return error_usage(err, STAGE, "call_id: has to be 1 to %d bytes", ID_MAX);
    int ret = id ? 0 : make_nonce(nonce, err);
    if (ret == 0 && id)
        snprintf(out, ID_MAX + 1, "%s", id);
    else if (ret == 0)
        snprintf(out, ID_MAX + 1, "c%.16s", nonce);
    return ret;
}

static int unknown_tool(const struct brig_tools *tools, const char *name, struct brig_error *err)
{
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < tools->count && used < sizeof names - 70; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 tools->items[i].told.name);
    return error_usage(err, STAGE, "%s: there is no tool \"%.*s\"; there are: %s", tools->name,
                       (int)text_cut(name, 80), name, names);
}

static int check_arguments(const struct tool *tool, const char *args, size_t len,
                           struct brig_error *err)
{
    char place[128];
    snprintf(place, sizeof place, "%s: arguments", tool->told.name);
    struct jsonr *root = jsonr_object(args, len, BRIG_ARGS_MAX, place, STAGE, err);
    if (!root)
        return -errno;
    int ret = tool->input ? schema_check(tool->input, root, place, err) : 0;
    jsonr_free(root);
    return ret;
}

/* Keep the arguments in memory only: neither a command line nor a named file shows them. */
static int keep_arguments(struct brig_call *call, const char *args, size_t len,
                          struct brig_error *err)
{
    call->arguments = memfd_create("brig-arguments", MFD_CLOEXEC);
    if (call->arguments < 0)
        return error_system(err, STAGE, errno, "memfd_create: %s", error_text(errno));
    for (size_t done = 0; done < len;) {
        ssize_t n = pwrite(call->arguments, args + done, len - done, (off_t)done);
        if (n < 0 && errno != EINTR)
            return error_system(err, STAGE, errno, "arguments: %s", error_text(errno));
        done += n > 0 ? (size_t)n : 0;
    }
    return brig_spec_set_stdin(call->spec, call->arguments, err);
}

static int set_variable(struct brig_call *call, const char *name, const char *value,
                        struct brig_error *err)
{
    char entry[ID_MAX + MARKER_SIZE];
    snprintf(entry, sizeof entry, "%s=%s", name, value);
    return brig_spec_set(call->spec, "env", entry, BRIG_FROM_OPTION, NULL, err);
}

/* Create the markers that a tool prints around its envelope if it can only print. They contain a
 * random number: a web page that the tool fetched, or a file that it shows, cannot forge them. */
static int make_markers(struct brig_call *call, struct brig_error *err)
{
    char nonce[33];
    int ret = make_nonce(nonce, err);
    if (ret < 0)
        return ret;
    snprintf(call->begin, sizeof call->begin, "<<<brig:%s:result>>>", nonce);
    snprintf(call->end, sizeof call->end, "<<<brig:%s:end>>>", nonce);
    ret = set_variable(call, "BRIG_RESULT_BEGIN", call->begin, err);
    return ret == 0 ? set_variable(call, "BRIG_RESULT_END", call->end, err) : ret;
}

static int prepare(struct brig_call *call, const char *args, size_t len, struct brig_error *err)
{
    const struct tool *tool = call->tool;
    call->spec = spec_copy(tool->spec);
    if (!call->spec)
        return error_memory(err, STAGE);
    int ret = keep_arguments(call, args, len, err);
    if (ret == 0)
        ret = set_variable(call, "BRIG_TOOL", tool->told.name, err);
    if (ret == 0)
        ret = set_variable(call, "BRIG_CALL_ID", call->id, err);
    if (ret == 0 && tool->result == TOOL_RESULT_MARKERS && !tool->begin)
        ret = make_markers(call, err);
    return ret;
}

int brig_call_start(struct brig *brig, const struct brig_tools *tools, const char *name,
                    const char *args, size_t len, const char *id, struct brig_call **out,
                    struct brig_error *err)
{
    const struct tool *tool = tools_find(tools, name);
    if (!tool) {
        int unknown = unknown_tool(tools, name, err);
        spec_hide_error(NULL, err);
        return unknown;
    }
    struct brig_call *call = calloc(1, sizeof *call);
    if (!call)
        return error_memory(err, STAGE);
    call->arguments = -1;
    call->tool = tool;
    int ret = choose_id(call->id, id, err);
    if (ret == 0 && len == 0) {
        args = "{}";
        len = 2;
    }
    if (ret == 0)
        ret = check_arguments(tool, args, len, err);
    if (ret == 0)
        ret = prepare(call, args, len, err);
    if (ret == 0) {
        brig_spec_hide_host(call->spec); /* a model reads the answer */
        ret = brig_start(brig, call->spec, &call->run, err);
    }
    if (ret < 0) {
        spec_hide_error(tool->spec, err);
        brig_call_free(call);
        return ret;
    }
    *out = call;
    return 0;
}

void brig_call_free(struct brig_call *call)
{
    if (!call)
        return;
    brig_run_free(call->run);
    brig_spec_free(call->spec);
    fd_close_at(&call->arguments);
    free(call->output);
    free(call->error);
    free(call);
}

struct brig_run *brig_call_run(const struct brig_call *call)
{
    return call->run;
}

const char *brig_call_id(const struct brig_call *call)
{
    return call->id;
}

/* ---- the answer --------------------------------------------------------------------------------
 */

/* Make the answer an error with this text. */
static void fail(struct brig_call *call, const char *text)
{
    const struct redact_rules *rules = call->run->plan.rules;
    free(call->error);
    call->error = rules ? redact_copy(rules, text) : strdup(text);
    call->answer = (struct brig_answer){.error = call->error ? call->error : "out of memory"};
}

/* The text of a JSON string; any other JSON unchanged. */
static char *text_of(struct jsonscan_span json)
{
    char *text = NULL;
    if (json.at[0] != '"' || json.len > ERROR_MAX)
        return strndup(json.at, json.len < ERROR_MAX ? json.len : ERROR_MAX);
    autofree char *object = NULL;
    if (asprintf(&object, "{\"x\":%.*s}", (int)json.len, json.at) < 0) {
        object = NULL;
        return NULL;
    }
    size_t len = strlen(object);
    struct jsonr *root = jsonr_object(object, len, len, "error", STAGE, NULL);
    if (root && root->first)
        text = strdup(root->first->text);
    jsonr_free(root);
    /* Cannot be decoded (\u0000, for example): unchanged. */
    return text ? text : strndup(json.at, json.len);
}

static void fail_as_told(struct brig_call *call, const struct envelope *envelope)
{
    autofree char *text = envelope->error.len ? text_of(envelope->error) : NULL;
    struct jsonscan_span metadata = envelope->metadata;
    fail(call, text ? text : "the tool reports a failure, but no reason");
    call->answer.metadata = metadata.len ? metadata.at : NULL;
    call->answer.metadata_len = metadata.len;
}

/* Add the end of stderr, which explains more than an exit code. */
static void fail_with_last_words(struct brig_call *call, const char *text)
{
    const struct brig_output *err = &brig_run_result(call->run)->err;
    char words[LAST_WORDS * 4 + 1] = "", message[sizeof words + 512];
    size_t len = err->len, start;
    while (len > 0 && strchr(" \t\r\n", err->data[len - 1]) && err->data[len - 1])
        len--;
    start = len > LAST_WORDS ? len - LAST_WORDS : 0;
    while (start > 0 && start < len && (err->data[start] & 0xc0) == 0x80)
        start++;
    if (len > start)
        brig_escape((const char *)err->data + start, len - start, words, sizeof words);
    snprintf(message, sizeof message, "%s%s%s", text, *words ? "; stderr ends with: " : "", words);
    fail(call, message);
}

/* Find the result that was sent or printed. Returns false with the reason in `why` if there is
 * none. */
static bool find_envelope(const struct brig_call *call, struct envelope *envelope,
                          char why[ENVELOPE_WHY_SIZE])
{
    const struct brig_result *result = brig_run_result(call->run);
    const struct tool *tool = call->tool;
    struct jsonscan_span json = {result->output, result->output_len};
    if (tool->result == TOOL_RESULT_CHANNEL && result->output_fault) {
        snprintf(why, ENVELOPE_WHY_SIZE, "%s", result->output_fault);
        return false;
    }
    if (tool->result == TOOL_RESULT_MARKERS && (result->out.truncated || result->out.error)) {
        snprintf(why, ENVELOPE_WHY_SIZE,
                 "its output is incomplete, because it is over the output budget");
        return false;
    }
    if (tool->result == TOOL_RESULT_MARKERS &&
        !envelope_find(&json, result->out.data ? (const char *)result->out.data : "",
                       result->out.len, tool->begin ? tool->begin : call->begin,
                       tool->end ? tool->end : call->end, why))
        return false;
    return envelope_read(envelope, json.at, json.len, why);
}

/* Answer with all of stdout as a JSON string, or with marked base64 if it is not text. */
static void answer_with_stdout(struct brig_call *call)
{
    const struct brig_output *out = &brig_run_result(call->run)->out;
    struct buf buf;
    struct jsonw w;
    bool utf8 = text_is_utf8(out->data, out->len);
    if (out->truncated || out->error) {
        fail(call, "the output of the tool is incomplete, because it is over the output budget");
        return;
    }
    buf_init(&buf, out->len * 6 + ROOM);
    jsonw_init(&w, &buf);
    if (!utf8) {
        jsonw_open(&w, NULL, '{');
        jsonw_text(&w, "encoding", "base64");
    }
    jsonw_bytes(&w, utf8 ? NULL : "data", out->data, out->len, &utf8);
    if (!utf8)
        jsonw_close(&w, '}');
    size_t len = 0;
    call->output = buf_take(&buf, &len);
    if (!call->output)
        fail(call, "out of memory");
    else
        call->answer = (struct brig_answer){.ok = true, .output = call->output, .output_len = len};
}

static bool fits_schema(const struct brig_call *call, struct jsonscan_span output,
                        struct brig_error *err)
{
    if (!call->tool->output)
        return true;
    if (output.len > CHECKED_MAX) {
        error_usage(err, STAGE, "output: is larger than %u bytes, and has a schema", CHECKED_MAX);
        return false;
    }
    const char *text = output.len ? output.at : "null";
    struct jsonr *root =
        jsonr_object(text, output.len ? output.len : 4, CHECKED_MAX, "output", STAGE, err);
    bool fits = root && schema_check(call->tool->output, root, "output", err) == 0;
    jsonr_free(root);
    return fits;
}

static void answer_after_exit(struct brig_call *call, int code)
{
    char why[ENVELOPE_WHY_SIZE] = "", text[ENVELOPE_WHY_SIZE + 128];
    struct envelope envelope = {0};
    struct brig_error err = {0};
    bool found = find_envelope(call, &envelope, why);
    if (found && !envelope.success) {
        fail_as_told(call, &envelope);
    } else if (code != 0) {
        snprintf(text, sizeof text, "the tool exited with %d, and %s", code,
                 found ? "the result that it sent before does not count" : why);
        fail_with_last_words(call, text);
    } else if (!found) {
        snprintf(text, sizeof text, "the tool exited with 0, but %s", why);
        fail_with_last_words(call, text);
    } else if (!fits_schema(call, envelope.output, &err)) {
        fail(call, err.text);
    } else {
        call->answer = (struct brig_answer){
            .ok = true,
            .output = envelope.output.len ? envelope.output.at : NULL,
            .output_len = envelope.output.len,
            .metadata = envelope.metadata.len ? envelope.metadata.at : NULL,
            .metadata_len = envelope.metadata.len,
        };
    }
}

static void make_answer(struct brig_call *call, const struct brig_result *result)
{
    char text[1024];
    if (result->status != BRIG_EXITED) {
        snprintf(text, sizeof text, "%s: %s", brig_status_name(result->status),
                 result->notes ? result->notes : "the tool was ended");
        if (result->status == BRIG_SIGNALED)
            fail_with_last_words(call, text);
        else
            fail(call, text);
    } else if (call->tool->result != TOOL_RESULT_STDOUT) {
        answer_after_exit(call, result->exit_code);
    } else if (result->exit_code == 0) {
        answer_with_stdout(call);
    } else {
        snprintf(text, sizeof text, "the tool exited with %d", result->exit_code);
        fail_with_last_words(call, text);
    }
}

const struct brig_answer *brig_call_answer(struct brig_call *call)
{
    const struct brig_result *result = brig_run_result(call->run);
    if (!result)
        return NULL;
    if (!call->answered)
        make_answer(call, result);
    call->answered = true;
    return &call->answer;
}

/* ---- as JSON -----------------------------------------------------------------------------------
 */

static void add_json(struct jsonw *w, const char *key, const char *json, size_t len)
{
    if (json && len)
        jsonw_raw(w, key, json, len);
    else
        jsonw_null(w, key);
}

int brig_call_json(struct brig_call *call, char **out, size_t *len, struct brig_error *err)
{
    const struct brig_answer *answer = brig_call_answer(call);
    const struct brig_result *result = brig_run_result(call->run);
    struct buf buf;
    struct jsonw w;
    char *text = NULL;
    size_t text_len = 0;
    if (!answer)
        return error_usage(err, STAGE, "the call is still running");
    int ret = brig_result_json(result, &text, &text_len, err);
    if (ret < 0)
        return ret;
    buf_init(&buf, (text_len + answer->output_len + answer->metadata_len +
                    (answer->error ? strlen(answer->error) : 0)) *
                           6 +
                       ROOM);
    jsonw_init(&w, &buf);
    jsonw_open(&w, NULL, '{');
    jsonw_text(&w, "schema", SCHEMA);
    jsonw_text(&w, "call_id", call->id);
    jsonw_text(&w, "tool", call->tool->told.name);
    jsonw_bool(&w, "ok", answer->ok);
    add_json(&w, "output", answer->output, answer->output_len);
    jsonw_text(&w, "error", answer->error);
    add_json(&w, "metadata", answer->metadata, answer->metadata_len);
    jsonw_bool(&w, "denied", false);
    jsonw_null(&w, "reason");
    jsonw_decimal(&w, "duration_ms", result->usage.wall_ns / 1000, 1000);
    jsonw_raw(&w, "result", text, text_len);
    jsonw_close(&w, '}');
    buf_text(&buf, "\n");
    free(text);
    return result_take(&buf, STAGE, out, len, err);
}

int brig_call_error_json(const char *name, const char *id, const struct brig_error *error,
                         char **out, size_t *len, struct brig_error *err)
{
    bool denied = error->fault == BRIG_FAULT_USAGE || error->fault == BRIG_FAULT_REFUSED;
    char chosen[ID_MAX + 1];
    struct brig_error told = *error;
    spec_hide_error(NULL, &told);
    struct buf buf;
    struct jsonw w;
    buf_init(&buf, ROOM);
    jsonw_init(&w, &buf);
    jsonw_open(&w, NULL, '{');
    jsonw_text(&w, "schema", SCHEMA);
    jsonw_text(&w, "call_id", choose_id(chosen, id, NULL) == 0 ? chosen : NULL);
    jsonw_text(&w, "tool", name);
    jsonw_bool(&w, "ok", false);
    jsonw_null(&w, "output");
    jsonw_text(&w, "error", told.text);
    jsonw_null(&w, "metadata");
    jsonw_bool(&w, "denied", denied);
    jsonw_text(&w, "reason", denied ? told.text : NULL);
    jsonw_decimal(&w, "duration_ms", 0, 1000);
    jsonw_null(&w, "result");
    jsonw_close(&w, '}');
    buf_text(&buf, "\n");
    return result_take(&buf, STAGE, out, len, err);
}
