/* SPDX-License-Identifier: MIT */
/* Serves the requests of a supervisor in a template process: each request forks this process into a
 * new cell. Allocates nothing between a request and its fork. */
#include "brig_template.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child/fork.h"

/* Symbols of the C library, if it has them: the offset of its rseq area from the thread pointer. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* Static, so that nothing is allocated between a request and its fork. One process serves one
 * supervisor. */
static union {
    struct fork_request head;
    char bytes[FORK_SIZE_MAX];
} message;
static struct fork_call call;

static void close_fds(const int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        close(fds[i]);
}

/* A fork has only the thread that called it: locks that other threads held stay locked for ever. */
static int count_threads(void)
{
    int count = 0;
    DIR *listing = opendir("/proc/self/task");
    if (!listing)
        return -errno;
    for (const struct dirent *entry; (entry = readdir(listing));)
        count += entry->d_name[0] != '.';
    closedir(listing);
    return count;
}

/* "VmFlags: rd wr sh ...": true if other processes see the writes of a fork to this mapping. */
static bool is_shared(const char *flags)
{
    return strstr(flags, " sh") && !strstr(flags, " dc"); /* "dc": forks do not inherit it */
}

/* A fork gets a copy of all memory except shared mappings, through which calls could see each
 * other's data. Returns 1 if there is such a mapping, 0 if not, or -errno. */
static int shares_memory(void)
{
    char *line = NULL;
    size_t size = 0;
    int ret = 0;
    FILE *file = fopen("/proc/self/smaps", "re");
    if (!file)
        return -errno;
    while (ret == 0 && getline(&line, &size, file) > 0)
        ret = strncmp(line, "VmFlags:", 8) == 0 && is_shared(line);
    if (ret == 0 && ferror(file))
        ret = -EIO;
    free(line);
    fclose(file);
    return ret;
}

/* Find the addresses that the C library has registered with the kernel: of the thread id, which the
 * kernel updates in a clone if it gets the address, of the list of robust mutexes and of the rseq
 * area. */
static void find_thread(void)
{
    unsigned long size = 0;
    if (prctl(PR_GET_TID_ADDRESS, &call.thread_id, 0, 0, 0) < 0)
        call.thread_id = NULL;
    if (syscall(SYS_get_robust_list, 0, &call.robust, &size) < 0)
        call.robust = NULL;
    call.robust_size = size;
    if (&__rseq_size && &__rseq_offset && __rseq_size > 0)
        call.rseq = (char *)__builtin_thread_pointer() + __rseq_offset;
}

/* Returns the number of file descriptors that came with the request, or -errno. */
static int receive(int socket)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof call.fds)];
    } control = {0};
    struct iovec part = {message.bytes, sizeof message.bytes};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control.space};
    ssize_t len;
    do
        len = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    while (len < 0 && errno == EINTR);
    if (len <= 0)
        return -ECONNRESET;
    int count = 0;
    const int most = (int)(sizeof call.fds / sizeof *call.fds);
    if (control.head.cmsg_level == SOL_SOCKET && control.head.cmsg_type == SCM_RIGHTS)
        count = (int)((control.head.cmsg_len - CMSG_LEN(0)) / sizeof(int));
    if (count > most) { /* possible because CMSG_SPACE rounds up */
        close_fds((const int *)(const void *)CMSG_DATA(&control.head), (uint32_t)count);
        return -EPROTO;
    }
    memcpy(call.fds, CMSG_DATA(&control.head), (size_t)count * sizeof(int));
    const struct fork_request *request = &message.head;
    if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) || (size_t)len < sizeof *request ||
        request->version != FORK_VERSION || request->size != (size_t)len ||
        request->cell_op_count > FORK_OPS_MAX || request->op_count > INIT_OPS_MAX ||
        request->slot_count > SLOT_MAX || count != (int)request->slot_count + 1 ||
        sizeof *request + request->cell_op_count * sizeof(struct fork_cell_op) > (size_t)len ||
        message.bytes[len - 1] != 0) {
        close_fds(call.fds, (uint32_t)count);
        return -EPROTO;
    }
    return count;
}

/* Convert the offsets of the message to pointers. */
static void read_operations(void)
{
    const struct fork_request *request = &message.head;
    const struct fork_cell_op *flat = (const struct fork_cell_op *)(const void *)(request + 1);
    for (uint32_t i = 0; i < request->cell_op_count; i++) {
        const struct fork_cell_op *op = &flat[i];
        bool bad = op->source >= request->size || op->target >= request->size;
        call.ops[i] = (struct cell_op){
            .kind = bad ? 0 : op->kind, /* 0 is refused as an unknown operation */
            .fd = op->fd,
            .source = op->source && !bad ? message.bytes + op->source : NULL,
            .target = op->target && !bad ? message.bytes + op->target : NULL,
            .words = {op->words[0], op->words[1], op->words[2]},
        };
    }
    call.request = request;
}

static int reply(int socket, long pid, int pidfd)
{
    struct fork_reply answer = {.version = FORK_VERSION, .pid = (int32_t)pid};
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {&answer, sizeof answer};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (pid > 0) {
        header.msg_control = &control;
        header.msg_controllen = sizeof control.space;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof pidfd);
        memcpy(CMSG_DATA(&control.head), &pidfd, sizeof pidfd);
    }
    return sendmsg(socket, &header, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void run_hook(void (*hook)(void *arg), void *arg)
{
    if (hook)
        hook(arg);
}

/* Returns 1 in the fork, 0 in the template, or -errno if the template has to end. The fork works in
 * parallel to the supervisor until its job arrives. */
static int serve_one(int socket, const struct brig_template_hooks *hooks,
                     const struct sigaction *child_signal)
{
    sigset_t all, before;
    int pidfd = -1, count = receive(socket);
    if (count < 0)
        return count;
    read_operations();
    run_hook(hooks->before, hooks->arg);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    long pid = fork_call(&call, &pidfd);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid == 0) {
        sigaction(SIGCHLD, child_signal, NULL);
        run_hook(hooks->child, hooks->arg);
        fork_wait(&call);
        return 1;
    }
    run_hook(hooks->parent, hooks->arg);
    close_fds(call.fds, (uint32_t)count);
    int ret = reply(socket, pid, pidfd);
    if (pid > 0)
        close(pidfd);
    return ret;
}

int brig_template_serve(int socket, const struct brig_template_hooks *hooks,
                        struct brig_template_job *job)
{
    static const struct brig_template_hooks none;
    struct sigaction ignored = {.sa_handler = SIG_IGN}, before;
    int threads = count_threads();
    if (threads != 1)
        return threads < 0 ? threads : -EBUSY;
    int shared = shares_memory();
    if (shared != 0)
        return shared < 0 ? shared : -ENOTSUP;
    find_thread();
    sigaction(SIGCHLD, &ignored, &before); /* forks are not waited for */
    int ret = reply(socket, 0, -1);
    while (ret == 0)
        ret = serve_one(socket, hooks ? hooks : &none, &before);
    if (ret < 0) {
        sigaction(SIGCHLD, &before, NULL);
        return ret;
    }
    *job = (struct brig_template_job){call.job.argv, call.job.envp, call.job.input,
                                      call.job.input_len};
    return 0;
}
