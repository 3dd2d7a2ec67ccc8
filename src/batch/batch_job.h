/* SPDX-License-Identifier: MIT */
/* A line of the input as a job: its name and its spec. */
#ifndef CLI_BATCH_JOB_H
#define CLI_BATCH_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "brig.h"

#define JOB_ID_MAX 128

struct job {
    char id[JOB_ID_MAX + 1];
    uint64_t line, hash;
};

/* The defaults of all jobs, and the name of the input in messages. */
struct job_source {
    const char *name;
    const char *defaults_name;
    char *defaults; /* JSON, or NULL */
    size_t defaults_len;
};

/* Parse a line. The caller sets the job's line and hash. The id is the number of the line unless
 * the text has another one, also on failure. */
int job_read(struct job *job, const struct job_source *source, const char *text, size_t len,
             struct brig_spec **spec, struct brig_error *err);

/* Set the id to the number of the line, for a line that cannot be parsed. */
void job_name(struct job *job);

/* The result of a job as one line: the members of the job, then those of `result`, the library's
 * object, which ends with a newline. The hash is included if the line is for a journal. Returns new
 * memory, or NULL if memory is short. */
char *job_result(const struct job *job, bool ok, bool with_hash, const char *result,
                 size_t result_len, size_t *len);

#endif
