/* The other side of a template (brig.h, docs/TEMPLATES.md): for interpreters, in the guest.
 *
 * An interpreter that is started as a template loads what its calls will need, in one thread, and
 * then calls brig_template_serve(). That forks the interpreter for each call, and returns in the
 * fork, which runs the one call and exits. A static library of its own, libbrig_template.a: it
 * needs nothing of libbrig. */
#ifndef BRIG_TEMPLATE_H
#define BRIG_TEMPLATE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The variable that names the descriptor of the template's socket. */
#define BRIG_TEMPLATE_VARIABLE "BRIG_TEMPLATE_FD"

struct brig_template_hooks {
    void (*before)(void *arg); /* a fork; in the template */
    void (*parent)(void *arg); /* after it, in the template */
    void (*child)(void *arg);  /* after it, in the fork, before its job is there */
    void *arg;                 /* each hook may be NULL */
};

struct brig_template_job {
    char **argv;       /* what the call is named, NULL-terminated */
    char **envp;       /* its environment: to be put in the place of the template's */
    const char *input; /* what came with it, brig_spec_give_input(); NULL if nothing did */
    size_t input_len;
};

/* Say that the template is ready, and serve. Returns 0 in a fork that has its job: descriptor 0 is
 * its stdin, 1 and 2 its streams, 3 its result channel if it has one (BRIG_RESULT_FD); no
 * other is open. Returns -errno in the template: -EBUSY if it has more than one thread, -ENOTSUP
 * if it has memory that its forks would share (MAP_SHARED, and writable), -ECONNRESET when nobody
 * wants it any more. */
int brig_template_serve(int socket, const struct brig_template_hooks *hooks,
                        struct brig_template_job *job);

#ifdef __cplusplus
}
#endif
#endif
