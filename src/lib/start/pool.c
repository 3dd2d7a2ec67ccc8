/* SPDX-License-Identifier: MIT */
/* Implements the pool: the parked cells, the pool thread that builds them, and the reap queue.
 * Implements brig_warm(). A lock protects everything in struct pool; it is never held while a cell
 * is built or ended. */
#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "lib/plan/host.h"
#include "lib/run/run.h"
#include "lib/cell/source.h"
#include "lib/plan/plan_template.h"
#include "lib/cell/toolchain.h"

#define STAGE "warm"

#define SHAPES_MAX      16
#define CELLS_MAX       64 /* of one shape */
#define REAP_MAX        64 /* ended runs that are not yet removed; with more, runs wait */
#define AGE_MAX         (300 * NS_PER_S)  /* a cell's copies of files in /etc may be this old */
#define RETRY_FIRST     (100 * NS_PER_MS) /* after a cell could not be built */
#define RETRY_LAST      (10 * NS_PER_S)
#define REFILL_AFTER    (10 * NS_PER_MS) /* unless half of the cells are used up */
#define IN_USE          NS_PER_S /* after a cell was taken: no need to wake the pool thread */
#define JOB_FILES_LEAST 16       /* descriptors that a guest needs to receive its job */

struct shape {
    struct brig_spec *spec; /* NULL: not used */
    char *home;             /* HOME of the caller at the time of brig_warm() */
    struct toolchain chain; /* the tool chain of the command */
    struct brig_run *first; /* oldest first */
    unsigned wanted, ready;
    uint64_t retry_at, retry_after;
};

/* An entry of the reap queue: the processes and file descriptors of a run, without its memory. */
struct dead_run {
    struct dead_run *next;
    struct spawned spawned;
    int epoll, timer; /* closing the epoll descriptor takes long */
    bool killed;
};

struct pool {
    struct brig *brig;
    uid_t euid; /* the user that the cells belong to */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* there is work for the pool thread, or it has done some */
    bool stop;
    uint64_t wakes_at;     /* when the pool thread wakes by itself; 0: it is awake */
    uint64_t taken_at;     /* when the last cell was taken */
    struct shape *at_work; /* the shape whose cell the pool thread builds or ends */
    struct shape shapes[SHAPES_MAX];
    struct dead_run *reap_queue, **reap_last;
    unsigned reap_count;
};

/* ---- matching ------------------------------------------------------------------------------ */

/* Is the key of no concern to the cell? Such a value is kept by the supervisor, or sent with the
 * job. */
static bool is_per_run_key(enum key key)
{
    switch (key) {
    case KEY_TIMEOUT:
    case KEY_KILL_AFTER:
    case KEY_OUTPUT:
    case KEY_RESULT_SIZE:
    case KEY_ON_OUTPUT_LIMIT:
    case KEY_ENV:
    case KEY_ENV_FILE:
    case KEY_STDIN:
    case KEY_REDACT:
    case KEY_REDACT_PATTERN:
    case KEY_REDACT_SET:
    case KEY_LABELS:
    case KEY_REQUIRE:
    case KEY_ISOLATION: /* a parked run always has a cell */
        return true;
    default:
        return false;
    }
}

static bool same_list(const struct strings *a, const struct strings *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    }
    return true;
}

static bool same_value(const struct spec_value *a, const struct spec_value *b)
{
    bool texts = a->text && b->text ? strcmp(a->text, b->text) == 0 : !a->text && !b->text;
    return a->set == b->set && a->number == b->number && texts && same_list(&a->list, &b->list) &&
           (a->origin == BRIG_FROM_DEFAULT) == (b->origin == BRIG_FROM_DEFAULT);
}

static bool same_shape(const struct brig_spec *a, const struct brig_spec *b)
{
    if (a->state == b->state)
        return true;
    for (int key = 0; key < KEY_COUNT; key++) {
        if (!is_per_run_key((enum key)key) && !same_value(&a->values[key], &b->values[key]))
            return false;
    }
    return a->template == b->template && same_list(&a->guards, &b->guards);
}

static struct shape *find_shape(struct pool *pool, const struct brig_spec *spec)
{
    for (size_t i = 0; i < SHAPES_MAX; i++) {
        if (pool->shapes[i].spec && same_shape(pool->shapes[i].spec, spec))
            return &pool->shapes[i];
    }
    return NULL;
}

/* Are the files that the caller named still the ones that the cell shows? */
static bool sources_unchanged(const struct view *view)
{
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cell_op *op = &view->ops[i];
        struct stat st;
        if (op->kind != CELL_BIND || (op->flags & CELL_SYSTEM))
            continue;
        if (lstat(op->source, &st) < 0 || source_device(&st) != op->device ||
            st.st_ino != op->inode)
            return false;
    }
    return true;
}

/* Would a cell that is built now be the same? The current directory is part of the cell, unless the
 * spec names a work directory. */
static bool is_current(const struct brig_run *parked, const struct brig_spec *spec)
{
    char dir[4096];
    if (clock_now() - parked->built_at > AGE_MAX)
        return false;
    /* The guest of a template has its own socket; if the guest has ended, sending the job fails. */
    if (!spec->template && !spawn_is_parked(&parked->spawned))
        return false;
    if (!spec->values[KEY_WORKDIR].text && !spec->template &&
        (!getcwd(dir, sizeof dir) || strcmp(dir, parked->plan.workdir_path) != 0))
        return false;
    if (spec->template && template_stale(spec->template))
        return false;
    return sources_unchanged(&parked->plan.cell.view);
}

/* ---- the pool thread ----------------------------------------------------------------------- */

static void add_parked(struct shape *shape, struct brig_run *parked)
{
    struct brig_run **last = &shape->first;
    while (*last)
        last = &(*last)->next;
    parked->built_at = clock_now();
    *last = parked;
    shape->ready++;
}

static struct brig_run *remove_first(struct shape *shape)
{
    struct brig_run *parked = shape->first;
    if (parked) {
        shape->first = parked->next;
        parked->next = NULL;
        shape->ready--;
    }
    return parked;
}

/* The time at which a shape needs work, because it has a cell too many, too few, or too old. */
static uint64_t work_at(const struct shape *shape)
{
    if (!shape->spec)
        return UINT64_MAX;
    if (shape->ready > shape->wanted)
        return 0;
    if (shape->ready < shape->wanted)
        return shape->retry_at;
    return shape->first ? shape->first->built_at + AGE_MAX : UINT64_MAX;
}

/* Returns a shape that needs work now. If there is none, *next is the time at which one will. */
static struct shape *find_work(struct pool *pool, uint64_t now, uint64_t *next)
{
    *next = UINT64_MAX;
    for (size_t i = 0; i < SHAPES_MAX; i++) {
        uint64_t at = work_at(&pool->shapes[i]);
        if (at <= now)
            return &pool->shapes[i];
        if (at < *next)
            *next = at;
    }
    return NULL;
}

/* Called with the lock held; the lock is released while a cell is built or ended. This is safe
 * because shapes are removed only after the pool thread has ended, or while it does not work on
 * them. */
static void work_on(struct pool *pool, struct shape *shape)
{
    struct brig_run *parked = NULL;
    bool build_one = shape->ready < shape->wanted;
    pool->at_work = shape;
    if (!build_one)
        parked = remove_first(shape);
    pthread_mutex_unlock(&pool->lock);
    if (build_one)
        parked = run_park(pool->brig, shape->spec, NULL);
    else if (parked)
        run_end(parked);
    pthread_mutex_lock(&pool->lock);
    pool->at_work = NULL;
    if (build_one && parked) {
        shape->retry_after = RETRY_FIRST;
        add_parked(shape, parked);
    } else if (build_one) {
        shape->retry_at = clock_now() + shape->retry_after;
        shape->retry_after =
            shape->retry_after * 2 < RETRY_LAST ? shape->retry_after * 2 : RETRY_LAST;
    }
    pthread_cond_broadcast(&pool->changed);
}

static struct dead_run *next_dead(struct pool *pool)
{
    struct dead_run *dead = pool->reap_queue;
    if (dead && !(pool->reap_queue = dead->next))
        pool->reap_last = &pool->reap_queue;
    return dead;
}

/* Kill runs that have answered: no timeout ends them any more. The pool thread does this before all
 * other work, since a kill takes as long as a tenth of a run. If the pool thread is busy, the
 * caller of pool_reap() does it. */
static void kill_dead(const struct pool *pool)
{
    for (struct dead_run *dead = pool->reap_queue; dead; dead = dead->next) {
        if (!dead->killed)
            syscall(SYS_pidfd_send_signal, dead->spawned.pidfd, SIGKILL, NULL, 0);
        dead->killed = true;
    }
}

static void end_dead(struct dead_run *dead)
{
    fd_close_at(&dead->epoll);
    fd_close_at(&dead->timer);
    spawn_end(&dead->spawned);
    free(dead);
}

static void reap_one(struct pool *pool)
{
    struct dead_run *dead = next_dead(pool);
    pthread_mutex_unlock(&pool->lock);
    end_dead(dead);
    pthread_mutex_lock(&pool->lock);
    pool->reap_count--;
    pthread_cond_broadcast(&pool->changed);
}

/* Waking the pool thread takes the waker as long as a tenth of a run. While runs come, the thread
 * therefore wakes by itself. */
static void wait_for_change(struct pool *pool, uint64_t until)
{
    uint64_t now = clock_now();
    if (now < pool->taken_at + IN_USE && until > now + REFILL_AFTER)
        until = now + REFILL_AFTER;
    struct timespec at = {.tv_sec = (time_t)(until / NS_PER_S),
                          .tv_nsec = (long)(until % NS_PER_S)};
    pool->wakes_at = until;
    if (until == UINT64_MAX)
        pthread_cond_wait(&pool->changed, &pool->lock);
    else
        pthread_cond_timedwait(&pool->changed, &pool->lock, &at);
    pool->wakes_at = 0;
}

/* Build cells before emptying the reap queue: a run may wait for a cell, but nothing waits for the
 * reap queue. */
static void *pool_thread(void *arg)
{
    struct pool *pool = arg;
    uint64_t next;
    pthread_mutex_lock(&pool->lock);
    while (!pool->stop) {
        kill_dead(pool);
        struct shape *shape = find_work(pool, clock_now(), &next);
        if (shape && pool->reap_count < REAP_MAX / 2)
            work_on(pool, shape);
        else if (pool->reap_queue)
            reap_one(pool);
        else if (shape)
            work_on(pool, shape);
        else
            wait_for_change(pool, next);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* ---- for runs ------------------------------------------------------------------------------ */

struct brig_run *pool_take(struct pool *pool, const struct brig_spec *spec)
{
    struct brig_run *parked = NULL;
    if (spec->serves) /* its cell has one more socket */
        return NULL;
    if (spec->values[KEY_OPEN_FILES].set && spec->values[KEY_OPEN_FILES].number < JOB_FILES_LEAST)
        return NULL;
    const char *home = getenv("HOME");
    struct toolchain chain;
    if (toolchain_find(&chain, spec) < 0)
        return NULL;
    pthread_mutex_lock(&pool->lock);
    struct shape *shape = find_shape(pool, spec);
    bool same_caller = shape && strcmp(shape->home, home ? home : "") == 0 &&
                       toolchain_same(&shape->chain, &chain);
    if (same_caller && geteuid() == pool->euid && shape->first) {
        parked = remove_first(shape);
        pool->taken_at = clock_now();
        /* Do not build the first missing cell at once, in parallel with the run that took it. */
        if (shape->ready + 1 == shape->wanted && shape->ready > 0)
            shape->retry_at = pool->taken_at + REFILL_AFTER;
        else if (shape->ready <= shape->wanted / 2)
            shape->retry_at = 0;
    }
    pthread_mutex_unlock(&pool->lock);
    toolchain_done(&chain);
    if (parked && !is_current(parked, spec)) {
        pool_reap(pool, parked);
        return NULL;
    }
    return parked;
}

/* Wake the pool thread, unless it will wake by itself soon enough. */
static void wake_thread(struct pool *pool)
{
    uint64_t next;
    bool due = find_work(pool, clock_now(), &next) != NULL;
    if (due || pool->wakes_at > clock_now() + 2 * REFILL_AFTER)
        pthread_cond_broadcast(&pool->changed);
}

void pool_refill(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    wake_thread(pool);
    pthread_mutex_unlock(&pool->lock);
}

void pool_reap(struct pool *pool, struct brig_run *run)
{
    struct dead_run *dead = malloc(sizeof *dead);
    run->deferred = !dead;
    if (dead) {
        *dead = (struct dead_run){NULL, run->spawned, take_fd(&run->sources.epoll),
                                  take_fd(&run->sources.timer), false};
        run->spawned = SPAWNED_NONE;
    }
    run_end(run);
    if (!dead)
        return;
    pthread_mutex_lock(&pool->lock);
    while (pool->reap_count >= REAP_MAX && !pool->stop)
        pthread_cond_wait(&pool->changed, &pool->lock);
    *pool->reap_last = dead;
    pool->reap_last = &dead->next;
    pool->reap_count++;
    if (pool->wakes_at == 0) /* the pool thread is busy with work that may take long */
        kill_dead(pool);
    wake_thread(pool);
    pthread_mutex_unlock(&pool->lock);
}

/* ---- opening and closing ------------------------------------------------------------------- */

/* The pool thread blocks all signals: their handlers belong to the host program. */
static int start_thread(struct pool *pool)
{
    pthread_condattr_t attributes;
    sigset_t all, before;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int ret = pthread_create(&pool->thread, NULL, pool_thread, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -ret;
}

static int open_pool(struct brig *brig, struct brig_error *err)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return error_memory(err, STAGE);
    pool->brig = brig;
    pool->reap_last = &pool->reap_queue;
    pool->euid = geteuid();
    int ret = start_thread(pool);
    if (ret < 0) {
        free(pool);
        return error_system(err, STAGE, -ret, "cannot start a thread: %s", error_text(-ret));
    }
    brig->pool = pool;
    return 0;
}

static void shape_done(struct shape *shape)
{
    brig_spec_free(shape->spec);
    toolchain_done(&shape->chain);
    free(shape->home);
    *shape = (struct shape){0};
}

/* Copy the environment that the pool thread needs, since the host program may change it at any
 * time. */
static int shape_init(struct shape *shape, const struct brig_spec *spec)
{
    const char *home = getenv("HOME");
    *shape = (struct shape){.retry_after = RETRY_FIRST};
    shape->spec = spec_copy(spec);
    shape->home = strdup(home ? home : "");
    if (!shape->spec || !shape->home || toolchain_find(&shape->chain, spec) < 0) {
        shape_done(shape);
        return -ENOMEM;
    }
    /* The input lives only as long as the call of brig_warm(). */
    brig_spec_give_input(shape->spec, NULL, 0, NULL);
    shape->spec->home = shape->home;
    shape->spec->toolchain = &shape->chain;
    return 0;
}

/* Add a shape with its first cell. */
static int add_shape(struct pool *pool, const struct brig_spec *spec, struct brig_run *first,
                     struct brig_error *err)
{
    for (size_t i = 0; i < SHAPES_MAX; i++) {
        struct shape *shape = &pool->shapes[i];
        if (shape->spec && (shape->wanted || shape->ready || pool->at_work == shape))
            continue;
        shape_done(shape); /* a shape that is no longer wanted */
        if (shape_init(shape, spec) < 0)
            return error_memory(err, STAGE);
        add_parked(shape, first);
        return 0;
    }
    return error_refused(err, STAGE, "only %d kinds of cells can be kept warm at once", SHAPES_MAX);
}

static void set_wanted(struct pool *pool, struct shape *shape, unsigned cells)
{
    unsigned all = 0;
    shape->wanted = cells;
    for (size_t i = 0; i < SHAPES_MAX; i++)
        all += pool->shapes[i].wanted;
    __atomic_store_n(&pool->brig->cells_wanted, all, __ATOMIC_RELEASE);
}

int brig_warm(struct brig *brig, const struct brig_spec *spec, unsigned cells,
              struct brig_error *err)
{
    int ret = host_adopt(brig, err);
    if (ret < 0)
        return ret;
    if (cells > CELLS_MAX)
        return error_usage(err, STAGE, "at most %d cells of a kind can be kept warm", CELLS_MAX);
    if (!brig->pool && cells > 0)
        ret = open_pool(brig, err);
    struct pool *pool = brig->pool;
    if (ret < 0 || !pool)
        return ret;
    pthread_mutex_lock(&pool->lock);
    bool known = find_shape(pool, spec) != NULL;
    pthread_mutex_unlock(&pool->lock);
    struct brig_run *first = NULL;
    /* Build the first cell here, so that the caller gets the error if none can be built. */
    if (!known && cells > 0) {
        first = run_park(brig, spec, err);
        if (!first)
            return -errno;
    }
    pthread_mutex_lock(&pool->lock);
    if (first) {
        ret = add_shape(pool, spec, first, err);
        if (ret == 0)
            first = NULL;
    }
    struct shape *shape = find_shape(pool, spec);
    if (shape)
        set_wanted(pool, shape, cells);
    pthread_cond_broadcast(&pool->changed);
    while (cells == 0 &&
           (pool->reap_count > 0 || (shape && (shape->ready > 0 || pool->at_work == shape))))
        pthread_cond_wait(&pool->changed, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    if (first)
        run_end(first);
    return ret;
}

unsigned brig_warm_ready(struct brig *brig, const struct brig_spec *spec)
{
    unsigned ready = 0;
    if (!brig->pool || brig->pid != getpid())
        return 0;
    pthread_mutex_lock(&brig->pool->lock);
    const struct shape *shape = find_shape(brig->pool, spec);
    if (shape)
        ready = shape->ready;
    pthread_mutex_unlock(&brig->pool->lock);
    return ready;
}

void pool_close(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
    pthread_join(pool->thread, NULL);
    for (size_t i = 0; i < SHAPES_MAX; i++) {
        struct brig_run *parked;
        while ((parked = remove_first(&pool->shapes[i])))
            run_end(parked);
        shape_done(&pool->shapes[i]);
    }
    struct dead_run *dead;
    while ((dead = next_dead(pool)))
        end_dead(dead);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
