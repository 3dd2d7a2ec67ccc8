/* SPDX-License-Identifier: MIT */
/* Jobs of a batch. */
#include "batch_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/jsonr.h"
#include "base/jsonw.h"
#include "cli/options.h"

#define STAGE "job"

void job_name(struct job *job)
{
    snprintf(job->id, sizeof job->id, "%" PRIu64, job->line);
}

/* The JSON reader counts lines within one job, which is a single line: replace its place by
 * ours. */
static int tell_place(const struct job *job, const struct job_source *source, int errnum,
                      struct brig_error *err)
{
    static const char one_line[] = STAGE ": line 1, ", plain[] = STAGE ": ";
    const struct brig_error found = *err;
    if (errnum == ENOMEM)
        return -ENOMEM;
    if (strncmp(found.text, one_line, sizeof one_line - 1) == 0)
        return error_usage(err, STAGE, "%.200s: line %" PRIu64 ", %s", source->name, job->line,
                           found.text + sizeof one_line - 1);
    size_t from = strncmp(found.text, plain, sizeof plain - 1) == 0 ? sizeof plain - 1 : 0;
    return error_usage(err, STAGE, "%.200s: line %" PRIu64 ": %s", source->name, job->line,
                       found.text + from);
}

static int take_id(struct job *job, const struct jsonr *id, const char *where,
                   struct brig_error *err)
{
    if (id->type != JSONR_STRING)
        return error_usage(err, STAGE, "%s: id: is not a string", where);
    if (id->len == 0 || id->len > JOB_ID_MAX)
        return error_usage(err, STAGE, "%s: id: has %zu bytes; 1 to %d are allowed", where, id->len,
                           JOB_ID_MAX);
    memcpy(job->id, id->text, id->len + 1);
    return 0;
}

/* Copy the object without its "id", which is not a key of the library. */
static int write_rest(const struct jsonr *object, struct buf *rest, const char *where,
                      struct brig_error *err)
{
    struct jsonw w;
    jsonw_init(&w, rest);
    jsonw_open(&w, NULL, '{');
    for (const struct jsonr *member = object->first; member; member = member->next) {
        if (strcmp(member->key, "id") != 0)
            jsonr_write(&w, member->key, member);
    }
    jsonw_close(&w, '}');
    if (buf_failed(rest) == -ENOMEM)
        return error_memory(err, STAGE);
    if (buf_failed(rest) < 0 || rest->len > BRIG_SPEC_MAX)
        return error_usage(err, STAGE, "%s: is larger than %u bytes", where, BRIG_SPEC_MAX);
    return 0;
}

/* No job may read the batch's stdin: all jobs would share it, and it may be the list of jobs. */
static int check_stdin(const struct jsonr *object, const char *where, struct brig_error *err)
{
    const struct jsonr *path = jsonr_get(object, "stdin");
    if (path && path->type == JSONR_STRING && strcmp(path->text, "-") == 0)
        return error_usage(err, STAGE, "%s: stdin: a job cannot read brig's stdin (-); name a file",
                           where);
    return 0;
}

static int fill_spec(struct brig_spec *spec, const struct job_source *source,
                     const struct buf *rest, const char *where, struct brig_error *err)
{
    int ret = 0;
    if (source->defaults)
        ret = brig_spec_read_json(spec, source->defaults, source->defaults_len,
                                  source->defaults_name, err);
    if (ret == 0)
        ret = brig_spec_read_json(spec, rest->data, rest->len, where, err);
    if (ret == 0)
        ret = options_environment(spec, err);
    return ret;
}

int job_read(struct job *job, const struct job_source *source, const char *text, size_t len,
             struct brig_spec **out, struct brig_error *err)
{
    char where[256];
    struct buf rest;
    struct brig_spec *spec = NULL;
    job_name(job);
    struct jsonr *object = jsonr_object(text, len, BRIG_SPEC_MAX, STAGE, STAGE, err);
    if (!object)
        return tell_place(job, source, errno, err);
    snprintf(where, sizeof where, "%.200s: line %" PRIu64, source->name, job->line);
    buf_init(&rest, 6 * BRIG_SPEC_MAX);
    const struct jsonr *id = jsonr_get(object, "id");
    int ret = id ? take_id(job, id, where, err) : 0;
    if (ret == 0)
        ret = check_stdin(object, where, err);
    if (ret == 0)
        ret = write_rest(object, &rest, where, err);
    if (ret == 0)
        ret = brig_spec_new(&spec, err);
    if (ret == 0)
        ret = fill_spec(spec, source, &rest, where, err);
    buf_done(&rest);
    jsonr_free(object);
    if (ret < 0)
        brig_spec_free(spec);
    else
        *out = spec;
    return ret;
}

char *job_result(const struct job *job, bool ok, bool with_hash, const char *result,
                 size_t result_len, size_t *len)
{
    struct buf line;
    struct jsonw w;
    char hash[17];
    buf_init(&line, result_len + 6 * JOB_ID_MAX + 256);
    jsonw_init(&w, &line);
    jsonw_open(&w, NULL, '{');
    jsonw_uint(&w, "line", job->line);
    snprintf(hash, sizeof hash, "%016" PRIx64, job->hash);
    if (with_hash)
        jsonw_text(&w, "hash", hash);
    jsonw_bool(&w, "ok", ok);
    jsonw_text(&w, "job", job->id);
    buf_text(&line, ",");
    buf_add(&line, result + 1, result_len - 1); /* after its opening brace */
    char *taken = buf_take(&line, len);
    buf_done(&line);
    return taken;
}
