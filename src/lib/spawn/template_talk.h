/* SPDX-License-Identifier: MIT */
/* The requests to a template and its replies; src/child/fork.h has the messages. Called by
 * template_fork.c and start/template.c. The template is an untrusted guest: its replies are
 * checked. */
#ifndef LIB_TEMPLATE_TALK_H
#define LIB_TEMPLATE_TALK_H

#include "child/enter.h"
#include "lib/plan/plan.h"

/* Request a fork with the file descriptors of `enter`. Returns 0 or -errno; -E2BIG if the request
 * is too long. */
int talk_request(int socket, const struct plan *plan, const struct enter *enter,
                 const struct init_setup *setup);

/* Receive a reply. Returns a pid as the template sees it, and its pidfd; 0 if the template is
 * ready; or -errno, -ETIMEDOUT if there is no reply yet. */
int talk_reply(int socket, int timeout_ms, int *pidfd);

/* Returns the pid of a call's init in this pid namespace. The template may have sent any pidfd, and
 * the process behind it is killed with the call. The process must therefore be the first one of a
 * pid namespace below the template's, and `told` must be its pid in the template's namespace.
 * Returns 0 if it has ended, -EPROTO if it is another process. */
int talk_pid(int pidfd, int told);

#endif
