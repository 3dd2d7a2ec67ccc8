/* SPDX-License-Identifier: MIT */
/* mcp/wire.c: lines of any length, cut anywhere; a client that does not read. */
#include "mcp/wire.h"

#include <fcntl.h>
#include <unistd.h>

#include "check.h"

struct ends {
    int in[2], out[2];
    struct wire wire;
};

static void open_ends(struct ends *ends)
{
    assert_int_equal(pipe(ends->in), 0);
    assert_int_equal(pipe(ends->out), 0);
    assert_int_equal(wire_open(&ends->wire, ends->in[0], ends->out[1]), 0);
}

static void close_ends(struct ends *ends)
{
    wire_close(&ends->wire);
    close(ends->in[0]);
    close(ends->in[1]);
    close(ends->out[0]);
    close(ends->out[1]);
}

static void put(struct ends *ends, const char *text, size_t len)
{
    assert_int_equal(write(ends->in[1], text, len), len);
    wire_fill(&ends->wire);
}

static void assert_line(struct ends *ends, const char *expected)
{
    const char *text = NULL;
    size_t len = 0;
    assert_int_equal(wire_next(&ends->wire, &text, &len), WIRE_LINE);
    assert_int_equal(len, strlen(expected));
    assert_memory_equal(text, expected, len);
}

static void assert_none(struct ends *ends)
{
    const char *text;
    size_t len;
    assert_int_equal(wire_next(&ends->wire, &text, &len), WIRE_NONE);
}

static void test_lines_cut_anywhere(void **state)
{
    static const char sent[] = "one\n\nthree and more\nfour";
    for (size_t cut = 1; cut < sizeof sent - 1; cut++) {
        struct ends ends;
        const char *text;
        size_t len, lines = 0;
        open_ends(&ends);
        put(&ends, sent, cut);
        while (wire_next(&ends.wire, &text, &len) == WIRE_LINE)
            lines++;
        put(&ends, sent + cut, sizeof sent - 1 - cut);
        while (wire_next(&ends.wire, &text, &len) == WIRE_LINE)
            lines++;
        assert_int_equal(lines, 3);
        put(&ends, "!\n", 2);
        assert_line(&ends, "four!");
        assert_none(&ends);
        close_ends(&ends);
    }
}

static void test_a_line_that_is_too_long_is_passed_over(void **state)
{
    struct ends ends;
    const char *text;
    size_t len;
    static char chunk[65536];
    memset(chunk, 'x', sizeof chunk);
    open_ends(&ends);
    for (size_t sent = 0; sent <= WIRE_LINE_MAX + sizeof chunk; sent += sizeof chunk) {
        put(&ends, chunk, sizeof chunk);
        assert_none(&ends);
    }
    assert_int_equal(ends.wire.line.len, 0);
    put(&ends, "\nnext\n", 6);
    assert_int_equal(wire_next(&ends.wire, &text, &len), WIRE_TOO_LONG);
    assert_line(&ends, "next");
    close_ends(&ends);
}

static void test_the_end_of_the_client(void **state)
{
    struct ends ends;
    open_ends(&ends);
    close(ends.in[1]);
    ends.in[1] = -1;
    wire_fill(&ends.wire);
    assert_true(ends.wire.ended);
    close_ends(&ends);
}

static void test_a_client_that_does_not_read(void **state)
{
    struct ends ends;
    char message[1000], got[4096];
    size_t sent = 0, received = 0;
    memset(message, 'm', sizeof message);
    open_ends(&ends);
    while (!wire_is_full(&ends.wire)) {
        wire_send(&ends.wire, message, sizeof message);
        wire_flush(&ends.wire);
        sent += sizeof message + 1;
        assert_true(sent < 4 * WIRE_FULL);
    }
    fcntl(ends.out[0], F_SETFL, O_NONBLOCK);
    while (received < sent) {
        ssize_t n = read(ends.out[0], got, sizeof got);
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(got[i], (received + (size_t)i) % 1001 == 1000 ? '\n' : 'm');
        received += n > 0 ? (size_t)n : 0;
        wire_flush(&ends.wire);
    }
    assert_int_equal(received, sent);
    assert_int_equal(ends.wire.queue.len, 0);
    close(ends.out[0]);
    ends.out[0] = -1;
    wire_send(&ends.wire, "x", 1);
    wire_flush(&ends.wire);
    assert_true(ends.wire.ended);
    close_ends(&ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_cut_anywhere),
        cmocka_unit_test(test_a_line_that_is_too_long_is_passed_over),
        cmocka_unit_test(test_the_end_of_the_client),
        cmocka_unit_test(test_a_client_that_does_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
