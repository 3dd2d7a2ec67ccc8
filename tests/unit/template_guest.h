/* SPDX-License-Identifier: MIT */
/* For test_template.c: what its template does, and its calls. The template is the test program
 * itself, started with an argument. */
#ifndef TEMPLATE_GUEST_H
#define TEMPLATE_GUEST_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "brig_template.h"
#include "child/fork.h"

static volatile unsigned char *loaded; /* memory that the template has filled */

static void *idle(void *arg)
{
    pause();
    return arg;
}

static void use_memory(size_t bytes)
{
    unsigned char *memory = malloc(bytes);
    for (size_t i = 0; memory && i < bytes; i += 4096)
        ((volatile unsigned char *)memory)[i] = 1;
}

/* Each takes one of the pending signals that a user may have. */
static int take_timers(int most)
{
    struct sigevent nothing = {.sigev_notify = SIGEV_NONE};
    timer_t timer;
    int taken = 0;
    while (taken < most && timer_create(CLOCK_MONOTONIC, &nothing, &timer) == 0)
        taken++;
    return taken;
}

/* A job is one letter and an argument. */
static int run_job(const struct brig_template_job *job)
{
    char text[4096] = "";
    long size = 0;
    int seals = 0;
    environ = job->envp;
    ssize_t n = read(0, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    if (job->input)
        text[0] = job->input[0];
    switch (text[0]) {
    case 'h': /* who am I? */
        printf("%s %s pid %d loaded %d", job->argv[0], job->envp[0], (int)getpid(), loaded[4096]);
        break;
    case 'i': /* what came with the job? */
        printf("%zu %c%c", job->input_len, job->input[0], job->input[job->input_len - 1]);
        break;
    case 's': /* a command */
        fflush(NULL);
        execl("/bin/sh", "sh", "-c", text + 1, (char *)NULL);
        return 127;
    case 'm':
        use_memory((size_t)200 << 20);
        break;
    case 'q': /* a few pending signals */
        printf("%d", take_timers(10));
        break;
    case 'Q': { /* all of them, for as long as the call lasts */
        FILE *told = fopen("taken", "w");
        if (!told || fprintf(told, "%d\n", take_timers(1 << 20)) < 0 || fclose(told) != 0)
            return 1;
        pause();
        break;
    }
    case 'w': /* wait */
        pause();
        break;
    case 'a': { /* answer, and do not end */
        static const char answer[] = "8\n{\"a\": 1}";
        if (write(3, answer, sizeof answer - 1) < 0 || close(3) < 0)
            return 1;
        pause();
        break;
    }
    case 'f': /* fill the memory file with so many bytes, and add these seals */
        if (sscanf(text + 1, "%ld %d", &size, &seals) != 2 || ftruncate(4, size) < 0 ||
            (size && pwrite(4, "first", 5, 0) != 5) || fcntl(4, F_ADD_SEALS, seals) < 0)
            return 1;
        return write(3, "1\n1", 3) == 3 ? 0 : 1;
    case 'x': /* a secret, and time to look at it */
        return write(3, "8\n\"secret\"", 10) == 10 && usleep(300000) == 0 ? 0 : 1;
    case 't': { /* answer twice */
        static const char one[] = "1\n1", two[] = "1\n2";
        if (write(3, one, sizeof one - 1) < 0 || read(0, text, 1) != 0 || usleep(200000) < 0)
            return 1;
        return write(3, two, sizeof two - 1) > 0 || errno == EPIPE ? 7 : 1;
    }
    case 'c': /* what the C library is told of the CPU */
        for (int cpu = 0; cpu < 64; cpu++) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            if (sched_setaffinity(0, sizeof one, &one) == 0 && sched_getcpu() != cpu)
                return 3;
        }
        break;
    case 'd':           /* die */
        raise(SIGABRT); /* which no sanitizer takes for its own */
        break;
    default:
        return 2;
    }
    fflush(NULL);
    return 0;
}

/* Answer a request with a descriptor that came with it, as if that were the call. */
static void answer_with(int socket, size_t index)
{
    static const uint32_t ready[2] = {FORK_VERSION, 0};
    uint32_t pid[2] = {FORK_VERSION, 99};
    char request[65536 * 2];
    int fds[32] = {0};
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof fds)];
    } control = {0};
    struct iovec part = {request, sizeof request};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control.space};
    send(socket, ready, sizeof ready, 0);
    recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    memcpy(fds, CMSG_DATA(&control.head), control.head.cmsg_len - CMSG_LEN(0));
    part = (struct iovec){pid, sizeof pid};
    memcpy(CMSG_DATA(&control.head), &fds[index], sizeof(int));
    control.head.cmsg_len = CMSG_LEN(sizeof(int));
    message.msg_controllen = CMSG_SPACE(sizeof(int));
    sendmsg(socket, &message, 0);
    for (size_t i = 0; i < 32 && fds[i]; i++)
        close(fds[i]);
    pause();
}

/* Say something with as many descriptors as asked for, in one message. */
static void send_with(int socket, const uint32_t what[2], size_t count)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int) * 253)];
    } control = {0};
    struct iovec part = {(void *)what, 2 * sizeof *what};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (size_t i = 0; i < count; i++)
        memcpy(CMSG_DATA(&control.head) + i * sizeof(int), &(int){1}, sizeof(int));
    sendmsg(socket, &message, 0);
}

/* It answers, with descriptors that nobody asked for. */
static void be_generous(int socket)
{
    static const uint32_t ready[2] = {FORK_VERSION, 0}, pid[2] = {FORK_VERSION, 99};
    char request[65536 * 2];
    send_with(socket, ready, 2);
    if (recv(socket, request, sizeof request, 0) > 0)
        send_with(socket, pid, 2);
    pause();
}

static int be_template(const char *how)
{
    struct brig_template_job job;
    pthread_t thread;
    int socket = atoi(getenv(BRIG_TEMPLATE_VARIABLE));
    loaded = malloc(1 << 20);
    for (size_t i = 0; loaded && i < 1 << 20; i += 4096)
        loaded[i] = 42;
    if (strcmp(how, "threads") == 0)
        pthread_create(&thread, NULL, idle, NULL);
    if (strcmp(how, "shares") == 0)
        mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0); /* to be written later */
    if (strcmp(how, "keeps") == 0)
        madvise(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), 4096,
                MADV_DONTFORK);
    if (strcmp(how, "junk") == 0) {
        send(socket, "junk", 4, 0);
        pause();
    }
    if (strcmp(how, "generous") == 0)
        be_generous(socket);
    if (strcmp(how, "traitor") == 0)
        answer_with(socket, 4); /* the supervisor itself, which ends calls that fail */
    if (strcmp(how, "fool") == 0)
        answer_with(socket, 1);     /* no process at all */
    if (strcmp(how, "liar") == 0) { /* it is ready, and then answers nonsense */
        static const uint32_t ready[2] = {FORK_VERSION, 0}, pid[2] = {FORK_VERSION, 99};
        char request[65536];
        send(socket, ready, sizeof ready, 0);
        recv(socket, request, sizeof request, 0);
        send(socket, pid, sizeof pid, 0);
        pause();
    }
    int ret = brig_template_serve(socket, NULL, &job);
    if (ret < 0) {
        fprintf(stderr, "serve: %s\n", strerror(-ret));
        return 1;
    }
    _exit(run_job(&job));
}

#endif
