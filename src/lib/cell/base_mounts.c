/* Keeping the ground of a cell.
 *
 * A ground is kept from the second run on that needs the same one, so that a program that makes one
 * run pays nothing for a second. It is used again if the operations that would make it now are the
 * same, the contents of the files it has copies of included, if no mount of the host has come or
 * gone since, and if it is not too old. What a guest gets is a copy of the namespace, in which all
 * that is of the ground is read-only. */
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
#define PATIENCE_MAX 64 /* where no two runs need the same */

/* ---- what is kept -------------------------------------------------------------------------- */

static void drop(struct grounds *grounds)
{
    fd_close_at(&grounds->mounts);
    fd_close_at(&grounds->host_mounts);
    free(grounds->ops);
    strings_done(&grounds->text);
    grounds->ops = NULL;
    grounds->op_count = 0;
    grounds->text = (struct strings){0};
}

void grounds_init(struct grounds *grounds)
{
    *grounds = (struct grounds){.mounts = -1, .host_mounts = -1, .patience = PATIENCE};
    pthread_mutex_init(&grounds->lock, NULL);
}

void grounds_done(struct grounds *grounds)
{
    drop(grounds);
    pthread_mutex_destroy(&grounds->lock);
}

void grounds_adopt(struct grounds *grounds)
{
    fd_close_at(&grounds->mounts);
    fd_close_at(&grounds->host_mounts);
    grounds_init(grounds); /* what the list points at may be half made, and is left alone */
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_op(const struct cell_op *a, const struct cell_op *b)
{
    return a->kind == b->kind && a->fd == b->fd && a->a == b->a && a->b == b->b && a->c == b->c &&
           same_text(a->source, b->source) && same_text(a->target, b->target);
}

/* Would the same operations make it? */
static bool is_made_of(const struct grounds *grounds, const struct view *view)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        if (view->ops[i].part != CELL_PART_GROUND)
            continue;
        if (at == grounds->op_count || !same_op(&grounds->ops[at], &view->ops[i]))
            return false;
        at++;
    }
    return at == grounds->op_count;
}

/* The mount namespace that we are in, by its number. */
static uint64_t own_namespace(void)
{
    struct stat st;
    return stat("/proc/thread-self/ns/mnt", &st) == 0 ? st.st_ino : 0;
}

/* The kernel answers once for each time that its list of mounts has changed. */
static bool is_stale(const struct grounds *grounds)
{
    uint64_t own = own_namespace();
    if (own == 0 || own != grounds->host)
        return true;
    struct pollfd changed = {.fd = grounds->host_mounts, .events = POLLPRI};
    return clock_now() - grounds->made_at > AGE_MAX || poll(&changed, 1, 0) != 0;
}

/* The kept one if it fits, else -1; *keep: the one that is made instead is to be kept. */
static int find(struct grounds *grounds, const struct view *view, bool *keep)
{
    int mounts = -1;
    pthread_mutex_lock(&grounds->lock);
    if (grounds->mounts >= 0 && is_stale(grounds)) {
        drop(grounds);
        grounds->misses = grounds->patience;
    }
    if (grounds->mounts >= 0 && is_made_of(grounds, view))
        mounts = fcntl(grounds->mounts, F_DUPFD_CLOEXEC, 0);
    if (mounts >= 0) {
        grounds->misses = 0;
        grounds->patience = PATIENCE;
    } else {
        grounds->misses++;
    }
    *keep = grounds->misses >= grounds->patience;
    pthread_mutex_unlock(&grounds->lock);
    return mounts;
}

static const char *copy_text(struct strings *text, const char *from, int *ret)
{
    if (!from || *ret < 0)
        return NULL;
    *ret = strings_add_text(text, from);
    return *ret < 0 ? NULL : text->items[text->count - 1];
}

/* Called with the lock. On failure nothing is kept. */
static int copy_ops(struct grounds *grounds, const struct view *view)
{
    int ret = 0;
    grounds->ops = calloc(view->count, sizeof *grounds->ops);
    if (!grounds->ops)
        return -ENOMEM;
    for (uint32_t i = 0; i < view->count && ret == 0; i++) {
        if (view->ops[i].part != CELL_PART_GROUND)
            continue;
        struct cell_op *op = &grounds->ops[grounds->op_count++];
        *op = view->ops[i];
        op->source = copy_text(&grounds->text, op->source, &ret);
        op->target = copy_text(&grounds->text, op->target, &ret);
    }
    return ret;
}

/* Takes the descriptors. */
static void keep_ground(struct grounds *grounds, const struct view *view, struct ground *ground)
{
    pthread_mutex_lock(&grounds->lock);
    bool in_vain = grounds->mounts >= 0 && grounds->misses > 0;
    drop(grounds);
    grounds->mounts = take_fd(&ground->mounts);
    grounds->host_mounts = take_fd(&ground->host_mounts);
    grounds->host = ground->host;
    grounds->made_at = clock_now();
    grounds->misses = 0;
    if (in_vain && grounds->patience < PATIENCE_MAX)
        grounds->patience *= 2;
    if (copy_ops(grounds, view) < 0)
        drop(grounds);
    pthread_mutex_unlock(&grounds->lock);
}

/* ---- the ground of a run --------------------------------------------------------------------- */

static int start_builder(struct ground *ground, const struct view *view, struct brig_error *err)
{
    char path[48];
    struct builder *builder = &ground->builder;
    builder->ops = view->ops;
    builder->count = view->count;
    builder->supervisor = getpid();
    builder->failed = 0;
    builder->ready = builder->held = 0;
    uint64_t all = ~UINT64_C(0), before; /* no handler of the host may run in the builder */
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    long pid = builder_start(builder, &ground->pidfd);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    if (pid < 0) {
        ground->pidfd = -1; /* the kernel may have written a number that is not ours any more */
        return error_system(err, STAGE, (int)-pid, "cannot make a mount namespace: %s",
                            error_text((int)-pid));
    }
    ground->built = true;
    snprintf(path, sizeof path, "/proc/%ld/ns/mnt", pid);
    ground->mounts = open(path, O_RDONLY | O_CLOEXEC);
    int ret =
        ground->mounts < 0 ? error_system(err, STAGE, errno, "%s: %s", path, error_text(errno)) : 0;
    ready_tell(&builder->held, 0);
    return ret;
}

void ground_init(struct ground *ground)
{
    ground->mounts = ground->pidfd = ground->host_mounts = -1;
    ground->copy = ground->built = false; /* the builder's stack stays as it is */
}

int ground_begin(struct ground *ground, struct grounds *grounds, const struct view *view,
                 struct brig_error *err)
{
    bool keep;
    if (!view->split)
        return 0;
    ground->mounts = find(grounds, view, &keep);
    if (ground->mounts >= 0) {
        ground->copy = true;
        return 0;
    }
    if (keep) {
        ground->host = own_namespace();
        ground->host_mounts = open("/proc/thread-self/mountinfo", O_RDONLY | O_CLOEXEC);
    }
    ground->copy = ground->host_mounts >= 0;
    return start_builder(ground, view, err);
}

void ground_end(struct ground *ground, struct grounds *grounds, const struct view *view, bool good)
{
    siginfo_t info;
    if (ground->pidfd >= 0) {
        if (!good) /* it may hang */
            syscall(SYS_pidfd_send_signal, ground->pidfd, SIGKILL, NULL, 0);
        while (waitid(P_PIDFD, (id_t)ground->pidfd, &info, WEXITED | __WALL) < 0 &&
               errno == EINTR) {
        }
    }
    if (ground->built && good && ground->host_mounts >= 0)
        keep_ground(grounds, view, ground);
    fd_close_at(&ground->pidfd);
    fd_close_at(&ground->mounts);
    fd_close_at(&ground->host_mounts);
}
