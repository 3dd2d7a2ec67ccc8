/* SPDX-License-Identifier: MIT */
/* Forks of a template: its socket, and the request for a call. */
#ifndef LIB_TEMPLATE_FORK_H
#define LIB_TEMPLATE_FORK_H

#include "child/enter.h"
#include "lib/plan/plan.h"

/* Open the socket that the run of a template is started with. The caller closes it. Returns -1 and
 * sets errno on failure. */
int template_open_socket(struct brig_template *template);

/* Make the memory file of a call. */
int template_make_memory(int *memory, struct brig_error *err);

/* Make the template fork a call as the plan says, with the file descriptors of `enter`. Returns the
 * pid of init, 0 if it has already ended, or -errno. */
int template_fork(struct brig_template *template, const struct plan *plan,
                  const struct enter *enter, const struct init_setup *setup, int *pidfd,
                  struct brig_error *err);

#endif
