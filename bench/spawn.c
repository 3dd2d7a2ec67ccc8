/* What a run costs, as multiples of posix_spawn of the same program. One interleaved series: each
 * round measures every way once, so that the noise of the machine hits all of them alike.
 *
 *     bench_spawn BRIG TINY [ROUNDS] */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "brig.h"

#define ROUNDS_MAX 5000

struct way {
    const char *name;
    const char *program;
    void (*run)(const struct way *way);
    uint64_t times[ROUNDS_MAX];
};

static const char *brig_path;
static struct brig *host;

static void fail(const char *what)
{
    fprintf(stderr, "bench_spawn: %s\n", what);
    exit(1);
}

static void spawn_and_wait(char *const *argv)
{
    pid_t pid;
    int status;
    if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0)
        fail("posix_spawn failed");
    if (waitpid(pid, &status, 0) < 0 || status != 0)
        fail(argv[0]);
}

static void run_spawn(const struct way *way)
{
    char *const argv[] = {(char *)way->program, NULL};
    spawn_and_wait(argv);
}

static void run_command(const struct way *way)
{
    char *const argv[] = {(char *)brig_path, (char *)"run", (char *)"--", (char *)way->program,
                          NULL};
    spawn_and_wait(argv);
}

static void run_library(const struct way *way)
{
    struct brig_error err;
    struct brig_spec *spec = NULL;
    struct brig_run *run = NULL;
    const char *argv[] = {way->program};
    if (brig_spec_new(&spec, &err) < 0 || brig_spec_set_command(spec, argv, 1, &err) < 0 ||
        brig_start(host, spec, &run, &err) < 0)
        fail(err.text);
    if (!brig_run_wait(run, -1) || brig_run_result(run)->status != BRIG_EXITED)
        fail("the run did not exit");
    brig_run_free(run);
    brig_spec_free(spec);
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t median(struct way *way, size_t rounds)
{
    qsort(way->times, rounds, sizeof *way->times, by_time);
    return way->times[rounds / 2];
}

static void print(struct way *ways, size_t count, size_t rounds)
{
    double base = 1;
    printf("%-34s %9s %9s %9s %8s\n", "", "median", "minimum", "p99", "ratio");
    for (size_t i = 0; i < count; i++) {
        double middle = (double)median(&ways[i], rounds);
        if (ways[i].run == run_spawn)
            base = middle;
        printf("%-34s %6.0f us %6.0f us %6.0f us %8.2f\n", ways[i].name, middle / 1000,
               (double)ways[i].times[0] / 1000, (double)ways[i].times[rounds * 99 / 100] / 1000,
               middle / base);
    }
}

int main(int argc, char **argv)
{
    struct brig_error err;
    if (argc < 3)
        fail("usage: bench_spawn BRIG TINY [ROUNDS]");
    brig_path = argv[1];
    size_t rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : 400;
    if (rounds < 10 || rounds > ROUNDS_MAX)
        fail("ROUNDS is out of range");
    if (brig_open(&host, &err) < 0)
        fail(err.text);
    static struct way ways[] = {
        {.name = "posix_spawn /bin/true", .program = "/bin/true", .run = run_spawn},
        {.name = "libbrig     /bin/true", .program = "/bin/true", .run = run_library},
        {.name = "brig run    /bin/true", .program = "/bin/true", .run = run_command},
        {.name = "posix_spawn a tiny static program", .run = run_spawn},
        {.name = "libbrig     a tiny static program", .run = run_library},
        {.name = "brig run    a tiny static program", .run = run_command},
    };
    size_t count = sizeof ways / sizeof *ways;
    for (size_t i = 3; i < count; i++)
        ways[i].program = argv[2];
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < count; i++) {
            uint64_t start = clock_now();
            ways[i].run(&ways[i]);
            ways[i].times[round] = clock_now() - start;
        }
    }
    print(ways, count, rounds);
    brig_close(host);
    return 0;
}
