/* SPDX-License-Identifier: MIT */
/* Makes a template fork a call. Called by spawn.c. The template is an untrusted guest;
 * template_talk.c checks its replies. */
#include "template_fork.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "lib/spec/template_ref.h"
#include "template_talk.h"

#define STAGE        "template"
#define REPLY_WITHIN 10000 /* ms */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

int template_open_socket(struct brig_template *template)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    fd_close_at(&template->socket);
    template->socket = ends[0];
    return ends[1];
}

/* The guest writes large parts of its result to this file, and seals it. It is ours from the
 * beginning: no file descriptor is ever taken from a guest. */
int template_make_memory(int *memory, struct brig_error *err)
{
    *memory = memfd_create("brig-result", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (*memory < 0 && errno == EINVAL) /* before Linux 6.3 */
        *memory = memfd_create("brig-result", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*memory < 0)
        return error_system(err, STAGE, errno, "memfd_create: %s", error_text(errno));
    return 0;
}

static int request(struct brig_template *template, const struct plan *plan,
                   const struct enter *enter, const struct init_setup *setup, int *pidfd)
{
    pthread_mutex_lock(&template->lock);
    int ret = talk_request(template->socket, plan, enter, setup);
    if (ret == 0)
        ret = talk_reply(template->socket, REPLY_WITHIN, pidfd);
    /* It is unknown which request the next reply would answer. */
    if (ret == -ETIMEDOUT || ret == -EPROTO)
        shutdown(template->socket, SHUT_RDWR);
    pthread_mutex_unlock(&template->lock);
    return ret;
}

static bool is_ready(struct brig_template *template)
{
    pthread_mutex_lock(&template->lock);
    bool ready = template->ready;
    pthread_mutex_unlock(&template->lock);
    return ready;
}

int template_fork(struct brig_template *template, const struct plan *plan,
                  const struct enter *enter, const struct init_setup *setup, int *pidfd,
                  struct brig_error *err)
{
    if (!is_ready(template))
        return error_system(err, STAGE, EAGAIN, "the template is not ready");
    int ret = request(template, plan, enter, setup, pidfd);
    if (ret == -EPIPE || ret == -ECONNRESET)
        return error_system(err, STAGE, ECONNRESET, "the template has ended");
    if (ret == 0)
        ret = -EPROTO;
    if (ret > 0)
        ret = talk_pid(*pidfd, ret);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "the template cannot fork: %s", error_text(-ret));
    return ret;
}
