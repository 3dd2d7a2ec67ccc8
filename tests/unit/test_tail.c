/* SPDX-License-Identifier: MIT */
/* lib/tail.c against a model that keeps every byte with its stream in one long list. */
#include "lib/run/tail.h"

#include "brig.h"
#include "check.h"
#include "random.h"

#define MODEL_MAX 65536

struct model {
    unsigned char bytes[MODEL_MAX], streams[MODEL_MAX];
    size_t first, end; /* what is kept */
    size_t size;
    uint64_t dropped[3];
};

static void model_drop(struct model *model, size_t len)
{
    for (; len; len--)
        model->dropped[model->streams[model->first++]]++;
}

/* How many alternations there are, and the length of the first one. */
static size_t model_segments(const struct model *model, size_t *first)
{
    size_t count = 0;
    *first = 0;
    for (size_t i = model->first; i < model->end; i++) {
        if (i == model->first || model->streams[i] != model->streams[i - 1])
            count++;
        *first += count == 1;
    }
    return count;
}

static void model_add(struct model *model, int stream, const unsigned char *bytes, size_t len)
{
    size_t first;
    assert_true(model->end + len <= MODEL_MAX);
    memcpy(model->bytes + model->end, bytes, len);
    memset(model->streams + model->end, stream, len);
    model->end += len;
    if (model->end - model->first > model->size)
        model_drop(model, model->end - model->first - model->size);
    if (model_segments(model, &first) > TAIL_SEGMENTS)
        model_drop(model, first);
}

static void check_counts(const struct tail *tail, const struct model *model)
{
    assert_int_equal(tail->len, model->end - model->first);
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++)
        assert_int_equal(tail->dropped[i], model->dropped[i]);
}

static size_t take_some(struct tail *tail, struct model *model, size_t max)
{
    unsigned char out[4096];
    int stream = 0;
    size_t n = tail_take(tail, &stream, out, max);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(stream, model->streams[model->first]);
        assert_int_equal(out[i], model->bytes[model->first]);
        model->first++;
    }
    return n;
}

static void take_all(struct tail *tail, struct model *model, struct random *random)
{
    while (take_some(tail, model, 1 + random_below(random, 4096)))
        check_counts(tail, model);
    assert_int_equal(model->first, model->end);
    assert_int_equal(tail->len, 0);
}

static void run_model(struct random *random, size_t size, size_t additions, size_t longest)
{
    static struct model model;
    struct tail tail;
    memset(&model, 0, sizeof model);
    model.size = size;
    assert_int_equal(tail_init(&tail, size), 0);
    for (size_t i = 0; i < additions; i++) {
        unsigned char bytes[512];
        size_t len = random_below(random, longest + 1);
        int stream = BRIG_STDOUT + (int)random_below(random, 2);
        if (model.end + len > MODEL_MAX)
            break;
        random_fill(random, bytes, len);
        tail_add(&tail, stream, bytes, len);
        model_add(&model, stream, bytes, len);
        check_counts(&tail, &model);
        if (random_below(random, 16) == 0) /* the pump does not, but the ring must not care */
            take_some(&tail, &model, 1 + random_below(random, 64));
    }
    take_all(&tail, &model, random);
    tail_done(&tail);
}

static void test_random_additions_behave_like_the_model(void **state)
{
    struct random random = {4};
    for (int round = 0; round < 300; round++)
        run_model(&random, random_below(&random, 600), 100, 1 + random_below(&random, 512));
}

static void test_sizes_around_the_additions_behave_like_the_model(void **state)
{
    struct random random = {5};
    for (size_t size = 0; size <= 20; size++)
        run_model(&random, size, 200, 20);
}

/* More alternations than are remembered: the oldest go, although there is room for their bytes. */
static void test_many_alternations_drop_the_oldest_ones(void **state)
{
    struct tail tail;
    int stream = 0;
    unsigned char out[8];
    assert_int_equal(tail_init(&tail, 1 << 20), 0);
    for (unsigned i = 0; i < TAIL_SEGMENTS + 100; i++)
        tail_add(&tail, BRIG_STDOUT + (int)(i % 2), (const unsigned char[]){i & 0xff, 7}, 2);
    assert_int_equal(tail.dropped[BRIG_STDOUT], 100);
    assert_int_equal(tail.dropped[BRIG_STDERR], 100);
    for (unsigned i = 100; i < TAIL_SEGMENTS + 100; i++) {
        assert_int_equal(tail_take(&tail, &stream, out, sizeof out), 2);
        assert_int_equal(stream, BRIG_STDOUT + (int)(i % 2));
        assert_int_equal(out[0], i & 0xff);
    }
    assert_int_equal(tail_take(&tail, &stream, out, sizeof out), 0);
    tail_done(&tail);
}

static void test_a_ring_of_nothing_counts_all_as_dropped(void **state)
{
    struct tail tail;
    unsigned char out[8];
    int stream = 7;
    assert_int_equal(tail_init(&tail, 0), 0);
    tail_add(&tail, BRIG_STDERR, (const unsigned char *)"abc", 3);
    assert_int_equal(tail.dropped[BRIG_STDERR], 3);
    assert_int_equal(tail_take(&tail, &stream, out, sizeof out), 0);
    assert_int_equal(stream, 7);
    tail_done(&tail);
}

static void test_the_last_bytes_come_out_in_order_with_their_streams(void **state)
{
    struct tail tail;
    unsigned char out[16];
    int stream = 0;
    assert_int_equal(tail_init(&tail, 6), 0);
    tail_add(&tail, BRIG_STDOUT, (const unsigned char *)"abcd", 4);
    tail_add(&tail, BRIG_STDERR, (const unsigned char *)"EF", 2);
    tail_add(&tail, BRIG_STDOUT, (const unsigned char *)"gh", 2);
    assert_int_equal(tail_take(&tail, &stream, out, sizeof out), 2);
    assert_int_equal(stream, BRIG_STDOUT);
    assert_memory_equal(out, "cd", 2);
    assert_int_equal(tail_take(&tail, &stream, out, sizeof out), 2);
    assert_int_equal(stream, BRIG_STDERR);
    assert_memory_equal(out, "EF", 2);
    assert_int_equal(tail_take(&tail, &stream, out, 1), 1);
    assert_int_equal(stream, BRIG_STDOUT);
    assert_memory_equal(out, "g", 1);
    assert_int_equal(tail_take(&tail, &stream, out, sizeof out), 1);
    assert_memory_equal(out, "h", 1);
    assert_int_equal(tail_take(&tail, &stream, out, sizeof out), 0);
    assert_int_equal(tail.dropped[BRIG_STDOUT], 2);
    assert_int_equal(tail.dropped[BRIG_STDERR], 0);
    tail_done(&tail);
}

static void test_done_accepts_a_ring_that_was_never_made(void **state)
{
    struct tail tail = {0};
    tail_done(&tail);
    assert_int_equal(tail_init(&tail, 10), 0);
    tail_done(&tail);
    tail_done(&tail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_additions_behave_like_the_model),
        cmocka_unit_test(test_sizes_around_the_additions_behave_like_the_model),
        cmocka_unit_test(test_many_alternations_drop_the_oldest_ones),
        cmocka_unit_test(test_a_ring_of_nothing_counts_all_as_dropped),
        cmocka_unit_test(test_the_last_bytes_come_out_in_order_with_their_streams),
        cmocka_unit_test(test_done_accepts_a_ring_that_was_never_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
