/* SPDX-License-Identifier: MIT */
/* lib/eventlog.c: the input is a script of events and of slow and fast reads. The output must be
 * complete lines of JSON in order, and the missing lines must be those that were counted as
 * dropped. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>

#include "lib/run/run.h"
#include "target.h"

#define OUT_MAX (1u << 22)

static char out[OUT_MAX];
static size_t out_len;

static bool read_some(int fd, size_t max)
{
    max = max < OUT_MAX - out_len ? max : OUT_MAX - out_len;
    ssize_t n = read(fd, out + out_len, max);
    ensure(n >= 0 || errno == EAGAIN); /* otherwise the output proves nothing */
    out_len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

static void check_lines(uint64_t added, uint64_t dropped)
{
    json_int_t last = 0, told = 0;
    uint64_t lines = 0;
    for (size_t at = 0; at < out_len; lines++) {
        const char *end = memchr(out + at, '\n', out_len - at);
        ensure(end); /* no incomplete line */
        size_t len = (size_t)(end - out) - at;
        json_t *root = json_loadb(out + at, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        ensure(root);
        json_int_t sequence = json_integer_value(json_object_get(root, "sequence"));
        json_int_t missing = json_integer_value(json_object_get(root, "dropped"));
        ensure(sequence > last);
        told += missing;
        last = sequence;
        json_decref(root);
        at += len + 1;
    }
    ensure(lines + dropped == added);
    ensure((uint64_t)told <= dropped);
    ensure((uint64_t)last != added ||
           (uint64_t)told == dropped); /* the last line has the whole count */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct brig_run run = {.report.id = "r1"};
    struct input input = {data, size};
    struct brig_event_log *log;
    uint64_t added = 0;
    uint8_t bytes[127 * 8];
    int ends[2];
    size_t max = (size_t)input_number(&input, 2);
    if (size > 4096)
        return 0;
    ensure(pipe2(ends, O_CLOEXEC) == 0);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    ensure(brig_event_log_new(&log, ends[1], max, NULL) == 0);
    out_len = 0;
    memset(bytes, 'x', sizeof bytes);
    while (input.size) {
        uint64_t what = input_number(&input, 1);
        struct brig_event event = {.type = BRIG_EVENT_OUTPUT, .stream = BRIG_STDOUT, .data = bytes};
        if (what & 0x80) {
            read_some(ends[0], (what & 0x7f) * 64);
            ensure(brig_event_log_flush(log) <= max);
            continue;
        }
        event.len = what * 8;
        event.sequence = ++added;
        brig_event_log_add(log, &run, &event);
    }
    do
        brig_event_log_flush(log);
    while (read_some(ends[0], OUT_MAX));
    ensure(brig_event_log_flush(log) == 0);
    check_lines(added, brig_event_log_dropped(log));
    brig_event_log_free(log);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
