/* Parked cells and their keeper. */
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

#define STAGE "warm"

#define SHAPES_MAX      16
#define CELLS_MAX       64                /* of one shape */
#define GRAVES_MAX      64                /* what is over and not yet removed; then runs wait */
#define AGE_MAX         (300 * NS_PER_S)  /* what a cell copied of /etc may be this old */
#define RETRY_FIRST     (100 * NS_PER_MS) /* after a cell could not be built */
#define RETRY_LAST      (10 * NS_PER_S)
#define REFILL_AFTER    (10 * NS_PER_MS) /* unless half of them are gone */
#define IN_USE          NS_PER_S         /* after a cell was taken: the keeper need not be woken */
#define JOB_FILES_LEAST 16 /* descriptors that a guest must be allowed, to be given its job */

struct shape {
    struct brig_spec *spec; /* NULL: not used */
    struct brig_run *first; /* oldest first */
    unsigned wanted, ready;
    uint64_t retry_at, retry_after;
};

/* What is left of a run, without the memory that it takes. */
struct grave {
    struct grave *next;
    struct spawned spawned;
    int epoll, timer; /* to close the first takes long */
    bool killed;
};

struct pool {
    struct brig *brig;
    uid_t euid; /* whose cells they are */
    pthread_t keeper;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something to do for the keeper, or something it has done */
    bool stop;
    uint64_t wakes_at;     /* the keeper, by itself; 0: it is awake */
    uint64_t taken_at;     /* the last cell that was */
    struct shape *at_work; /* what it builds or ends a cell of */
    struct shape shapes[SHAPES_MAX];
    struct grave *graves, **last_grave;
    unsigned grave_count;
};

/* ---- matching ------------------------------------------------------------------------------ */

/* What a cell does not know of: the supervisor keeps it, or the job brings it. */
static bool is_of_the_run(enum key key)
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
        if (!is_of_the_run((enum key)key) && !same_value(&a->values[key], &b->values[key]))
            return false;
    }
    return a->template == b->template;
}

static struct shape *find_shape(struct pool *pool, const struct brig_spec *spec)
{
    for (size_t i = 0; i < SHAPES_MAX; i++) {
        if (pool->shapes[i].spec && same_shape(pool->shapes[i].spec, spec))
            return &pool->shapes[i];
    }
    return NULL;
}

/* Is what the caller named still what the cell shows? */
static bool shows_the_same(const struct view *view)
{
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cell_op *op = &view->ops[i];
        struct stat st;
        if (op->kind != CELL_BIND || (op->a & CELL_SYSTEM))
            continue;
        if (lstat(op->source, &st) < 0 || source_device(&st) != op->b || st.st_ino != op->c)
            return false;
    }
    return true;
}

/* Would a cell that is built now be the same? The current folder is part of it, unless the spec
 * names another. */
static bool is_current(const struct brig_run *parked, const struct brig_spec *spec)
{
    char folder[4096];
    if (clock_now() - parked->built_at > AGE_MAX)
        return false;
    /* The guest of a template has a socket of its own: if it is gone, its job cannot be sent. */
    if (!spec->template && !spawn_is_parked(&parked->spawned))
        return false;
    if (!spec->values[KEY_WORKDIR].text && !spec->template &&
        (!getcwd(folder, sizeof folder) || strcmp(folder, parked->plan.workdir_path) != 0))
        return false;
    if (spec->template && template_stale(spec->template))
        return false;
    return shows_the_same(&parked->plan.cell.view);
}

/* ---- the keeper ---------------------------------------------------------------------------- */

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

/* When there is something to do for a shape: a cell too many, too few, or too old. */
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

/* A shape that is due; else *next is when one will be. */
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

/* Called with the lock, which is given up while cells are built and ended. Shapes are only removed
 * after the keeper's end. */
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

static struct grave *remove_grave(struct pool *pool)
{
    struct grave *grave = pool->graves;
    if (grave && !(pool->graves = grave->next))
        pool->last_grave = &pool->graves;
    return grave;
}

/* Nothing holds what has answered to its time any more. The keeper does this before all else, since
 * it takes as long as a tenth of a run; who finds the keeper at work does it as well. */
static void kill_graves(const struct pool *pool)
{
    for (struct grave *grave = pool->graves; grave; grave = grave->next) {
        if (!grave->killed)
            syscall(SYS_pidfd_send_signal, grave->spawned.pidfd, SIGKILL, NULL, 0);
        grave->killed = true;
    }
}

static void end_grave(struct grave *grave)
{
    fd_close_at(&grave->epoll);
    fd_close_at(&grave->timer);
    spawn_end(&grave->spawned);
    free(grave);
}

static void bury_one(struct pool *pool)
{
    struct grave *grave = remove_grave(pool);
    pthread_mutex_unlock(&pool->lock);
    end_grave(grave);
    pthread_mutex_lock(&pool->lock);
    pool->grave_count--;
    pthread_cond_broadcast(&pool->changed);
}

/* To be woken takes its waker as long as a tenth of a run. While runs come, it looks by itself. */
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

/* Cells before graves: a run may wait for the one, nobody for the other. */
static void *keep(void *arg)
{
    struct pool *pool = arg;
    uint64_t next;
    pthread_mutex_lock(&pool->lock);
    while (!pool->stop) {
        kill_graves(pool);
        struct shape *shape = find_work(pool, clock_now(), &next);
        if (shape && pool->grave_count < GRAVES_MAX / 2)
            work_on(pool, shape);
        else if (pool->graves)
            bury_one(pool);
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
    if (spec->serves) /* its cell has a socket more */
        return NULL;
    if (spec->values[KEY_OPEN_FILES].set && spec->values[KEY_OPEN_FILES].number < JOB_FILES_LEAST)
        return NULL;
    const char *home = getenv("HOME");
    pthread_mutex_lock(&pool->lock);
    struct shape *shape = find_shape(pool, spec);
    bool same_caller = shape && strcmp(shape->spec->home, home ? home : "") == 0;
    if (same_caller && geteuid() == pool->euid && shape->first) {
        parked = remove_first(shape);
        pool->taken_at = clock_now();
        /* The first one that is missing is not built at once, beside the run it was taken for. */
        if (shape->ready + 1 == shape->wanted && shape->ready > 0)
            shape->retry_at = pool->taken_at + REFILL_AFTER;
        else if (shape->ready <= shape->wanted / 2)
            shape->retry_at = 0;
    }
    pthread_mutex_unlock(&pool->lock);
    if (parked && !is_current(parked, spec)) {
        pool_bury(pool, parked);
        return NULL;
    }
    return parked;
}

/* Only if it would not wake by itself soon enough. */
static void wake_keeper(struct pool *pool)
{
    uint64_t next;
    bool due = find_work(pool, clock_now(), &next) != NULL;
    if (due || pool->wakes_at > clock_now() + 2 * REFILL_AFTER)
        pthread_cond_broadcast(&pool->changed);
}

bool pool_goes_on(struct pool *pool)
{
    bool wanted = false;
    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < SHAPES_MAX; i++)
        wanted = wanted || (pool->shapes[i].spec && pool->shapes[i].wanted > 0);
    pthread_mutex_unlock(&pool->lock);
    return wanted;
}

void pool_refill(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    wake_keeper(pool);
    pthread_mutex_unlock(&pool->lock);
}

void pool_bury(struct pool *pool, struct brig_run *run)
{
    struct grave *grave = malloc(sizeof *grave);
    run->deferred = !grave;
    if (grave) {
        *grave =
            (struct grave){NULL, run->spawned, take_fd(&run->epoll), take_fd(&run->timer), false};
        run->spawned = SPAWNED_NONE;
    }
    run_end(run);
    if (!grave)
        return;
    pthread_mutex_lock(&pool->lock);
    while (pool->grave_count >= GRAVES_MAX && !pool->stop)
        pthread_cond_wait(&pool->changed, &pool->lock);
    *pool->last_grave = grave;
    pool->last_grave = &grave->next;
    pool->grave_count++;
    if (pool->wakes_at == 0) /* it is at something that may take long */
        kill_graves(pool);
    wake_keeper(pool);
    pthread_mutex_unlock(&pool->lock);
}

/* ---- opening and closing ------------------------------------------------------------------- */

/* The keeper takes no signals: they are the host's. */
static int start_keeper(struct pool *pool)
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
    int ret = pthread_create(&pool->keeper, NULL, keep, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -ret;
}

static int open_pool(struct brig *brig, struct brig_error *err)
{
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return error_memory(err, STAGE);
    pool->brig = brig;
    pool->last_grave = &pool->graves;
    pool->euid = geteuid();
    int ret = start_keeper(pool);
    if (ret < 0) {
        free(pool);
        return error_system(err, STAGE, -ret, "cannot start a thread: %s", error_text(-ret));
    }
    brig->pool = pool;
    return 0;
}

/* The keeper must not look into an environment that the host may change beside it. */
static struct brig_spec *copy_with_home(const struct brig_spec *spec)
{
    struct brig_spec *copy = spec_copy(spec);
    const char *home = getenv("HOME");
    if (copy)
        brig_spec_give_input(copy, NULL, 0, NULL); /* it is not there for long */
    if (copy && !(copy->home = strdup(home ? home : ""))) {
        brig_spec_free(copy);
        return NULL;
    }
    return copy;
}

/* A shape of its own, with its first cell. */
static int add_shape(struct pool *pool, const struct brig_spec *spec, struct brig_run *first,
                     struct brig_error *err)
{
    for (size_t i = 0; i < SHAPES_MAX; i++) {
        struct shape *shape = &pool->shapes[i];
        if (shape->spec && (shape->wanted || shape->ready || pool->at_work == shape))
            continue;
        brig_spec_free(shape->spec); /* of one that is not wanted any more */
        *shape = (struct shape){.spec = copy_with_home(spec), .retry_after = RETRY_FIRST};
        if (!shape->spec)
            return error_memory(err, STAGE);
        add_parked(shape, first);
        return 0;
    }
    return error_refused(err, STAGE, "only %d kinds of cells can be kept warm at once", SHAPES_MAX);
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
    if (!known && cells > 0) { /* so that it is told now if none can be built */
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
        shape->wanted = cells;
    pthread_cond_broadcast(&pool->changed);
    while (cells == 0 &&
           (pool->grave_count > 0 || (shape && (shape->ready > 0 || pool->at_work == shape))))
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
    pthread_join(pool->keeper, NULL);
    for (size_t i = 0; i < SHAPES_MAX; i++) {
        struct brig_run *parked;
        while ((parked = remove_first(&pool->shapes[i])))
            run_end(parked);
        brig_spec_free(pool->shapes[i].spec);
    }
    struct grave *grave;
    while ((grave = remove_grave(pool)))
        end_grave(grave);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}
