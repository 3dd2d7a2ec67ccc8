/* SPDX-License-Identifier: MIT */
/* Creates, references and releases templates. */
#include "template_ref.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"

struct brig_template *template_new(void)
{
    struct brig_template *template = calloc(1, sizeof *template);
    if (!template)
        return NULL;
    template->references = 1;
    template->pid = getpid();
    template->socket = -1;
    pthread_mutex_init(&template->lock, NULL);
    return template;
}

struct brig_template *template_hold(struct brig_template *template)
{
    if (template)
        __atomic_add_fetch(&template->references, 1, __ATOMIC_RELAXED);
    return template;
}

void template_drop(struct brig_template *template)
{
    if (!template || __atomic_sub_fetch(&template->references, 1, __ATOMIC_ACQ_REL))
        return;
    if (template->cell)
        template->cell_free(template->cell);
    fd_close_at(&template->socket);
    pthread_mutex_destroy(&template->lock);
    free(template);
}
