/* SPDX-License-Identifier: MIT */
/* Progress of a batch. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/term.h"

#define EVERY     (100 * NS_PER_MS)
#define BAR_MOST  30
#define BAR_LEAST 10

/* A part of the line. If there is no room, the part with the lowest rank is left out first. */
struct part {
    int rank;
    char text[64];
};

enum { PREFIX, COUNT, PERCENT, FAILED, RUNNING, RATE, LEFT, PARTS };

static void format_time(uint64_t seconds, char *out, size_t size)
{
    if (seconds < 100)
        snprintf(out, size, "%" PRIu64 " s", seconds);
    else if (seconds < 100 * 60)
        snprintf(out, size, "%" PRIu64 " min", (seconds + 30) / 60);
    else
        snprintf(out, size, "%" PRIu64 " h", (seconds + 1800) / 3600);
}

static uint64_t done_of(const struct progress *p)
{
    return p->ok + p->failed + p->cancelled;
}

/* Jobs of this batch per 1000 seconds. */
static uint64_t rate_of(const struct progress *p, uint64_t now_ns)
{
    uint64_t ms = (now_ns - p->started_ns) / NS_PER_MS;
    return ms ? (done_of(p) - p->before) * 1000000 / ms : 0;
}

static void fill_parts(const struct progress *p, uint64_t now_ns, struct part parts[PARTS])
{
    uint64_t done = done_of(p), rate = rate_of(p, now_ns);
    char time[32];
    parts[PREFIX] = (struct part){3, "brig: "};
    parts[COUNT].rank = 9;
    if (p->total)
        snprintf(parts[COUNT].text, sizeof parts[COUNT].text, "%" PRIu64 "/%" PRIu64, done,
                 p->total);
    else
        snprintf(parts[COUNT].text, sizeof parts[COUNT].text, "%" PRIu64 " done", done);
    parts[PERCENT].rank = 4;
    if (p->total)
        snprintf(parts[PERCENT].text, sizeof parts[PERCENT].text, " %u%%",
                 (unsigned)(done >= p->total ? 100 : done * 100 / p->total));
    parts[FAILED].rank = 8;
    if (p->failed)
        snprintf(parts[FAILED].text, sizeof parts[FAILED].text, ", %" PRIu64 " failed", p->failed);
    parts[RUNNING].rank = 5;
    snprintf(parts[RUNNING].text, sizeof parts[RUNNING].text, ", %" PRIu64 " running", p->running);
    parts[RATE].rank = 6;
    snprintf(parts[RATE].text, sizeof parts[RATE].text, ", %" PRIu64 "%s/s",
             rate < 10000 ? rate / 1000 : (rate + 500) / 1000,
             rate < 10000 ? (const char[]){'.', (char)('0' + rate % 1000 / 100), 0} : "");
    parts[LEFT].rank = 7;
    if (p->total > done && rate) {
        format_time((p->total - done) * 1000 / rate, time, sizeof time);
        snprintf(parts[LEFT].text, sizeof parts[LEFT].text, ", %s left", time);
    }
}

static size_t length_of(const struct part parts[PARTS])
{
    size_t len = 0;
    for (int i = 0; i < PARTS; i++)
        len += strlen(parts[i].text);
    return len;
}

static void drop_one(struct part parts[PARTS])
{
    struct part *least = NULL;
    for (int i = 0; i < PARTS; i++) {
        if (parts[i].text[0] && (!least || parts[i].rank < least->rank))
            least = &parts[i];
    }
    if (least)
        least->text[0] = 0;
}

static size_t add_bar(const struct progress *p, size_t room, char *out)
{
    size_t width = room < BAR_MOST + 3 ? room - 3 : BAR_MOST;
    uint64_t done = done_of(p) < p->total ? done_of(p) : p->total;
    size_t full = (size_t)(done * width / p->total), n = 0;
    out[n++] = '[';
    for (size_t i = 0; i < width; i++)
        out[n++] = i < full ? '#' : '-';
    out[n++] = ']';
    out[n++] = ' ';
    return n;
}

void progress_format(const struct progress *p, uint64_t now_ns, unsigned columns,
                     char out[PROGRESS_SIZE])
{
    struct part parts[PARTS] = {{0}};
    size_t room = columns > 1 ? columns - 1 : 0; /* some terminals wrap after the last column */
    size_t used = 0;
    if (room >= PROGRESS_SIZE)
        room = PROGRESS_SIZE - 1;
    fill_parts(p, now_ns, parts);
    while (length_of(parts) > room)
        drop_one(parts);
    size_t left = room - length_of(parts);
    for (int i = 0; i < PARTS; i++) {
        size_t len = strlen(parts[i].text);
        if (i == COUNT && p->total && left >= BAR_LEAST + 3)
            used += add_bar(p, left, out + used);
        memcpy(out + used, parts[i].text, len);
        used += len;
    }
    out[used] = 0;
}

void progress_summary(const struct progress *p, uint64_t now_ns, char out[PROGRESS_SIZE])
{
    uint64_t done = done_of(p), ms = (now_ns - p->started_ns) / NS_PER_MS;
    char time[32], cancelled[48] = "", before[64] = "", missing[48] = "";
    if (ms < 10000)
        snprintf(time, sizeof time, "%" PRIu64 ".%" PRIu64 " s", ms / 1000, ms % 1000 / 100);
    else
        format_time(ms / 1000, time, sizeof time);
    if (p->cancelled)
        snprintf(cancelled, sizeof cancelled, ", %" PRIu64 " cancelled", p->cancelled);
    if (p->before)
        snprintf(before, sizeof before, " (%" PRIu64 " of them before)", p->before);
    if (p->total > done)
        snprintf(missing, sizeof missing, ", %" PRIu64 " not started", p->total - done);
    snprintf(out, PROGRESS_SIZE,
             "%" PRIu64 " job%s: %" PRIu64 " ok, %" PRIu64 " failed%s%s%s, in %s", done,
             done == 1 ? "" : "s", p->ok, p->failed, before, cancelled, missing, time);
}

int progress_draw(struct progress *p)
{
    char line[PROGRESS_SIZE];
    uint64_t now = clock_now();
    if (!p->shown)
        return -1;
    if (p->drawn_ns && now < p->drawn_ns + EVERY)
        return (int)((p->drawn_ns + EVERY - now) / NS_PER_MS) + 1;
    progress_format(p, now, term_columns(), line);
    term_redraw(line);
    p->drawn_ns = now;
    return (int)(EVERY / NS_PER_MS);
}

void progress_clear(struct progress *p)
{
    if (p->shown)
        term_redraw("");
    p->shown = false;
}
