/* Serving the requests of a supervisor: each is a fork of this process, in a cell of its own. */
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

/* Of the C library, if it has them: where its area for the kernel is, from the thread's own place.
 */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* Of one process, which serves one supervisor: static, so that nothing is allocated between a
 * request and its fork. */
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

/* A fork has the thread that asked for it and no other: locks that those held stay held in it. */
static int count_threads(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    if (!dir)
        return -errno;
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* "VmFlags: rd wr sh ...": could what a fork writes to such a mapping be seen in others? */
static bool is_shared(const char *flags)
{
    return strstr(flags, " sh") && !strstr(flags, " dc"); /* unless forks do not get it */
}

/* A fork has a copy of all memory but that which is shared on purpose: there the calls would find
 * what others leave. Returns 1 if there is such memory, 0 if not, or -errno. */
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

/* The kernel writes the number of a new thread where the C library looks for it, if it is told the
 * place. */
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

/* Returns how many descriptors came with the request, or -errno. */
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
    if (control.head.cmsg_level == SOL_SOCKET && control.head.cmsg_type == SCM_RIGHTS)
        count = (int)((control.head.cmsg_len - CMSG_LEN(0)) / sizeof(int));
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

/* From offsets to texts. */
static void read_operations(void)
{
    const struct fork_request *request = &message.head;
    const struct fork_cell_op *flat = (const struct fork_cell_op *)(const void *)(request + 1);
    for (uint32_t i = 0; i < request->cell_op_count; i++) {
        const struct fork_cell_op *op = &flat[i];
        bool bad = op->source >= request->size || op->target >= request->size;
        call.ops[i] = (struct cell_op){
            .kind = bad ? 0 : op->kind, /* which is refused as one that nobody knows */
            .fd = op->fd,
            .source = op->source && !bad ? message.bytes + op->source : NULL,
            .target = op->target && !bad ? message.bytes + op->target : NULL,
            .a = op->a,
            .b = op->b,
            .c = op->c,
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

/* Returns 1 in the fork, 0 in the template, or -errno if the template has to end. What the fork
 * does before its job is there takes nobody's time. */
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
    sigaction(SIGCHLD, &ignored, &before); /* nobody waits for the forks */
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
