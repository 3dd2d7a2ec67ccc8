/* SPDX-License-Identifier: MIT */
/* lib/sample.c with real children: memory, processes and threads, and CPU time of a tree. */
#include "lib/cgroup/sample.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "brig.h"
#include "check.h"

#define MIB (UINT64_C(1) << 20)

/* A child that does something, says so, and waits to be killed. */
static pid_t spawn(void (*work)(void))
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work();
        if (write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void nothing(void)
{
}

static void touch_64_mib(void)
{
    char *memory = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, 64 * MIB);
}

static void *wait_for_ever(void *arg)
{
    for (;;)
        pause();
    return NULL;
}

static void start_3_threads(void)
{
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, wait_for_ever, NULL);
}

static void burn_a_fifth_of_a_second(void)
{
    while (clock() < CLOCKS_PER_SEC / 5) {
    }
}

static struct sample take(uint64_t exact_from)
{
    struct sample sample;
    assert_int_equal(sample_tree(getpid(), exact_from, &sample), 0);
    return sample;
}

static void test_no_children_are_nothing(void **state)
{
    struct sample sample = take(BRIG_UNLIMITED);
    assert_int_equal(sample.pids, 0);
    assert_int_equal(sample.memory_bytes, 0);
    assert_int_equal(sample.cpu_user_ns + sample.cpu_system_ns, 0);
}

static void test_memory_of_a_child_is_seen_by_both_ways_of_counting(void **state)
{
    static const uint64_t exact_from[] = {BRIG_UNLIMITED, 0};
    for (size_t i = 0; i < COUNT(exact_from); i++) {
        pid_t idle = spawn(nothing);
        uint64_t before = take(exact_from[i]).memory_bytes;
        pid_t busy = spawn(touch_64_mib);
        uint64_t after = take(exact_from[i]).memory_bytes;
        assert_true(after >= before + 60 * MIB);
        end_child(idle);
        end_child(busy);
    }
}

/* Pages that a fork shares are counted once per process by the fast way only. */
static void test_shared_pages_are_counted_once_by_the_exact_way(void **state)
{
    char *memory = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, 64 * MIB);
    pid_t children[4];
    for (size_t i = 0; i < COUNT(children); i++)
        children[i] = spawn(nothing);
    uint64_t fast = take(BRIG_UNLIMITED).memory_bytes, exact = take(fast).memory_bytes;
    for (size_t i = 0; i < COUNT(children); i++)
        end_child(children[i]);
    munmap(memory, 64 * MIB);
    assert_true(fast >= 4 * 64 * MIB);
    assert_true(exact < 2 * 64 * MIB);
}

static void test_threads_count_as_processes(void **state)
{
    pid_t one = spawn(nothing), four = spawn(start_3_threads);
    assert_int_equal(take(BRIG_UNLIMITED).pids, 5);
    end_child(one);
    end_child(four);
}

static void test_processor_time_of_a_child_is_seen(void **state)
{
    pid_t pid = spawn(burn_a_fifth_of_a_second);
    struct sample sample = take(BRIG_UNLIMITED);
    assert_true(sample.cpu_user_ns + sample.cpu_system_ns >= UINT64_C(150000000));
    end_child(pid);
}

static void test_a_process_that_is_not_there_is_an_error(void **state)
{
    struct sample sample;
    pid_t pid = spawn(nothing);
    end_child(pid);
    assert_int_equal(sample_tree(pid, BRIG_UNLIMITED, &sample), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_children_are_nothing),
        cmocka_unit_test(test_memory_of_a_child_is_seen_by_both_ways_of_counting),
        cmocka_unit_test(test_shared_pages_are_counted_once_by_the_exact_way),
        cmocka_unit_test(test_threads_count_as_processes),
        cmocka_unit_test(test_processor_time_of_a_child_is_seen),
        cmocka_unit_test(test_a_process_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
