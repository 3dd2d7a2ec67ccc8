/* The job of a guest that was made ahead, as a message of the supervisor. */
#ifndef CHILD_JOB_H
#define CHILD_JOB_H

#include "protocol.h"

struct job {
    char *path, **argv, **envp; /* in memory that the next job would overwrite */
    const char *input;          /* NULL: it has none */
    uint32_t input_len;
};

/* Take the job off the socket; another stdin that comes with it becomes descriptor 0. Returns 0 or
 * -errno; -ECANCELED: there is nobody left to send one. Waits. */
long job_receive(int socket, struct job *job);

#endif
