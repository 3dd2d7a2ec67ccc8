/* SPDX-License-Identifier: MIT */
/* Sends requests to a template, and checks its replies. template_talk.h has the interface. */
#include "template_talk.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "child/fork.h"

#define ERRNO_MAX 4096

static uint32_t put_text(char *out, size_t *at, const char *text)
{
    size_t len = text ? strlen(text) + 1 : 0, place = *at;
    if (!text || *at + len > FORK_SIZE_MAX) {
        *at += len;
        return 0;
    }
    memcpy(out + place, text, len);
    *at += len;
    return (uint32_t)place;
}

/* Returns the number of bytes, or 0 if they do not fit. */
static size_t put_request(char *out, const struct plan *plan, const struct init_setup *setup,
                          uint32_t slots)
{
    const struct view *view = &plan->cell.view;
    struct fork_request request = {
        .version = FORK_VERSION,
        .clone_flags = plan->cell.clone_flags,
        .slot_count = slots,
        .cell_op_count = view->count,
        .op_count = setup->op_count,
        .channel = plan->channel,
    };
    size_t at = sizeof request + view->count * sizeof(struct fork_cell_op);
    memcpy(request.ops, setup->ops, sizeof request.ops);
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cell_op *op = &view->ops[i];
        struct fork_cell_op flat = {.kind = op->kind, .fd = op->fd};
        memcpy(flat.words, op->words, sizeof flat.words);
        flat.source = put_text(out, &at, op->source);
        flat.target = put_text(out, &at, op->target);
        memcpy(out + sizeof request + i * sizeof flat, &flat, sizeof flat);
    }
    request.size = (uint32_t)at;
    memcpy(out, &request, sizeof request);
    return at <= FORK_SIZE_MAX ? at : 0;
}

static int send_request(int socket, char *bytes, size_t len, const struct enter *enter)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int) * (SLOT_MAX + 1))];
    } control = {0};
    size_t fds = (enter->count + 1) * sizeof(int);
    struct iovec part = {bytes, len};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = (socklen_t)CMSG_SPACE(fds)};
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = (socklen_t)CMSG_LEN(fds);
    memcpy(CMSG_DATA(&control.head), enter->fds, enter->count * sizeof(int));
    memcpy(CMSG_DATA(&control.head) + enter->count * sizeof(int), &enter->init, sizeof(int));
    return sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int talk_request(int socket, const struct plan *plan, const struct enter *enter,
                 const struct init_setup *setup)
{
    char *bytes = malloc(FORK_SIZE_MAX);
    if (!bytes)
        return -ENOMEM;
    size_t len = put_request(bytes, plan, setup, enter->count);
    int ret = len ? send_request(socket, bytes, len, enter) : -E2BIG;
    free(bytes);
    return ret;
}

/* The most descriptors that one message can carry: SCM_MAX_FD of the kernel. */
#define PASSED_MAX 253

/* Room for the most that can come: the kernel passes every descriptor that fits, wanted or not. */
union passed {
    struct cmsghdr head;
    char space[CMSG_SPACE(sizeof(int) * PASSED_MAX)];
};

/* Returns the single descriptor of a reply, or -1. A hostile template may send more, in one header
 * or in several. If there is not exactly one, all of them are closed. */
static int take_passed(struct msghdr *message)
{
    int one = -1, count = 0;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t len = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < len; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
            fd_close_at(&one);
            one = fd;
            count++;
        }
    }
    if (count != 1)
        fd_close_at(&one);
    return one;
}

int talk_reply(int socket, int timeout_ms, int *pidfd)
{
    struct fork_reply reply = {0};
    union passed control;
    struct iovec part = {&reply, sizeof reply};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.space};
    struct pollfd ready = {.fd = socket, .events = POLLIN};
    uint64_t until = clock_now() + (uint64_t)timeout_ms * NS_PER_MS;
    int n;
    do
        n = poll(&ready, 1, timeout_ms);
    while (n < 0 && errno == EINTR && clock_now() < until);
    if (n <= 0)
        return -ETIMEDOUT;
    *pidfd = -1;
    ssize_t len = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (len < 0)
        return -ECONNRESET;
    if (len == 0) { /* the end, or an empty message, which may have carried descriptors */
        int passed = take_passed(&message);
        fd_close_at(&passed);
        return -ECONNRESET;
    }
    *pidfd = take_passed(&message);
    bool whole = len == sizeof reply && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    if (whole && reply.version == FORK_VERSION && reply.pid > -ERRNO_MAX &&
        (reply.pid <= 0 || *pidfd >= 0))
        return reply.pid;
    fd_close_at(pidfd);
    return -EPROTO;
}

int talk_pid(int pidfd, int told)
{
    char path[40], text[1024];
    int pids[3] = {0}, pid = 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0)
        return -EPROTO;
    const char *line = strstr(text, "\nPid:"), *all = strstr(text, "\nNSpid:");
    if (!line || sscanf(line, "\nPid: %d", &pid) != 1)
        return -EPROTO;
    if (pid == -1) /* it has ended; an earlier report says why */
        return 0;
    bool init = all && sscanf(all, "\nNSpid: %d %d %d", &pids[0], &pids[1], &pids[2]) == 3;
    return init && pid > 0 && pids[1] == told && pids[2] == 1 ? pid : -EPROTO;
}
