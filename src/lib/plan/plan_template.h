/* Templates: a run whose guest forks the guests of other runs, its calls.
 *
 *     template_take() ── what of a plan the template itself does, and what each call has to do
 *     template_plan() ── the cell of a call
 *     template_fork() ── have it made: the template clones itself into init and guest
 *
 * Counted by reference: specs and plans of calls hold it, so that it outlives them. */
#ifndef LIB_TEMPLATE_H
#define LIB_TEMPLATE_H

#include "brig.h"
#include "child/enter.h"
#include "plan.h"

struct brig_template *template_hold(struct brig_template *template); /* NULL stays NULL */
void template_drop(struct brig_template *template);

/* The plan of a run that is to be a template: what holds its calls is taken out of it. */
int template_take(struct brig_template *template, struct plan *plan, struct brig_error *err);

/* The part of a plan that is the cell. Refuses what a call cannot have for itself. */
int template_plan(struct brig_template *template, struct plan *plan, const struct brig_spec *spec,
                  struct brig_error *err);

/* What calls are shown of the caller's and is not there any more as it was; NULL: all of it is. */
const char *template_stale(const struct brig_template *template);

/* The socket that the run of the template is started with, the caller's to close; -1 with errno. */
int template_open_socket(struct brig_template *template);

/* Clone the template as the plan says, with the descriptors of `enter`. Returns the pid of init, 0
 * if that has ended already, or -errno. */
int template_fork(struct brig_template *template, const struct plan *plan,
                  const struct enter *enter, const struct init_setup *setup, int *pidfd,
                  struct brig_error *err);

#endif
