/* SPDX-License-Identifier: MIT */
/* The plans of templates and their calls. See template_ref.h for references, and template_fork.h
 * for forks. */
#ifndef LIB_PLAN_TEMPLATE_H
#define LIB_PLAN_TEMPLATE_H

#include "plan.h"

/* Take the operations of calls out of the plan of a run that is to be a template, and keep them in
 * the template. */
int template_take(struct brig_template *template, struct plan *plan, struct brig_error *err);

/* Make the part of a call's plan that is the cell. Refuses settings that a call cannot have for
 * itself. */
int template_plan(struct brig_template *template, struct plan *plan, const struct brig_spec *spec,
                  struct brig_error *err);

/* Returns a path of the caller that calls are shown and that was replaced since; NULL if there is
 * none. */
const char *template_stale(const struct brig_template *template);

#endif
