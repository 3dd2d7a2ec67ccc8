/* SPDX-License-Identifier: MIT */
/* Builds, keeps and finds base mounts. base_mounts.h has the interface.
 *
 * A handle keeps base mounts from the second run on that needs the same ones, so that a program
 * with a single run pays nothing for a second. They are used again if the same operations would
 * make them now, including the contents of copied files, if no mount of the host has come or gone
 * since, and if they are not too old. A guest gets a copy of the mount namespace, in which all base
 * mounts are read-only. */
#include "base_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

#define STAGE "cell"

#define AGE_MAX      (300 * NS_PER_S)
#define PATIENCE     2  /* the first run may be the only one */
#define PATIENCE_MAX 64 /* if no two runs need the same */

/* ---- the cache ----------------------------------------------------------------------------- */

static void drop(struct base_mounts_cache *base_mounts_cache)
{
    fd_close_at(&base_mounts_cache->mounts);
    fd_close_at(&base_mounts_cache->host_mounts);
    free(base_mounts_cache->ops);
    strings_done(&base_mounts_cache->text);
    base_mounts_cache->ops = NULL;
    base_mounts_cache->op_count = 0;
    base_mounts_cache->text = (struct strings){0};
}

void base_mounts_cache_init(struct base_mounts_cache *base_mounts_cache)
{
    *base_mounts_cache =
        (struct base_mounts_cache){.mounts = -1, .host_mounts = -1, .patience = PATIENCE};
    pthread_mutex_init(&base_mounts_cache->lock, NULL);
}

void base_mounts_cache_done(struct base_mounts_cache *base_mounts_cache)
{
    drop(base_mounts_cache);
    pthread_mutex_destroy(&base_mounts_cache->lock);
}

void base_mounts_cache_adopt(struct base_mounts_cache *base_mounts_cache)
{
    fd_close_at(&base_mounts_cache->mounts);
    fd_close_at(&base_mounts_cache->host_mounts);
    /* The lists may be half written, so they are not freed. */
    base_mounts_cache_init(base_mounts_cache);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_op(const struct cell_op *a, const struct cell_op *b)
{
    return a->kind == b->kind && a->fd == b->fd &&
           memcmp(a->words, b->words, sizeof a->words) == 0 && same_text(a->source, b->source) &&
           same_text(a->target, b->target);
}

/* Would the operations of this view make the same base mounts? */
static bool is_made_of(const struct base_mounts_cache *base_mounts_cache, const struct view *view)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        if (view->ops[i].part != CELL_PART_BASE)
            continue;
        if (at == base_mounts_cache->op_count ||
            !same_op(&base_mounts_cache->ops[at], &view->ops[i]))
            return false;
        at++;
    }
    return at == base_mounts_cache->op_count;
}

/* The inode number of our mount namespace. */
static uint64_t own_namespace(void)
{
    struct stat st;
    return stat("/proc/thread-self/ns/mnt", &st) == 0 ? st.st_ino : 0;
}

/* poll() reports each change of the list of mounts once. */
static bool is_stale(const struct base_mounts_cache *base_mounts_cache)
{
    uint64_t own = own_namespace();
    if (own == 0 || own != base_mounts_cache->host)
        return true;
    struct pollfd changed = {.fd = base_mounts_cache->host_mounts, .events = POLLPRI};
    return clock_now() - base_mounts_cache->made_at > AGE_MAX || poll(&changed, 1, 0) != 0;
}

/* Find base mounts that fit; -1 if there are none. *keep: the ones that are built instead are to be
 * kept. */
static int find(struct base_mounts_cache *base_mounts_cache, const struct view *view, bool *keep)
{
    int mounts = -1;
    pthread_mutex_lock(&base_mounts_cache->lock);
    if (base_mounts_cache->mounts >= 0 && is_stale(base_mounts_cache)) {
        drop(base_mounts_cache);
        base_mounts_cache->misses = base_mounts_cache->patience;
    }
    if (base_mounts_cache->mounts >= 0 && is_made_of(base_mounts_cache, view))
        mounts = fcntl(base_mounts_cache->mounts, F_DUPFD_CLOEXEC, 0);
    if (mounts >= 0) {
        base_mounts_cache->misses = 0;
        base_mounts_cache->patience = PATIENCE;
    } else {
        base_mounts_cache->misses++;
    }
    *keep = base_mounts_cache->misses >= base_mounts_cache->patience;
    pthread_mutex_unlock(&base_mounts_cache->lock);
    return mounts;
}

static const char *copy_text(struct strings *text, const char *from, int *ret)
{
    if (!from || *ret < 0)
        return NULL;
    *ret = strings_add_text(text, from);
    return *ret < 0 ? NULL : text->items[text->count - 1];
}

/* Called with the lock held. On failure nothing is kept. */
static int copy_ops(struct base_mounts_cache *base_mounts_cache, const struct view *view)
{
    int ret = 0;
    base_mounts_cache->ops = calloc(view->count, sizeof *base_mounts_cache->ops);
    if (!base_mounts_cache->ops)
        return -ENOMEM;
    for (uint32_t i = 0; i < view->count && ret == 0; i++) {
        if (view->ops[i].part != CELL_PART_BASE)
            continue;
        struct cell_op *op = &base_mounts_cache->ops[base_mounts_cache->op_count++];
        *op = view->ops[i];
        op->source = copy_text(&base_mounts_cache->text, op->source, &ret);
        op->target = copy_text(&base_mounts_cache->text, op->target, &ret);
    }
    return ret;
}

/* Takes ownership of the file descriptors. */
static void keep_base_mounts(struct base_mounts_cache *base_mounts_cache, const struct view *view,
                             struct base_mounts *base_mounts)
{
    pthread_mutex_lock(&base_mounts_cache->lock);
    bool in_vain = base_mounts_cache->mounts >= 0 && base_mounts_cache->misses > 0;
    drop(base_mounts_cache);
    base_mounts_cache->mounts = take_fd(&base_mounts->mounts);
    base_mounts_cache->host_mounts = take_fd(&base_mounts->host_mounts);
    base_mounts_cache->host = base_mounts->host;
    base_mounts_cache->made_at = clock_now();
    base_mounts_cache->misses = 0;
    if (in_vain && base_mounts_cache->patience < PATIENCE_MAX)
        base_mounts_cache->patience *= 2;
    if (copy_ops(base_mounts_cache, view) < 0)
        drop(base_mounts_cache);
    pthread_mutex_unlock(&base_mounts_cache->lock);
}

/* ---- the base mounts of a run -------------------------------------------------------------- */

static int start_builder(struct base_mounts *base_mounts, const struct view *view,
                         struct brig_error *err)
{
    char path[48];
    struct builder *builder = &base_mounts->builder;
    builder->ops = view->ops;
    builder->count = view->count;
    builder->supervisor = getpid();
    builder->failed = 0;
    builder->ready = builder->held = 0;
    /* No signal handler of the host program may run in the builder. */
    uint64_t all = ~UINT64_C(0), before;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    long pid = builder_start(builder, &base_mounts->pidfd);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    if (pid < 0) {
        /* A failed clone may have stored a number that is closed again. */
        base_mounts->pidfd = -1;
        return error_system(err, STAGE, (int)-pid, "cannot make a mount namespace: %s",
                            error_text((int)-pid));
    }
    base_mounts->built = true;
    snprintf(path, sizeof path, "/proc/%ld/ns/mnt", pid);
    base_mounts->mounts = open(path, O_RDONLY | O_CLOEXEC);
    int ret = base_mounts->mounts < 0
                  ? error_system(err, STAGE, errno, "%s: %s", path, error_text(errno))
                  : 0;
    ready_tell(&builder->held, 0);
    return ret;
}

void base_mounts_init(struct base_mounts *base_mounts)
{
    base_mounts->mounts = base_mounts->pidfd = base_mounts->host_mounts = -1;
    base_mounts->copy = base_mounts->built = false; /* the builder's stack is not zeroed */
}

int base_mounts_begin(struct base_mounts *base_mounts, struct base_mounts_cache *base_mounts_cache,
                      const struct view *view, struct brig_error *err)
{
    bool keep;
    if (!view->split)
        return 0;
    base_mounts->mounts = find(base_mounts_cache, view, &keep);
    if (base_mounts->mounts >= 0) {
        base_mounts->copy = true;
        return 0;
    }
    if (keep) {
        base_mounts->host = own_namespace();
        base_mounts->host_mounts = open("/proc/thread-self/mountinfo", O_RDONLY | O_CLOEXEC);
    }
    base_mounts->copy = base_mounts->host_mounts >= 0;
    return start_builder(base_mounts, view, err);
}

void base_mounts_end(struct base_mounts *base_mounts, struct base_mounts_cache *base_mounts_cache,
                     const struct view *view, bool good)
{
    siginfo_t info;
    if (base_mounts->pidfd >= 0) {
        if (!good) /* it may hang */
            syscall(SYS_pidfd_send_signal, base_mounts->pidfd, SIGKILL, NULL, 0);
        while (waitid(P_PIDFD, (id_t)base_mounts->pidfd, &info, WEXITED | __WALL) < 0 &&
               errno == EINTR) {
        }
    }
    if (base_mounts->built && good && base_mounts->host_mounts >= 0)
        keep_base_mounts(base_mounts_cache, view, base_mounts);
    fd_close_at(&base_mounts->pidfd);
    fd_close_at(&base_mounts->mounts);
    fd_close_at(&base_mounts->host_mounts);
}
