/* SPDX-License-Identifier: MIT */
/* base/fd.c: small files are read whole or not at all. */
#include "base/fd.h"

#include <errno.h>

#include "directory.h"

static void test_a_file_is_read_whole_and_terminated(void **state)
{
    struct dir *dir = *state;
    char text[8];
    dir_text(dir, "counter", "123\n", 0600);
    assert_int_equal(fd_read_file(dir->fd, "counter", text, sizeof text), 4);
    assert_string_equal(text, "123\n");
    dir_text(dir, "empty", "", 0600);
    assert_int_equal(fd_read_file(dir->fd, "empty", text, sizeof text), 0);
    assert_string_equal(text, "");
}

static void test_a_file_must_leave_room_for_its_end(void **state)
{
    struct dir *dir = *state;
    char text[8];
    dir_text(dir, "fits", "1234567", 0600);
    dir_text(dir, "over", "12345678", 0600);
    assert_int_equal(fd_read_file(dir->fd, "fits", text, sizeof text), 7);
    assert_int_equal(fd_read_file(dir->fd, "over", text, sizeof text), -EFBIG);
}

static void test_a_missing_file_is_its_errno(void **state)
{
    struct dir *dir = *state;
    char text[8];
    assert_int_equal(fd_read_file(dir->fd, "none", text, sizeof text), -ENOENT);
    assert_int_equal(fd_write_file(dir->fd, "none", "1"), -ENOENT);
    assert_int_equal(fd_read_file(dir->fd, ".", text, sizeof text), -EISDIR);
}

/* A read that brings much may not be the last one. */
static void test_a_file_of_several_pieces_is_read_whole(void **state)
{
    struct dir *dir = *state;
    static char bytes[20000], text[20001];
    memset(bytes, 'x', sizeof bytes);
    dir_write(dir, "file", bytes, sizeof bytes, 0600);
    assert_int_equal(fd_read_file(dir->fd, "file", text, sizeof text), sizeof bytes);
    assert_memory_equal(text, bytes, sizeof bytes);
    assert_int_equal(fd_read_file(dir->fd, "file", text, sizeof bytes), -EFBIG);
}

static void test_write_does_not_make_files(void **state)
{
    struct dir *dir = *state;
    assert_int_equal(fd_write_file(dir->fd, "new", "1"), -ENOENT);
    assert_int_equal(faccessat(dir->fd, "new", F_OK, 0), -1);
}

static void test_read_all_is_bounded_to_the_byte(void **state)
{
    struct dir *dir = *state;
    static char bytes[20000];
    memset(bytes, 'x', sizeof bytes);
    dir_write(dir, "file", bytes, sizeof bytes, 0600);
    for (size_t max = sizeof bytes - 1; max <= sizeof bytes + 1; max++) {
        char *out = NULL;
        size_t len = 77;
        int fd = openat(dir->fd, "file", O_RDONLY | O_CLOEXEC);
        int ret = fd_read_all(fd, max, &out, &len);
        close(fd);
        if (max < sizeof bytes) {
            assert_int_equal(ret, -EFBIG);
            assert_null(out);
            assert_int_equal(len, 77);
            continue;
        }
        assert_int_equal(ret, 0);
        assert_int_equal(len, sizeof bytes);
        assert_memory_equal(out, bytes, len);
        assert_int_equal(out[len], 0);
        free(out);
    }
}

static void test_read_all_takes_a_pipe_to_its_end(void **state)
{
    int ends[2];
    char *out = NULL;
    size_t len = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "a\0b", 3), 3);
    close(ends[1]);
    assert_int_equal(fd_read_all(ends[0], 100, &out, &len), 0);
    close(ends[0]);
    assert_int_equal(len, 3);
    assert_memory_equal(out, "a\0b", 4);
    free(out);
}

static void test_descriptors_and_memory_free_themselves(void **state)
{
    int kept = -1, number = -1;
    {
        autofd fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        autofd other = open("/dev/null", O_RDONLY | O_CLOEXEC);
        autofd none = -1;
        autofree char *memory = malloc(10);
        assert_non_null(memory);
        number = fd;
        kept = take_fd(&other);
        assert_int_equal(other, -1);
        assert_int_equal(none, -1);
    }
    assert_int_equal(fcntl(number, F_GETFD), -1);
    assert_true(fcntl(kept, F_GETFD) >= 0);
    fd_close_at(&kept);
    assert_int_equal(kept, -1);
    fd_close_at(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        dir_test(test_a_file_is_read_whole_and_terminated),
        dir_test(test_a_file_must_leave_room_for_its_end),
        dir_test(test_a_missing_file_is_its_errno),
        dir_test(test_a_file_of_several_pieces_is_read_whole),
        dir_test(test_write_does_not_make_files),
        dir_test(test_read_all_is_bounded_to_the_byte),
        cmocka_unit_test(test_read_all_takes_a_pipe_to_its_end),
        cmocka_unit_test(test_descriptors_and_memory_free_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
