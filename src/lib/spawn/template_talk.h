/* What is said to a template and what it answers (child/fork.h has the messages). It is a guest:
 * what it answers is checked. */
#ifndef LIB_TEMPLATE_TALK_H
#define LIB_TEMPLATE_TALK_H

#include "child/enter.h"
#include "lib/plan/plan.h"

/* Ask for a fork with the descriptors of `enter`. 0 or -errno; -E2BIG: there is too much to be
 * said. */
int talk_request(int socket, const struct plan *plan, const struct enter *enter,
                 const struct init_setup *setup);

/* The answer: a pid as the template sees it, with its pidfd; 0: it is ready; or -errno, -ETIMEDOUT
 * if there is none yet. */
int talk_reply(int socket, int timeout_ms, int *pidfd);

/* The number that a call's init has here. The template may have sent anything as its pidfd, and
 * what that names is ended with the call: it has to be the first process of a namespace below the
 * template's, which knows it by the number that it told. 0: it has ended; -EPROTO: it is none. */
int talk_pid(int pidfd, int told);

#endif
