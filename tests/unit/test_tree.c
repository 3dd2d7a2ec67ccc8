/* SPDX-License-Identifier: MIT */
/* child/tree.c with real children: all of the tree is seen, and a signal hits the process that was
 * meant or none. */
#include "child/tree.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define TREE_MAX 512

static struct tree_node nodes[TREE_MAX];

/* A child that waits to be killed, and dies with us. */
static pid_t spawn_sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    return pid;
}

/* A chain of processes, each the child of the one before. Their pids come over a pipe. */
static void spawn_chain(pid_t *pids, size_t depth)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (size_t i = 0; i < depth; i++) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pid_t self = getpid();
            if (write(ends[1], &self, sizeof self) != sizeof self)
                _exit(1);
            if (i + 1 < depth && fork() != 0)
                break;
        }
        close(ends[1]);
        for (;;)
            pause();
    }
    close(ends[1]);
    for (size_t i = 0; i < depth; i++)
        assert_int_equal(read(ends[0], &pids[i], sizeof pids[i]), sizeof pids[i]);
    close(ends[0]);
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static long find(long count, pid_t pid)
{
    for (long i = 0; i < count; i++) {
        if (nodes[i].pid == pid)
            return i;
    }
    return -1;
}

/* ---- listing ------------------------------------------------------------------------------- */

static void test_a_process_without_children_has_an_empty_tree(void **state)
{
    pid_t pid = spawn_sleeper();
    assert_int_equal(tree_list(pid, nodes, TREE_MAX), 0);
    end_child(pid);
}

static void test_all_children_are_listed_and_the_root_is_not(void **state)
{
    pid_t pids[200]; /* more than one read of the list holds */
    for (size_t i = 0; i < COUNT(pids); i++)
        pids[i] = spawn_sleeper();
    long count = tree_list(getpid(), nodes, TREE_MAX);
    assert_int_equal(count, COUNT(pids));
    assert_int_equal(find(count, getpid()), -1);
    for (size_t i = 0; i < COUNT(pids); i++) {
        long at = find(count, pids[i]);
        assert_true(at >= 0);
        assert_int_equal(nodes[at].parent, getpid());
    }
    for (size_t i = 0; i < COUNT(pids); i++)
        end_child(pids[i]);
}

static void test_parents_stand_before_their_children(void **state)
{
    pid_t pids[20];
    spawn_chain(pids, COUNT(pids));
    long count = tree_list(getpid(), nodes, TREE_MAX);
    assert_int_equal(count, COUNT(pids));
    for (size_t i = 0; i < COUNT(pids); i++) {
        assert_int_equal(nodes[i].pid, pids[i]);
        assert_int_equal(nodes[i].parent, i ? pids[i - 1] : getpid());
    }
    assert_int_equal(tree_list(pids[4], nodes, TREE_MAX), 15);
    end_child(pids[0]);
}

static void test_no_more_than_the_room_is_filled(void **state)
{
    pid_t pids[5];
    spawn_chain(pids, COUNT(pids));
    for (uint32_t max = 0; max <= COUNT(pids); max++) {
        nodes[max] = (struct tree_node){-7, -7};
        assert_int_equal(tree_list(getpid(), nodes, max), max);
        assert_int_equal(nodes[max].pid, -7);
    }
    end_child(pids[0]);
}

struct fork_in_thread {
    pid_t pid;
    pthread_barrier_t forked, done;
};

static void *fork_and_stay(void *arg)
{
    struct fork_in_thread *t = arg;
    t->pid = spawn_sleeper();
    pthread_barrier_wait(&t->forked);
    pthread_barrier_wait(&t->done);
    return NULL;
}

/* The kernel lists a child under the thread that forked it. */
static void test_a_child_of_another_thread_is_listed(void **state)
{
    struct fork_in_thread t;
    pthread_t thread;
    pthread_barrier_init(&t.forked, NULL, 2);
    pthread_barrier_init(&t.done, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, fork_and_stay, &t), 0);
    pthread_barrier_wait(&t.forked);
    long count = tree_list(getpid(), nodes, TREE_MAX);
    assert_int_equal(count, 1);
    assert_int_equal(nodes[0].pid, t.pid);
    assert_int_equal(nodes[0].parent, getpid());
    pthread_barrier_wait(&t.done);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&t.forked);
    pthread_barrier_destroy(&t.done);
    end_child(t.pid);
}

static void test_a_process_that_is_not_there_is_an_error(void **state)
{
    pid_t pid = spawn_sleeper();
    end_child(pid);
    assert_int_equal(tree_list(pid, nodes, TREE_MAX), -ENOENT);
}

static void test_a_zombie_is_listed_until_it_is_reaped(void **state)
{
    siginfo_t info;
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    assert_int_equal(tree_list(getpid(), nodes, TREE_MAX), 1);
    end_child(pid);
    assert_int_equal(tree_list(getpid(), nodes, TREE_MAX), 0);
}

/* ---- signalling ---------------------------------------------------------------------------- */

static int signal_that_ended(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_a_signal_reaches_the_process_that_was_listed(void **state)
{
    struct tree_node node = {spawn_sleeper(), getpid()};
    assert_int_equal(tree_signal(&node, 1, SIGUSR1), 0);
    assert_int_equal(signal_that_ended(node.pid), SIGUSR1);
}

static void test_a_process_that_was_orphaned_meanwhile_is_still_reached(void **state)
{
    struct tree_node node = {spawn_sleeper(), 1};
    assert_int_equal(tree_signal(&node, getpid(), SIGUSR1), 0);
    assert_int_equal(signal_that_ended(node.pid), SIGUSR1);
}

static void test_a_process_of_another_parent_got_the_number_and_is_left_alone(void **state)
{
    struct tree_node node = {spawn_sleeper(), 2};
    assert_int_equal(tree_signal(&node, 1, SIGKILL), -ESRCH);
    assert_int_equal(waitpid(node.pid, NULL, WNOHANG), 0);
    end_child(node.pid);
}

static void test_a_process_that_is_gone_is_not_signalled(void **state)
{
    struct tree_node node = {spawn_sleeper(), getpid()};
    end_child(node.pid);
    assert_int_equal(tree_signal(&node, 1, SIGKILL), -ESRCH);
}

/* The parent stands behind the name in /proc/PID/stat, and the name is the process's own choice. */
static void test_a_name_full_of_brackets_does_not_hide_the_parent(void **state)
{
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, ") S 1 (a) ) R 1");
        if (write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(tree_signal(&(struct tree_node){pid, 2}, 1, SIGKILL), -ESRCH);
    assert_int_equal(tree_signal(&(struct tree_node){pid, getpid()}, 1, SIGUSR1), 0);
    assert_int_equal(signal_that_ended(pid), SIGUSR1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_process_without_children_has_an_empty_tree),
        cmocka_unit_test(test_all_children_are_listed_and_the_root_is_not),
        cmocka_unit_test(test_parents_stand_before_their_children),
        cmocka_unit_test(test_no_more_than_the_room_is_filled),
        cmocka_unit_test(test_a_child_of_another_thread_is_listed),
        cmocka_unit_test(test_a_process_that_is_not_there_is_an_error),
        cmocka_unit_test(test_a_zombie_is_listed_until_it_is_reaped),
        cmocka_unit_test(test_a_signal_reaches_the_process_that_was_listed),
        cmocka_unit_test(test_a_process_that_was_orphaned_meanwhile_is_still_reached),
        cmocka_unit_test(test_a_process_of_another_parent_got_the_number_and_is_left_alone),
        cmocka_unit_test(test_a_process_that_is_gone_is_not_signalled),
        cmocka_unit_test(test_a_name_full_of_brackets_does_not_hide_the_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
