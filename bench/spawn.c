/* SPDX-License-Identifier: MIT */
/* The cost of a run. Each round measures every way once, so that noise of the machine affects all
 * of them alike.
 *
 *     bench_spawn [OPTION...] NAME=KIND:COMMAND [ARGUMENT...] , NAME=KIND:COMMAND ...
 *
 * KIND is spawn (posix_spawn and waitpid), cold (libbrig), or warm (libbrig, a cell built ahead). A
 * single comma separates the ways. Prints one JSON object per line.
 *
 *     --rounds N      measurements of each way                                (200)
 *     --idle MS       sleep before each                                       (0)
 *     --ballast MB    memory of this process                                  (0)
 *     --alive N       runs that are alive all the time                        (0)
 *     --lanes N       instead: throughput of each way with N threads, for --seconds
 *     --seconds S                                                             (2)
 *     --parked N      instead: memory of N parked cells and of N running ones */
#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "brig.h"

#define ROUNDS_MAX 5000
#define WAYS_MAX   24
#define CELLS      8

struct way {
    const char *name;
    enum { SPAWN, COLD, WARM } kind;
    char *argv[48];
    struct brig *brig; /* for warm ways: one shape each */
    uint64_t *times;
};

static struct way ways[WAYS_MAX];
static size_t way_count, rounds = 200, alive, lanes, parked, ballast;
static unsigned idle_ms, seconds = 2;
static struct brig *host;

static void fail(const char *what)
{
    fprintf(stderr, "bench_spawn: %s\n", what);
    exit(1);
}

static void nap(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* ---- ways ---------------------------------------------------------------------------------- */

static void run_spawn(const struct way *way)
{
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, way->argv[0], NULL, NULL, way->argv, environ) != 0)
        fail(way->argv[0]);
    if (waitpid(pid, &status, 0) < 0 || status != 0)
        fail(way->name);
}

static struct brig_spec *make_spec(const struct way *way)
{
    struct brig_error err;
    struct brig_spec *spec = NULL;
    size_t count = 0;
    while (way->argv[count])
        count++;
    if (brig_spec_new(&spec, &err) < 0 ||
        brig_spec_set_command(spec, (const char *const *)way->argv, count, &err) < 0)
        fail(err.text);
    return spec;
}

static struct brig_run *start(struct brig *brig, const struct way *way)
{
    struct brig_error err;
    struct brig_run *run = NULL;
    struct brig_spec *spec = make_spec(way);
    if (brig_start(brig, spec, &run, &err) < 0)
        fail(err.text);
    brig_spec_free(spec);
    return run;
}

static bool run_library(struct brig *brig, const struct way *way)
{
    struct brig_run *run = start(brig, way);
    if (!brig_run_wait(run, -1) || brig_run_result(run)->status != BRIG_EXITED)
        fail("a run did not exit");
    bool warm = brig_run_was_warm(run);
    brig_run_free(run);
    return warm;
}

static void open_pool(struct way *way, unsigned cells)
{
    struct brig_error err;
    struct brig_spec *spec = make_spec(way);
    if (brig_open(&way->brig, &err) < 0 || brig_warm(way->brig, spec, cells, &err) < 0)
        fail(err.text);
    brig_spec_free(spec);
}

/* Not measured: wait until the cells are ready and their pool thread is idle. */
static void wait_for_cells(const struct way *way, unsigned cells)
{
    struct brig_spec *spec = make_spec(way);
    while (brig_warm_ready(way->brig, spec) < cells)
        nap(1);
    brig_spec_free(spec);
    nap(5);
}

static uint64_t measure(const struct way *way)
{
    for (size_t i = 0; i < way_count;
         i++) { /* for every way, so that no pool thread is active during a measurement */
        if (ways[i].kind == WARM)
            wait_for_cells(&ways[i], CELLS);
    }
    if (idle_ms)
        nap(idle_ms);
    uint64_t begin = clock_now();
    if (way->kind == SPAWN)
        run_spawn(way);
    else if (way->kind == COLD)
        run_library(host, way);
    else if (!run_library(way->brig, way))
        fail("a warm run was not warm");
    return clock_now() - begin;
}

/* ---- latency ------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_latency(void)
{
    for (size_t i = 0; i < way_count; i++) {
        uint64_t *times = ways[i].times;
        qsort(times, rounds, sizeof *times, by_time);
        printf("{\"name\":\"%s\",\"rounds\":%zu,\"median_us\":%.1f,\"minimum_us\":%.1f,"
               "\"p99_us\":%.1f}\n",
               ways[i].name, rounds, (double)times[rounds / 2] / 1000, (double)times[0] / 1000,
               (double)times[rounds * 99 / 100] / 1000);
    }
}

static void run_rounds(void)
{
    static struct brig_run *runs[2000];
    const struct way sleeper = {
        .name = "sleep", .kind = COLD, .argv = {(char *)"sleep", (char *)"1000", NULL}};
    if (alive > sizeof runs / sizeof *runs)
        fail("--alive is too large");
    for (size_t i = 0; i < alive; i++)
        runs[i] = start(host, &sleeper);
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < way_count; i++)
            ways[i].times[round] = measure(&ways[i]);
    }
    print_latency();
    for (size_t i = 0; i < alive; i++)
        brig_run_free(runs[i]);
}

/* ---- throughput ---------------------------------------------------------------------------- */

struct lane {
    pthread_t thread;
    const struct way *way;
    uint64_t until;
    size_t count, warm;
};

/* Each lane has its own handle. */
static void *run_lane(void *arg)
{
    struct lane *lane = arg;
    struct way way = *lane->way;
    struct brig_error err;
    if (way.kind == WARM) {
        open_pool(&way, CELLS);
        wait_for_cells(&way, CELLS);
    } else if (brig_open(&way.brig, &err) < 0) {
        fail(err.text);
    }
    lane->until = clock_now() + seconds * NS_PER_S;
    for (; clock_now() < lane->until; lane->count++) {
        if (way.kind == SPAWN)
            run_spawn(&way);
        else
            lane->warm += run_library(way.brig, &way);
    }
    brig_close(way.brig);
    return NULL;
}

static void run_lanes(void)
{
    for (size_t i = 0; i < way_count; i++) {
        struct lane lane[16] = {{0}};
        size_t count = 0, warm = 0;
        if (lanes > 16)
            fail("--lanes is too large");
        for (size_t n = 0; n < lanes; n++) {
            lane[n] = (struct lane){.way = &ways[i]};
            if (pthread_create(&lane[n].thread, NULL, run_lane, &lane[n]) != 0)
                fail("no thread");
        }
        for (size_t n = 0; n < lanes; n++) {
            pthread_join(lane[n].thread, NULL);
            count += lane[n].count;
            warm += lane[n].warm;
        }
        printf("{\"name\":\"%s\",\"lanes\":%zu,\"per_second\":%.1f,\"warm_share\":%.2f}\n",
               ways[i].name, lanes, (double)count / seconds,
               count ? (double)warm / (double)count : 0.0);
    }
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Memory of processes and of kernel structures; not the page cache, which varies. */
static long used_kib(void)
{
    static const char *const fields[] = {"Slab:",  "KernelStack:", "PageTables:",   "AnonPages:",
                                         "Shmem:", "Percpu:",      "SecPageTables:"};
    char line[128], name[64];
    long total = 0, kib;
    nap(2000); /* wait for deferred frees */
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %ld", name, &kib) != 2)
            continue;
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            total += strcmp(name, fields[i]) == 0 ? kib : 0;
    }
    if (file)
        fclose(file);
    return total;
}

static void weigh(void)
{
    struct way sleeper = {
        .name = "sleep", .kind = WARM, .argv = {(char *)"sleep", (char *)"1000", NULL}};
    struct brig_run *runs[64];
    if (parked > 64)
        fail("--parked is too large");
    run_library(host, &ways[0]); /* warms caches */
    long before = used_kib();
    open_pool(&sleeper, (unsigned)parked);
    wait_for_cells(&sleeper, (unsigned)parked);
    long with_parked = used_kib();
    brig_close(sleeper.brig);
    long between = used_kib();
    for (size_t i = 0; i < parked; i++)
        runs[i] = start(host, &sleeper);
    long with_running = used_kib();
    for (size_t i = 0; i < parked; i++)
        brig_run_free(runs[i]);
    printf("{\"cells\":%zu,\"parked_kib\":%.0f,\"running_kib\":%.0f}\n", parked,
           (double)(with_parked - before) / (double)parked,
           (double)(with_running - between) / (double)parked);
}

/* ---- main ---------------------------------------------------------------------------------- */

static void add_way(char **words, size_t count)
{
    static const char *const kinds[] = {"spawn", "cold", "warm"};
    struct way *way = &ways[way_count++];
    char *kind = strchr(words[0], '='), *command = kind ? strchr(kind, ':') : NULL;
    if (!command || count > 46 || way_count == WAYS_MAX)
        fail("a way is NAME=KIND:COMMAND [ARGUMENT...]");
    *kind++ = *command++ = 0;
    way->name = words[0];
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(kind, kinds[i]) == 0)
            way->kind = (int)i;
    }
    way->argv[0] = command;
    memcpy(way->argv + 1, words + 1, (count - 1) * sizeof *words);
    way->times = calloc(ROUNDS_MAX, sizeof *way->times);
    if (!way->times)
        fail("no memory");
    if (way->kind == WARM && !lanes)
        open_pool(way, CELLS);
}

static int read_options(int argc, char **argv)
{
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        size_t value = strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--rounds") == 0)
            rounds = value;
        else if (strcmp(argv[i], "--idle") == 0)
            idle_ms = (unsigned)value;
        else if (strcmp(argv[i], "--ballast") == 0)
            ballast = value;
        else if (strcmp(argv[i], "--alive") == 0)
            alive = value;
        else if (strcmp(argv[i], "--lanes") == 0)
            lanes = value;
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = (unsigned)value;
        else if (strcmp(argv[i], "--parked") == 0)
            parked = value;
        else
            fail(argv[i]);
    }
    if (rounds < 10 || rounds > ROUNDS_MAX)
        fail("--rounds is out of range");
    return i;
}

int main(int argc, char **argv)
{
    struct brig_error err;
    struct rlimit files;
    int i = read_options(argc, argv);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    char *memory = ballast ? malloc(ballast << 20) : NULL;
    for (size_t at = 0; memory && at < ballast << 20; at += 4096)
        memory[at] = 1;
    if (brig_open(&host, &err) < 0)
        fail(err.text);
    for (int start_at = i; i <= argc; i++) {
        if (i < argc && strcmp(argv[i], ",") != 0)
            continue;
        if (i > start_at)
            add_way(argv + start_at, (size_t)(i - start_at));
        start_at = i + 1;
    }
    if (parked)
        weigh();
    else if (lanes)
        run_lanes();
    else
        run_rounds();
    for (size_t n = 0; n < way_count; n++) {
        brig_close(ways[n].brig);
        free(ways[n].times);
    }
    brig_close(host);
    free(memory);
    return 0;
}
