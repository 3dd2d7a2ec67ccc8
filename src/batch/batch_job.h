/* A line of the input as a job: its name, and the spec that it is. */
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

/* What every job has that does not say otherwise, and how the input is called in messages. */
struct job_source {
    const char *name;
    const char *defaults_name;
    char *defaults; /* JSON, or NULL */
    size_t defaults_len;
};

/* The job's line and hash are set by the caller; its id is the line's number until the text says
 * otherwise, also when it fails. */
int job_read(struct job *job, const struct job_source *source, const char *text, size_t len,
             struct brig_spec **spec, struct brig_error *err);

/* For a line that never was read: the id is its number. */
void job_name(struct job *job);

/* The result of a job as a line: what is known of the job, then the object that the library made,
 * which ends with a newline. With the hash if it goes to a journal. New memory; NULL without. */
char *job_result(const struct job *job, bool ok, bool with_hash, const char *result,
                 size_t result_len, size_t *len);

#endif
