/* SPDX-License-Identifier: MIT */
/* mcp/outlog.c: the newest output is kept, whole characters of it, and what is missing is known. */
#include "mcp/outlog.h"

#include "check.h"

static void add(struct outlog *log, enum brig_stream stream, const char *text)
{
    outlog_add(log, stream, (const unsigned char *)text, strlen(text));
}

static void assert_reads(const struct outlog *log, enum brig_stream stream, uint64_t since,
                         const char *text)
{
    struct buf out;
    buf_init(&out, 1u << 24);
    outlog_read(log, stream, since, &out);
    assert_int_equal(buf_failed(&out), 0);
    assert_int_equal(out.len, strlen(text));
    if (out.len)
        assert_memory_equal(out.data, text, out.len);
    buf_done(&out);
}

static void test_streams_are_apart_and_places_count_both(void **state)
{
    struct outlog log;
    outlog_init(&log, 4096);
    assert_reads(&log, BRIG_STDOUT, 0, "");
    add(&log, BRIG_STDOUT, "one\n");
    add(&log, BRIG_STDERR, "two\n");
    add(&log, BRIG_STDOUT, "three\n");
    add(&log, BRIG_STDOUT, "");
    assert_int_equal(log.end, 14);
    assert_int_equal(log.lines, 3);
    assert_reads(&log, BRIG_STDOUT, 0, "one\nthree\n");
    assert_reads(&log, BRIG_STDERR, 0, "two\n");
    assert_reads(&log, BRIG_STDOUT, 8, "three\n");
    assert_reads(&log, BRIG_STDOUT, 9, "hree\n");
    assert_reads(&log, BRIG_STDERR, 8, "");
    assert_reads(&log, BRIG_STDOUT, 14, "");
    outlog_done(&log);
}

static void test_the_oldest_is_dropped_and_counted(void **state)
{
    struct outlog log;
    outlog_init(&log, 16384);
    for (int i = 0; i < 10000; i++) {
        char text[16];
        snprintf(text, sizeof text, "line %5d\n", i);
        add(&log, BRIG_STDOUT, text);
        assert_true(log.used <= log.max);
    }
    assert_int_equal(log.end, 110000);
    assert_true(log.start > 90000 && log.start % 11 == 0); /* whole chunks */
    assert_reads(&log, BRIG_STDOUT, 109989, "line  9999\n");
    outlog_done(&log);
    assert_null(log.first);
}

static void test_a_chunk_over_the_maximum_is_kept_alone(void **state)
{
    struct outlog log;
    char text[6001];
    memset(text, 'x', 6000);
    text[6000] = 0;
    outlog_init(&log, 4096);
    add(&log, BRIG_STDOUT, "before");
    add(&log, BRIG_STDERR, text);
    assert_int_equal(log.start, 6);
    assert_reads(&log, BRIG_STDERR, 0, text);
    outlog_done(&log);
}

static void test_any_chunks_read_back_from_any_place(void **state)
{
    for (unsigned round = 0; round < 200; round++) {
        struct outlog log;
        char all[2][20000];
        size_t len[2] = {0, 0};
        uint64_t seed = round + 1;
        outlog_init(&log, 1u << 20); /* all of it fits */
        for (int i = 0; i < 100; i++) {
            char chunk[100];
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            size_t n = (size_t)(seed >> 33) % sizeof chunk;
            enum brig_stream stream = seed >> 63 ? BRIG_STDERR : BRIG_STDOUT;
            memset(chunk, 'a' + i % 26, sizeof chunk);
            outlog_add(&log, stream, (unsigned char *)chunk, n);
            memcpy(all[stream == BRIG_STDERR] + len[stream == BRIG_STDERR], chunk, n);
            len[stream == BRIG_STDERR] += n;
        }
        all[0][len[0]] = all[1][len[1]] = 0;
        assert_int_equal(log.end, len[0] + len[1]);
        assert_int_equal(log.start, 0);
        assert_reads(&log, BRIG_STDOUT, 0, all[0]);
        assert_reads(&log, BRIG_STDERR, 0, all[1]);
        outlog_done(&log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams_are_apart_and_places_count_both),
        cmocka_unit_test(test_the_oldest_is_dropped_and_counted),
        cmocka_unit_test(test_a_chunk_over_the_maximum_is_kept_alone),
        cmocka_unit_test(test_any_chunks_read_back_from_any_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
