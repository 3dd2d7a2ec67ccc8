/* SPDX-License-Identifier: MIT */
/* The event log: writes events as NDJSON to a file descriptor, through a queue that is bounded in
 * bytes. It writes whole lines only: if a line does not fit, the oldest unsent lines are dropped,
 * and the next line has their number. Implements brig_event_log_*() of brig.h; never waits for the
 * reader. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/jsonw.h"
#include "base/writer.h"
#include "lib/run/run.h"

#define LINE_MAX_BYTES (PUMP_CHUNK * JSONW_OUTPUT_MAX + 4096)
#define DROPPED_BYTES  40 /* ,"dropped":N and the end of the line */

struct line {
    struct line *next;
    size_t len, sent;
    uint64_t told; /* the number of dropped lines that this line reports */
    char text[];
};

struct brig_event_log {
    struct writer writer;
    int epoll; /* readable when the nonblocking writer takes more */
    bool polled, broken;
    struct line *first, **end;
    size_t queued, max;
    uint64_t dropped, untold; /* lines; untold: dropped and not yet reported in the log */
};

int brig_event_log_new(struct brig_event_log **out, int fd, size_t max_bytes,
                       struct brig_error *err)
{
    struct brig_event_log *log = calloc(1, sizeof *log);
    if (!log)
        return error_memory(err, "events");
    log->end = &log->first;
    log->max = max_bytes;
    log->epoll = epoll_create1(EPOLL_CLOEXEC);
    int ret = log->epoll < 0 ? -errno : 0;
    log->writer.fd = -1;
    if (ret == 0)
        ret = writer_open(&log->writer, fd);
    if (ret < 0) {
        brig_event_log_free(log);
        return error_system(err, "events", -ret, "cannot write events to descriptor %d: %s", fd,
                            error_text(-ret));
    }
    *out = log;
    return 0;
}

static void drop_first(struct brig_event_log *log)
{
    struct line *line = log->first;
    log->first = line->next;
    if (!log->first)
        log->end = &log->first;
    log->queued -= line->len - line->sent;
    free(line);
}

void brig_event_log_free(struct brig_event_log *log)
{
    if (!log)
        return;
    while (log->first)
        drop_first(log);
    writer_close(&log->writer);
    fd_close_at(&log->epoll);
    free(log);
}

/* A dropped line may have reported earlier dropped lines; those are unreported again. */
static void count_dropped(struct brig_event_log *log, uint64_t told)
{
    log->dropped++;
    log->untold += 1 + told;
}

/* Make room by dropping the oldest lines of which no byte was sent. */
static void make_room(struct brig_event_log *log, size_t len)
{
    while (log->queued + len > log->max && log->first) {
        struct line **victim = log->first->sent ? &log->first->next : &log->first;
        struct line *line = *victim;
        if (!line)
            return;
        *victim = line->next;
        if (log->end == &line->next)
            log->end = victim;
        log->queued -= line->len;
        count_dropped(log, line->told);
        free(line);
    }
}

static void queue_line(struct brig_event_log *log, const struct buf *text)
{
    struct line *line = NULL;
    if (!text->failed && !log->broken && log->queued + text->len <= log->max)
        line = malloc(sizeof *line + text->len);
    if (!line) {
        count_dropped(log, 0);
        return;
    }
    *line = (struct line){.len = text->len, .told = log->untold};
    log->untold = 0;
    memcpy(line->text, text->data, text->len);
    *log->end = line;
    log->end = &line->next;
    log->queued += line->len;
}

static const char *type_name(const struct brig_event *event)
{
    switch (event->type) {
    case BRIG_EVENT_STARTED:
        return "started";
    case BRIG_EVENT_OUTPUT:
        return event->stream == BRIG_STDOUT ? "stdout" : "stderr";
    case BRIG_EVENT_USAGE:
        return "usage";
    case BRIG_EVENT_LIMIT:
        return "limit";
    case BRIG_EVENT_ENDED:
        return "ended";
    }
    return "unknown";
}

static void add_body(struct jsonw *w, const struct brig_run *run, const struct brig_event *event)
{
    static const char *const names[] = {"data", "encoding", "text"};
    switch (event->type) {
    case BRIG_EVENT_STARTED:
        jsonw_int(w, "pid", event->pid);
        break;
    case BRIG_EVENT_OUTPUT:
        jsonw_output(w, names, event->data, event->len);
        break;
    case BRIG_EVENT_USAGE:
        jsonw_counter(w, "memory_bytes", event->memory_bytes, 1);
        jsonw_counter(w, "cpu_seconds", event->cpu_ns, NS_PER_S);
        jsonw_counter(w, "pids", event->pids, 1);
        break;
    case BRIG_EVENT_LIMIT:
        jsonw_text(w, "limit", event->limit);
        break;
    case BRIG_EVENT_ENDED: {
        const struct brig_result *result = brig_run_result(run);
        jsonw_text(w, "status", result ? brig_status_name(result->status) : NULL);
        if (result && result->exit_code >= 0)
            jsonw_int(w, "exit_code", result->exit_code);
        else
            jsonw_null(w, "exit_code");
        jsonw_text(w, "notes", result ? result->notes : NULL);
        break;
    }
    }
}

void brig_event_log_add(struct brig_event_log *log, const struct brig_run *run,
                        const struct brig_event *event)
{
    struct buf text;
    struct jsonw w;
    char time[CLOCK_TEXT_SIZE];
    buf_init(&text, LINE_MAX_BYTES);
    jsonw_init(&w, &text);
    clock_format(run->clocks.started_at + (int64_t)event->elapsed_ns, time);
    jsonw_open(&w, NULL, '{');
    jsonw_uint(&w, "sequence", event->sequence);
    jsonw_text(&w, "type", type_name(event));
    jsonw_text(&w, "time", time);
    jsonw_decimal(&w, "elapsed_seconds", event->elapsed_ns, NS_PER_S);
    jsonw_text(&w, "run", run->report.id);
    add_body(&w, run, event);
    /* Make room first: the lines dropped for this line are part of its own report. */
    make_room(log, text.len + DROPPED_BYTES);
    if (log->untold)
        jsonw_uint(&w, "dropped", log->untold);
    jsonw_close(&w, '}');
    buf_text(&text, "\n");
    queue_line(log, &text);
    buf_done(&text);
    brig_event_log_flush(log);
}

size_t brig_event_log_flush(struct brig_event_log *log)
{
    while (log->first && !log->broken) {
        struct line *line = log->first;
        ssize_t n = writer_write(&log->writer, line->text + line->sent, line->len - line->sent);
        if (n == -EAGAIN)
            break;
        if (n < 0) {
            log->broken = true;
            break;
        }
        line->sent += (size_t)n;
        log->queued -= (size_t)n;
        if (line->sent == line->len)
            drop_first(log);
    }
    while (log->broken && log->first) { /* the reader is gone */
        count_dropped(log, log->first->told);
        drop_first(log);
    }
    bool wait = log->first != NULL;
    struct epoll_event event = {.events = EPOLLOUT};
    if (wait != log->polled) {
        epoll_ctl(log->epoll, wait ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, log->writer.fd, &event);
        log->polled = wait;
    }
    return log->queued;
}

int brig_event_log_fd(const struct brig_event_log *log)
{
    return log->epoll;
}

uint64_t brig_event_log_dropped(const struct brig_event_log *log)
{
    return log->dropped;
}
