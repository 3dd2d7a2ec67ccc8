/* SPDX-License-Identifier: MIT */
/* lib/channel.c: one message of the length it announces is a result; anything else is none. */
#include "lib/result/channel.h"

#include "check.h"
#include "random.h"

/* The state after the bytes came in pieces of this size, through both ways in. */
static enum brig_channel state_of(const char *bytes, size_t len, size_t piece, bool direct,
                                  struct channel *channel)
{
    bool goes_on = true;
    channel_init(channel, 100);
    for (size_t at = 0; at < len && goes_on;) {
        size_t n = len - at < piece ? len - at : piece, room = 0;
        char *space = direct ? channel_space(channel, &room) : NULL;
        if (space) {
            n = n < room ? n : room;
            memcpy(space, bytes + at, n);
            channel_filled(channel, n);
        } else {
            goes_on = channel_feed(channel, bytes + at, n);
        }
        at += n;
    }
    channel_end(channel);
    return channel->state;
}

static void test_every_message_in_every_split(void **state)
{
    static const struct {
        const char *bytes;
        enum brig_channel state;
    } rows[] = {
        {"", BRIG_CHANNEL_SILENT},
        {"0\n", BRIG_CHANNEL_SENT},
        {"2\n{}", BRIG_CHANNEL_SENT},
        {"10\n{\"a\": 123}", BRIG_CHANNEL_SENT},
        {"100\n", BRIG_CHANNEL_HALF},
        {"1", BRIG_CHANNEL_HALF},
        {"2\n{", BRIG_CHANNEL_HALF},
        {"\n", BRIG_CHANNEL_JUNK},
        {"{}", BRIG_CHANNEL_JUNK},
        {"02\n{}", BRIG_CHANNEL_JUNK},
        {"00\n", BRIG_CHANNEL_JUNK},
        {"-2\n{}", BRIG_CHANNEL_JUNK},
        {"+2\n{}", BRIG_CHANNEL_JUNK},
        {" 2\n{}", BRIG_CHANNEL_JUNK},
        {"2 \n{}", BRIG_CHANNEL_JUNK},
        {"2\r\n{}", BRIG_CHANNEL_JUNK},
        {"0x2\n{}", BRIG_CHANNEL_JUNK},
        {"18446744073709551618\n{}", BRIG_CHANNEL_JUNK},
        {"9999999999999999999\n{}", BRIG_CHANNEL_TOO_LARGE},
        {"101\n", BRIG_CHANNEL_TOO_LARGE},
        {"2\n{}\n", BRIG_CHANNEL_TWICE},
        {"2\n{}2\n{}", BRIG_CHANNEL_TWICE},
        {"0\nx", BRIG_CHANNEL_TWICE},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t len = strlen(rows[i].bytes);
        for (size_t piece = 1; piece <= len + 1; piece++) {
            for (int direct = 0; direct < 2; direct++) {
                struct channel channel;
                char text[192];
                enum brig_channel is = state_of(rows[i].bytes, len, piece, direct, &channel);
                if (is != rows[i].state)
                    fail_msg("\"%s\" in pieces of %zu: %d", rows[i].bytes, piece, (int)is);
                bool sent = is == BRIG_CHANNEL_SENT;
                assert_true(sent == !channel_fault(&channel, text, sizeof text));
                assert_true(sent || channel.body.len == 0);
                channel_done(&channel);
            }
        }
    }
}

static void test_the_bytes_are_kept(void **state)
{
    struct channel channel;
    assert_int_equal(state_of("4\na\0b\n", 6, 3, true, &channel), BRIG_CHANNEL_SENT);
    assert_int_equal(channel.body.len, 4);
    assert_memory_equal(channel.body.data, "a\0b\n", 4);
    channel_done(&channel);
}

static void test_each_fault_has_its_own_sentence(void **state)
{
    char texts[BRIG_CHANNEL_WITHHELD + 1][192];
    for (int i = BRIG_CHANNEL_OFF; i <= BRIG_CHANNEL_WITHHELD; i++) {
        struct channel channel = {.state = (enum brig_channel)i, .max = 1024};
        texts[i][0] = 0;
        const char *said = channel_fault(&channel, texts[i], sizeof texts[i]);
        assert_true((said == NULL) == (i == BRIG_CHANNEL_OFF || i == BRIG_CHANNEL_SENT));
        for (int j = 0; j < i && said; j++)
            assert_string_not_equal(texts[i], texts[j]);
    }
    assert_contains(texts[BRIG_CHANNEL_TOO_LARGE], "1 KiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_message_in_every_split),
        cmocka_unit_test(test_the_bytes_are_kept),
        cmocka_unit_test(test_each_fault_has_its_own_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
