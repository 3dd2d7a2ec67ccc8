/* SPDX-License-Identifier: MIT */
/* The guest's side of a template (brig.h, docs/TEMPLATES.md), for interpreters.
 *
 * An interpreter that is started as a template loads the modules that its calls need, in one
 * thread, and then calls brig_template_serve(). That function forks the interpreter for each call
 * and returns in the fork, which runs this one call and exits. It is in a static library,
 * libbrig_template.a, which does not depend on libbrig. */
#ifndef BRIG_TEMPLATE_H
#define BRIG_TEMPLATE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The environment variable with the number of the template's socket. */
#define BRIG_TEMPLATE_VARIABLE "BRIG_TEMPLATE_FD"

struct brig_template_hooks {
    void (*before)(void *arg); /* before a fork, in the template */
    void (*parent)(void *arg); /* after a fork, in the template */
    void (*child)(void *arg);  /* after a fork, in the fork, before it gets its job */
    void *arg;                 /* passed to the hooks; each hook may be NULL */
};

struct brig_template_job {
    char **argv;       /* the name of the call, NULL-terminated */
    char **envp;       /* the environment of the call; the fork replaces its own with it */
    const char *input; /* the bytes of brig_spec_give_input(), or NULL */
    size_t input_len;
};

/* Report that the template is ready, and serve its calls.
 *
 * Returns 0 in a fork that has its job. There, file descriptor 0 is stdin, 1 and 2 are stdout and
 * stderr. If the call has a result channel (BRIG_RESULT_FD), it is 3, and 4 is an empty memory file
 * for large parts of the result, which the caller gets if the fork seals it against writing,
 * growing and shrinking before it sends its answer (brig_run_memory()). No other is open.
 *
 * Returns -errno in the template: -EBUSY if it has more than one thread, -ENOTSUP if it has memory
 * that its forks would share (MAP_SHARED and writable), -ECONNRESET if the supervisor has closed
 * the socket. */
int brig_template_serve(int socket, const struct brig_template_hooks *hooks,
                        struct brig_template_job *job);

#ifdef __cplusplus
}
#endif
#endif
