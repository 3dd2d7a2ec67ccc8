/* SPDX-License-Identifier: MIT */
/* Receives a job from its socket; used by init and by the forks of a template. No libc. */
#include "job.h"

#include <linux/errno.h>
#include <stdbool.h>

#include "sys.h"

/* Defined by the C library but not by the kernel headers. */
struct message {
    void *name;
    uint32_t name_len;
    struct {
        void *base;
        uint64_t len;
    } * parts;
    uint64_t part_count;
    void *control;
    uint64_t control_len;
    int32_t flags;
};

struct passed_fd {
    uint64_t len;
    int32_t level, type;
    int32_t fd, padding;
};

#define MSG_CMSG_CLOEXEC 0x40000000
#define MSG_CTRUNC       0x8
#define MSG_TRUNC        0x20
#define SOL_SOCKET_      1
#define SCM_RIGHTS_      1

static char bytes[JOB_SIZE_MAX + JOB_INPUT_MAX] __attribute__((aligned(4096)));
static char *words[JOB_WORDS_MAX];

/* Take `count` texts from the message and append NULL to the list. Returns false if there are
 * fewer. */
static bool take_words(char **at, const char *end, char **out, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        out[i] = *at;
        while (*at < end && **at)
            (*at)++;
        if (*at == end)
            return false;
        (*at)++;
    }
    out[count] = 0;
    return true;
}

static long read_job(struct job *job, long len, const struct passed_fd *passed)
{
    const struct init_job *head = (const struct init_job *)bytes;
    char *at = bytes + sizeof *head, *end = bytes + len;
    uint64_t count = (uint64_t)head->argc + head->envc + 4;
    bool other_stdin = passed->len == 16 + sizeof(int32_t) && passed->level == SOL_SOCKET_ &&
                       passed->type == SCM_RIGHTS_;
    if (len < (long)sizeof *head || count > JOB_WORDS_MAX || (passed->len && !other_stdin))
        return -EPROTO;
    char **argv = words + 2, **envp = argv + head->argc + 1;
    if (!take_words(&at, end, words, 1) || !take_words(&at, end, argv, head->argc) ||
        !take_words(&at, end, envp, head->envc) || end - at != (long)head->input_len)
        return -EPROTO;
    *job = (struct job){words[0], argv, envp, head->input_len ? at : 0, head->input_len};
    if (!other_stdin)
        return 0;
    long fd = sys3(__NR_dup3, passed->fd, 0, 0);
    return fd < 0 ? fd : sys1(__NR_close, passed->fd);
}

/* A live supervisor never closes the socket. A dying one closes it before its pidfd becomes
 * readable, so end of file means that it is gone. */
long job_receive(int socket, struct job *job)
{
    struct passed_fd passed = {.len = 0};
    struct message message = {.control = &passed, .control_len = sizeof passed};
    __typeof__(*message.parts) part = {bytes, sizeof bytes};
    message.parts = (void *)&part;
    message.part_count = 1;
    long len;
    *(volatile char *)bytes = 0; /* fault the pages in before the job arrives */
    *(char *volatile *)words = 0;
    do
        len = sys3(__NR_recvmsg, socket, &message, MSG_CMSG_CLOEXEC);
    while (len == -EINTR);
    if (len <= 0)
        return -ECANCELED;
    if (message.flags & (MSG_CTRUNC | MSG_TRUNC))
        return -EPROTO;
    return read_job(job, len, &passed);
}
