/* Events as NDJSON to a descriptor, through a queue that is bounded in bytes. Whole lines only: a
 * line that does not fit pushes the oldest unsent lines out, and the next line says how many. */
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

#define LINE_MAX_BYTES (PUMP_CHUNK * 6 + 4096)
#define DROPPED_BYTES  40 /* ,"dropped":N and the end of the line */

struct line {
    struct line *next;
    size_t len, sent;
    uint64_t told; /* how many dropped lines this one speaks of */
    char text[];
};

struct brig_event_log {
    struct outlet outlet;
    int epoll; /* readable when the outlet takes more */
    bool polled, broken;
    struct line *first, **end;
    size_t queued, max;
    uint64_t dropped, untold; /* lines; untold: not yet said in the log */
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
    log->outlet.fd = -1;
    if (ret == 0)
        ret = outlet_open(&log->outlet, fd);
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
    outlet_close(&log->outlet);
    fd_close_at(&log->epoll);
    free(log);
}

/* A line that is dropped takes what it says of earlier ones with it: that is untold again. */
static void count_dropped(struct brig_event_log *log, uint64_t told)
{
    log->dropped++;
    log->untold += 1 + told;
}

/* Make room by dropping the oldest lines that are not half-way out. */
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
    bool utf8;
    switch (event->type) {
    case BRIG_EVENT_STARTED:
        jsonw_int(w, "pid", event->pid);
        break;
    case BRIG_EVENT_OUTPUT:
        jsonw_bytes(w, "data", event->data, event->len, &utf8);
        jsonw_text(w, "encoding", utf8 ? "utf-8" : "base64");
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
    clock_format(run->started_at + (int64_t)event->elapsed_ns, time);
    jsonw_open(&w, NULL, '{');
    jsonw_uint(&w, "sequence", event->sequence);
    jsonw_text(&w, "type", type_name(event));
    jsonw_text(&w, "time", time);
    jsonw_decimal(&w, "elapsed_seconds", event->elapsed_ns, NS_PER_S);
    jsonw_text(&w, "run", run->id);
    add_body(&w, run, event);
    /* Room first: what it costs is part of what this line has to say. */
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
        ssize_t n = outlet_write(&log->outlet, line->text + line->sent, line->len - line->sent);
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
    while (log->broken && log->first) { /* nobody will ever read them */
        count_dropped(log, log->first->told);
        drop_first(log);
    }
    bool wait = log->first != NULL;
    struct epoll_event event = {.events = EPOLLOUT};
    if (wait != log->polled) {
        epoll_ctl(log->epoll, wait ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, log->outlet.fd, &event);
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
