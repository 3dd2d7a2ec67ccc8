/* SPDX-License-Identifier: MIT */
/* cli/batch_lines.c: lines of any stream, in pieces of any size. */
#include "batch/batch_lines.h"

#include <errno.h>

#include "directory.h"

/* All lines of a text that comes through a pipe in pieces, as "number:line;". */
static void read_in_pieces(const char *text, size_t len, size_t piece, char *out, size_t size)
{
    struct lines lines;
    int ends[2];
    size_t used = 0, at = 0;
    enum lines_found found;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(lines_init(&lines, ends[0]), 0);
    do {
        const char *line;
        size_t found_len;
        found = lines_next(&lines, &line, &found_len);
        if (found == LINES_LINE)
            used += (size_t)snprintf(out + used, size - used, "%d:%.*s;", (int)lines.number,
                                     (int)found_len, line);
        if (found == LINES_TOO_LONG)
            used += (size_t)snprintf(out + used, size - used, "%d!;", (int)lines.number);
        if (found == LINES_WAIT && at < len) {
            size_t n = len - at < piece ? len - at : piece;
            assert_int_equal(write(ends[1], text + at, n), (ssize_t)n);
            at += n;
        } else if (found == LINES_WAIT && ends[1] >= 0) {
            close(ends[1]);
            ends[1] = -1;
        }
        if (found == LINES_WAIT)
            assert_int_equal(lines_fill(&lines), 0);
    } while (found != LINES_END);
    out[used] = 0;
    lines_done(&lines);
    close(ends[0]);
}

static void test_lines_are_the_same_in_pieces_of_every_size(void **state)
{
    static const char text[] = "one\n\n  \t\r\ntwo\r\n\nthree";
    for (size_t piece = 1; piece <= sizeof text; piece++) {
        char out[256];
        read_in_pieces(text, sizeof text - 1, piece, out, sizeof out);
        assert_string_equal(out, "1:one;4:two\r;6:three;");
    }
}

static void test_nothing_is_no_line(void **state)
{
    char out[64];
    read_in_pieces("", 0, 1, out, sizeof out);
    assert_string_equal(out, "");
    read_in_pieces("\n\n \n", 4, 2, out, sizeof out);
    assert_string_equal(out, "");
}

/* Of that length exactly, and one more, with and without an end; what follows is read. */
static void test_a_line_that_is_too_long_is_passed_over(void **state)
{
    size_t most = LINES_LINE_MAX;
    char *text = malloc(3 * most + 64), *out = malloc(2 * most);
    assert_true(text && out);
    for (size_t extra = 0; extra < 2; extra++) {
        memset(text, 'x', most + extra);
        memcpy(text + most + extra, "\nnext\n", 6);
        read_in_pieces(text, most + extra + 6, 60000, out, 2 * most);
        if (extra)
            assert_string_equal(out, "1!;2:next;");
        else
            assert_string_equal(out + strlen(out) - 8, ";2:next;");
    }
    memset(text, 'x', 3 * most);
    read_in_pieces(text, 3 * most, 60000, out, 2 * most);
    assert_string_equal(out, "1!;");
    free(text);
    free(out);
}

static void test_the_hash_is_of_the_line_however_it_was_read(void **state)
{
    struct dir *dir = *state;
    size_t len = 2 * LINES_LINE_MAX;
    char *text = malloc(len);
    const char *line;
    size_t found;
    struct lines lines;
    assert_non_null(text);
    for (size_t i = 0; i < len; i++)
        text[i] = (char)('a' + i % 23);
    int fd = open(dir_write(dir, "jobs", text, len, 0600), O_RDONLY | O_CLOEXEC);
    assert_int_equal(lines_init(&lines, fd), 0);
    while (lines_next(&lines, &line, &found) == LINES_WAIT)
        assert_int_equal(lines_fill(&lines), 0);
    assert_true(lines.hash == lines_hash(LINES_HASH, text, len));
    assert_true(lines_hash(LINES_HASH, "", 0) == LINES_HASH);
    assert_true(lines_hash(LINES_HASH, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c)); /* as published */
    lines_done(&lines);
    close(fd);
    free(text);
}

static void test_what_cannot_be_read_is_its_errno(void **state)
{
    struct dir *dir = *state;
    struct lines lines;
    assert_int_equal(lines_init(&lines, dir->fd), 0);
    assert_int_equal(lines_fill(&lines), -EISDIR);
    lines_done(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_the_same_in_pieces_of_every_size),
        cmocka_unit_test(test_nothing_is_no_line),
        cmocka_unit_test(test_a_line_that_is_too_long_is_passed_over),
        dir_test(test_the_hash_is_of_the_line_however_it_was_read),
        dir_test(test_what_cannot_be_read_is_its_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
