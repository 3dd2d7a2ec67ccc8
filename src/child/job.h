/* SPDX-License-Identifier: MIT */
/* The job of a guest that was created ahead of time: the message in which the supervisor sends it.
 */
#ifndef CHILD_JOB_H
#define CHILD_JOB_H

#include "protocol.h"

struct job {
    char *path, **argv, **envp; /* in static memory that the next job overwrites */
    const char *input;          /* NULL if the job has no input */
    uint32_t input_len;
};

/* Receive the job from the socket. A file descriptor sent with it replaces stdin. Returns 0 or
 * -errno; -ECANCELED means that the supervisor is gone. Blocks. */
long job_receive(int socket, struct job *job);

#endif
