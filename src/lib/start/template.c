/* SPDX-License-Identifier: MIT */
/* Implements brig_template_*() of brig.h. A template is a run whose guest forks the guests of other
 * runs, which are its calls.
 *   template_ref.c   counts the references to a template
 *   plan_template.c  splits its plan into its own part and the part of its calls
 *   template_fork.c  makes it fork */
#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "lib/spec/spec.h"
#include "lib/spec/template_ref.h"
#include "lib/spawn/template_talk.h"

#define STAGE "template"

int brig_template_start(struct brig *brig, const struct brig_spec *spec, struct brig_template **out,
                        struct brig_run **run, struct brig_error *err)
{
    struct brig_template *template = template_new();
    struct brig_spec *copy = spec_copy(spec);
    if (!template || !copy) {
        template_drop(template);
        brig_spec_free(copy);
        return error_memory(err, STAGE);
    }
    copy->serves = template_hold(template);
    int ret = brig_start(brig, copy, run, err);
    brig_spec_free(copy);
    if (ret < 0)
        template_drop(template);
    else
        *out = template;
    return ret;
}

void brig_template_free(struct brig_template *template)
{
    template_drop(template);
}

int brig_template_fd(const struct brig_template *template)
{
    return template->socket;
}

int brig_template_ready(struct brig_template *template, struct brig_error *err)
{
    int pidfd = -1, ret = 0;
    pthread_mutex_lock(&template->lock);
    if (!template->ready) {
        ret = talk_reply(template->socket, 0, &pidfd);
        template->ready = ret == 0;
    }
    bool ready = template->ready;
    pthread_mutex_unlock(&template->lock);
    fd_close_at(&pidfd);
    if (ready)
        return 1;
    if (ret == -ETIMEDOUT)
        return 0;
    return error_system(err, STAGE, ECONNRESET, "the template has ended before it was ready");
}
