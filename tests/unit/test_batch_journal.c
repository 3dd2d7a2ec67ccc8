/* SPDX-License-Identifier: MIT */
/* cli/batch_journal.c: what counts as a line of a journal, and what becomes of what does not. */
#include "batch/batch_journal.h"

#include <errno.h>

#include "directory.h"

#define RECORD(line, ok)                                                                           \
    "{\"line\":" line ",\"hash\":\"00000000000000ff\",\"ok\":" ok ",\"job\":\"x\"}\n"

static void test_the_beginning_of_a_record(void **state)
{
    static const char text[] = "{\"line\":12,\"hash\":\"00000000000000ff\",\"ok\":false,\"job\":\"";
    struct journal_record record;
    assert_true(journal_parse(text, sizeof text - 1, &record));
    assert_int_equal(record.line, 12);
    assert_int_equal(record.hash, 255);
    assert_false(record.ok);
    for (size_t len = 0; len < sizeof text - 1; len++)
        assert_false(journal_parse(text, len, &record));
}

static void test_what_is_no_record(void **state)
{
    static const char *const texts[] = {
        "{\"line\":0,\"hash\":\"00000000000000ff\",\"ok\":true,\"job\":\"x",
        "{\"line\":-1,\"hash\":\"00000000000000ff\",\"ok\":true,\"job\":\"x",
        "{\"line\":,\"hash\":\"00000000000000ff\",\"ok\":true,\"job\":\"x",
        "{\"line\":4294967296,\"hash\":\"00000000000000ff\",\"ok\":true,\"job\":\"x",
        "{\"line\":99999999999999999999,\"hash\":\"00000000000000ff\",\"ok\":true,\"job\":\"x",
        "{\"line\":1,\"hash\":\"00000000000000FF\",\"ok\":true,\"job\":\"x",
        "{\"line\":1,\"hash\":\"ff\",\"ok\":true,\"job\":\"x",
        "{\"line\":1,\"hash\":\"00000000000000ff\",\"ok\":maybe,\"job\":\"x",
        " {\"line\":1,\"hash\":\"00000000000000ff\",\"ok\":true,\"job\":\"x",
    };
    struct journal_record record;
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_false(journal_parse(texts[i], strlen(texts[i]), &record));
}

static int add(struct journal *journal, const char *line)
{
    return journal_add(journal, line, strlen(line), NULL);
}

static void test_what_was_added_is_there_when_it_is_opened_again(void **state)
{
    const char *path = dir_path(*state, "journal");
    struct journal journal;
    assert_int_equal(journal_open(&journal, path, 1, NULL), 0);
    assert_int_equal(journal_follow(&journal, 1, 255), JOURNAL_TODO);
    assert_int_equal(add(&journal, RECORD("3", "false")), 0);
    assert_int_equal(add(&journal, RECORD("100000", "true")), 0);
    assert_int_equal(journal_sync(&journal, NULL), 0);
    journal_close(&journal);
    assert_int_equal(journal_open(&journal, path, 1, NULL), 0);
    assert_int_equal(journal.records, 2);
    assert_int_equal(journal.failed, 1);
    assert_int_equal(journal_follow(&journal, 1, 255), JOURNAL_TODO);
    assert_int_equal(journal_follow(&journal, 3, 255), JOURNAL_DONE);
    assert_int_equal(journal_follow(&journal, 4, 255), JOURNAL_TODO);
    assert_int_equal(journal_follow_end(&journal), JOURNAL_OTHER);
    assert_int_equal(journal.other, 100000);
    journal_rewind(&journal);
    assert_int_equal(journal_follow(&journal, 3, 254), JOURNAL_OTHER);
    journal_rewind(&journal);
    assert_int_equal(journal_follow(&journal, 4, 255), JOURNAL_OTHER); /* 3 is not there */
    assert_int_equal(journal.other, 3);
    journal_close(&journal);
    journal_close(&journal);
}

static void test_a_journal_of_another_setup_is_refused(void **state)
{
    const char *path = dir_path(*state, "journal");
    struct brig_error err;
    struct journal journal;
    assert_int_equal(journal_open(&journal, path, 1, NULL), 0);
    journal_close(&journal);
    assert_true(journal_open(&journal, path, 2, &err) < 0);
    assert_int_equal(err.fault, BRIG_FAULT_REFUSED);
    assert_contains(err.text, "another --spec");
}

/* The number of records that are left of a file; its size is the size of what is whole. */
static void reopen(struct dir *dir, const char *text, size_t len, uint64_t records)
{
    struct journal journal;
    struct stat st;
    const char *path = dir_write(dir, "cut", text, len, 0600);
    assert_int_equal(journal_open(&journal, path, 1, NULL), 0);
    assert_int_equal(journal.records, records);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, journal.size);
    journal_close(&journal);
}

static void test_cut_at_every_byte_it_has_the_records_that_are_whole(void **state)
{
    struct dir *dir = *state;
    struct journal journal;
    char text[1024];
    assert_int_equal(journal_open(&journal, dir_path(dir, "journal"), 1, NULL), 0);
    size_t header = (size_t)journal.size;
    assert_int_equal(add(&journal, RECORD("1", "true")), 0);
    assert_int_equal(add(&journal, RECORD("2", "true")), 0);
    journal_close(&journal);
    int fd = openat(dir->fd, "journal", O_RDONLY | O_CLOEXEC);
    size_t len = (size_t)read(fd, text, sizeof text);
    size_t record = (len - header) / 2;
    close(fd);
    for (size_t cut = 0; cut <= len; cut++)
        reopen(dir, text, cut, cut < header + record ? 0 : cut < len ? 1 : 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_beginning_of_a_record),
        cmocka_unit_test(test_what_is_no_record),
        dir_test(test_what_was_added_is_there_when_it_is_opened_again),
        dir_test(test_a_journal_of_another_setup_is_refused),
        dir_test(test_cut_at_every_byte_it_has_the_records_that_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
