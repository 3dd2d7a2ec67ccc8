/* SPDX-License-Identifier: MIT */
/* lib/tail.c: the input is a script of additions and removals, compared with a model that keeps
 * every byte. */
#include "lib/run/tail.h"

#include "brig.h"
#include "target.h"

#define MODEL_MAX 16384

struct model {
    uint8_t bytes[MODEL_MAX], streams[MODEL_MAX];
    size_t first, end, size;
    uint64_t dropped[3];
};

static void model_add(struct model *m, int stream, const uint8_t *bytes, size_t len)
{
    if (len)
        memcpy(m->bytes + m->end, bytes, len);
    memset(m->streams + m->end, stream, len);
    m->end += len;
    while (m->end - m->first > m->size)
        m->dropped[m->streams[m->first++]]++;
}

static void check_state(const struct tail *tail, const struct model *m)
{
    size_t total = 0;
    for (size_t i = 0; i < tail->count; i++) {
        size_t len = tail->segments[(tail->first + i) % TAIL_SEGMENTS].len;
        ensure(len > 0);
        total += len;
    }
    ensure(total == tail->len && tail->len == m->end - m->first && tail->len <= tail->size);
    ensure(tail->dropped[BRIG_STDOUT] == m->dropped[BRIG_STDOUT]);
    ensure(tail->dropped[BRIG_STDERR] == m->dropped[BRIG_STDERR]);
}

static size_t take(struct tail *tail, struct model *m, size_t max)
{
    uint8_t out[256];
    int stream = 0;
    size_t n = tail_take(tail, &stream, out, max);
    ensure(n <= max);
    for (size_t i = 0; i < n; i++, m->first++)
        ensure(stream == m->streams[m->first] && out[i] == m->bytes[m->first]);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model m;
    struct tail tail;
    struct input input = {data, size};
    if (size > MODEL_MAX)
        return 0;
    m.first = m.end = 0;
    m.dropped[BRIG_STDOUT] = m.dropped[BRIG_STDERR] = 0;
    m.size = (size_t)input_number(&input, 1);
    ensure(tail_init(&tail, m.size) == 0);
    while (input.size) {
        uint64_t what = input_number(&input, 1);
        const uint8_t *bytes;
        /* Stays below the number of alternations that are remembered, because of the model. */
        if (what & 0x80) {
            take(&tail, &m, 1 + (what & 0x7f));
        } else {
            size_t len = input_bytes(&input, &bytes, what >> 1);
            int stream = what & 1 ? BRIG_STDERR : BRIG_STDOUT;
            tail_add(&tail, stream, bytes, len);
            model_add(&m, stream, bytes, len);
        }
        check_state(&tail, &m);
    }
    while (take(&tail, &m, 256)) {
    }
    ensure(m.first == m.end && tail.len == 0);
    tail_done(&tail);
    return 0;
}
