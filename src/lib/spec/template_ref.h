/* SPDX-License-Identifier: MIT */
/* References to a template. It is reference-counted, because the specs and plans of its calls
 * outlive the caller's handle. Only plan_template.c knows how a call works. */
#ifndef LIB_TEMPLATE_REF_H
#define LIB_TEMPLATE_REF_H

#include <pthread.h>
#include <stdbool.h>

#include "brig.h"

struct template_cell; /* the part that all its calls share: plan_template.c */

struct brig_template {
    unsigned references;
    int pid;              /* the process that started it: a fork of that process must not use it */
    int socket;           /* our end; -1 if it is not started yet */
    pthread_mutex_t lock; /* one request at a time */
    bool ready;
    struct template_cell *cell; /* NULL if it has no plan yet */
    void (*cell_free)(struct template_cell *cell);
};

struct brig_template *template_new(void); /* with one reference; NULL without memory */
struct brig_template *template_hold(struct brig_template *template); /* accepts NULL */
void template_drop(struct brig_template *template);                  /* accepts NULL */

#endif
