/* SPDX-License-Identifier: MIT */
/* base/nonblocking writer.c: a write never waits for a reader, never raises SIGPIPE, and never
 * changes the descriptor that it was given. An alarm ends a test that does wait. */
#include "base/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"

static unsigned char bytes[65536];

static int start(void **state)
{
    alarm(20);
    return 0;
}

static int end(void **state)
{
    alarm(0);
    return 0;
}

#define writer_test(test) cmocka_unit_test_setup_teardown(test, start, end)

static void make_pipe(int ends[2])
{
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
}

static size_t drain(int fd)
{
    size_t total = 0;
    char text[65536];
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (ssize_t n; (n = read(fd, text, sizeof text)) > 0;)
        total += (size_t)n;
    return total;
}

/* Write until it would wait. Returns how much went in. */
static size_t fill(struct writer *writer)
{
    size_t total = 0;
    for (;;) {
        ssize_t n = writer_write(writer, bytes, sizeof bytes);
        if (n < 0) {
            assert_int_equal(n, -EAGAIN);
            return total;
        }
        assert_true(n > 0);
        total += (size_t)n;
    }
}

/* ---- kinds --------------------------------------------------------------------------------- */

static void test_a_pipe_is_opened_a_second_time(void **state)
{
    int ends[2];
    struct writer writer;
    make_pipe(ends);
    assert_int_equal(writer_open(&writer, ends[1]), 0);
    assert_int_equal(writer.kind, WRITER_REOPEN);
    assert_int_not_equal(writer.fd, ends[1]);
    writer_close(&writer);
    close(ends[0]);
    close(ends[1]);
}

static void test_a_full_pipe_says_so_at_once_and_goes_on_when_read(void **state)
{
    int ends[2];
    struct writer writer;
    make_pipe(ends);
    assert_int_equal(writer_open(&writer, ends[1]), 0);
    size_t first = fill(&writer);
    assert_true(first > 0);
    assert_int_equal(drain(ends[0]), first);
    assert_int_equal(fill(&writer), first);
    writer_close(&writer);
    close(ends[0]);
    close(ends[1]);
}

static void test_a_full_socket_says_so_at_once(void **state)
{
    int ends[2];
    struct writer writer;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(writer_open(&writer, ends[1]), 0);
    assert_int_equal(writer.kind, WRITER_SOCKET);
    size_t first = fill(&writer);
    assert_int_equal(drain(ends[0]), first);
    writer_close(&writer);
    close(ends[0]);
    close(ends[1]);
}

/* Where /proc is missing the descriptor itself has to do. */
static void test_a_full_pipe_that_is_only_polled_says_so_at_once(void **state)
{
    int ends[2];
    make_pipe(ends);
    struct writer writer = {WRITER_POLLED, dup(ends[1])};
    size_t first = fill(&writer);
    assert_true(first >= PIPE_BUF);
    assert_int_equal(drain(ends[0]), first);
    writer_close(&writer);
    close(ends[0]);
    close(ends[1]);
}

static void test_a_polled_pipe_with_little_room_does_not_wait(void **state)
{
    int ends[2];
    char text[PIPE_BUF];
    make_pipe(ends);
    struct writer writer = {WRITER_POLLED, dup(ends[1])};
    fill(&writer);
    /* One page less: exactly what poll() calls writable. */
    assert_int_equal(read(ends[0], text, sizeof text), sizeof text);
    ssize_t n = writer_write(&writer, bytes, sizeof bytes);
    assert_true(n == PIPE_BUF || n == -EAGAIN);
    writer_close(&writer);
    close(ends[0]);
    close(ends[1]);
}

static void test_a_file_takes_all_at_the_callers_own_offset(void **state)
{
    struct writer writer;
    char text[8] = "";
    int file = memfd_create("nonblocking writer", MFD_CLOEXEC);
    assert_int_equal(write(file, "ab", 2), 2);
    assert_int_equal(writer_open(&writer, file), 0);
    assert_int_equal(writer.kind, WRITER_FILE);
    assert_int_equal(writer_write(&writer, "cd", 2), 2);
    writer_close(&writer);
    assert_int_equal(write(file, "ef", 2), 2);
    assert_int_equal(pread(file, text, sizeof text, 0), 6);
    assert_string_equal(text, "abcdef");
    close(file);
}

static void test_what_is_not_a_descriptor_is_refused(void **state)
{
    struct writer writer = {WRITER_FILE, -7};
    assert_int_equal(writer_open(&writer, -1), -EBADF);
    assert_int_equal(writer_open(&writer, 100000), -EBADF);
    assert_int_equal(writer.fd, -7);
}

static void test_closing_twice_closes_once(void **state)
{
    struct writer writer;
    int file = memfd_create("nonblocking writer", MFD_CLOEXEC);
    assert_int_equal(writer_open(&writer, file), 0);
    writer_close(&writer);
    assert_int_equal(writer.fd, -1);
    writer_close(&writer);
    assert_true(fcntl(file, F_GETFD) >= 0);
    close(file);
}

/* The flags of an open file are shared with every process that has it, a shell for one. */
static void test_the_callers_descriptor_keeps_its_flags(void **state)
{
    int pipe_ends[2], socket_ends[2];
    make_pipe(pipe_ends);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socket_ends), 0);
    const int fds[] = {pipe_ends[1], socket_ends[1], open("/dev/null", O_WRONLY | O_CLOEXEC)};
    for (size_t i = 0; i < COUNT(fds); i++) {
        struct writer writer;
        int flags = fcntl(fds[i], F_GETFL);
        assert_int_equal(writer_open(&writer, fds[i]), 0);
        assert_true(fcntl(writer.fd, F_GETFD) & FD_CLOEXEC);
        writer_write(&writer, bytes, 10);
        assert_int_equal(fcntl(fds[i], F_GETFL), flags);
        assert_false(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
        writer_close(&writer);
        close(fds[i]);
    }
    close(pipe_ends[0]);
    close(socket_ends[0]);
}

/* ---- SIGPIPE ------------------------------------------------------------------------------- */

static bool is_pending(int signal)
{
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, signal);
}

/* The default action of SIGPIPE would end the test. */
static void test_a_reader_that_is_gone_is_an_error_not_a_signal(void **state)
{
    int pipe_ends[2], socket_ends[2];
    make_pipe(pipe_ends);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socket_ends), 0);
    struct writer writers[3];
    assert_int_equal(writer_open(&writers[0], pipe_ends[1]), 0);
    assert_int_equal(writer_open(&writers[1], socket_ends[1]), 0);
    writers[2] = (struct writer){WRITER_POLLED, dup(pipe_ends[1])};
    close(pipe_ends[0]);
    close(socket_ends[0]);
    for (size_t i = 0; i < COUNT(writers); i++) {
        assert_int_equal(writer_write(&writers[i], "x", 1), -EPIPE);
        assert_false(is_pending(SIGPIPE));
        writer_close(&writers[i]);
    }
    /* Opened after the reader was gone. */
    assert_int_equal(writer_open(&writers[0], pipe_ends[1]), 0);
    assert_int_equal(writer_write(&writers[0], "x", 1), -EPIPE);
    writer_close(&writers[0]);
    close(pipe_ends[1]);
    close(socket_ends[1]);
}

static int broken_pipe(void)
{
    int ends[2];
    make_pipe(ends);
    close(ends[0]);
    return ends[1];
}

static void test_the_signal_mask_is_as_it_was(void **state)
{
    sigset_t before, after;
    int fd = broken_pipe();
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(writer_quiet_write(fd, "x", 1), -EPIPE);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int i = 1; i < NSIG; i++)
        assert_int_equal(sigismember(&before, i), sigismember(&after, i));
    close(fd);
}

static void test_a_signal_that_was_pending_before_stays(void **state)
{
    sigset_t set, before;
    struct timespec none = {0, 0};
    int fd = broken_pipe();
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    raise(SIGPIPE);
    assert_int_equal(writer_quiet_write(fd, "x", 1), -EPIPE);
    assert_true(is_pending(SIGPIPE));
    assert_int_equal(sigtimedwait(&set, NULL, &none), SIGPIPE);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(fd);
}

/* It waits for a reader, and no longer than it was told to. */
static void test_review_d8_nobody_reads(void **state)
{
    int ends[2];
    static const char much[1 << 17];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    uint64_t before = clock_now();
    assert_int_equal(writer_deliver(ends[1], much, sizeof much, 50 * NS_PER_MS), -ETIMEDOUT);
    uint64_t took = clock_now() - before;
    assert_true(took >= 50 * NS_PER_MS && took < 20 * NS_PER_S);
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    close(ends[0]);
    assert_int_equal(writer_deliver(ends[1], much, 1, 0), -EPIPE);
    close(ends[1]);
    assert_int_equal(writer_deliver(ends[1], much, 1, 0), -EBADF);
}

static volatile sig_atomic_t handled;

static void count_signal(int signal)
{
    handled++;
}

static void test_the_hosts_handler_is_not_called(void **state)
{
    struct sigaction action = {.sa_handler = count_signal}, before;
    int fd = broken_pipe();
    handled = 0;
    sigaction(SIGPIPE, &action, &before);
    assert_int_equal(writer_quiet_write(fd, "x", 1), -EPIPE);
    sigaction(SIGPIPE, &before, NULL);
    assert_int_equal(handled, 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        writer_test(test_a_pipe_is_opened_a_second_time),
        writer_test(test_a_full_pipe_says_so_at_once_and_goes_on_when_read),
        writer_test(test_a_full_socket_says_so_at_once),
        writer_test(test_a_full_pipe_that_is_only_polled_says_so_at_once),
        writer_test(test_a_polled_pipe_with_little_room_does_not_wait),
        writer_test(test_a_file_takes_all_at_the_callers_own_offset),
        writer_test(test_what_is_not_a_descriptor_is_refused),
        writer_test(test_closing_twice_closes_once),
        writer_test(test_the_callers_descriptor_keeps_its_flags),
        writer_test(test_a_reader_that_is_gone_is_an_error_not_a_signal),
        writer_test(test_the_signal_mask_is_as_it_was),
        writer_test(test_a_signal_that_was_pending_before_stays),
        writer_test(test_the_hosts_handler_is_not_called),
        writer_test(test_review_d8_nobody_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
