/* SPDX-License-Identifier: MIT */
/* Implements the result channel. channel.h has the protocol. */
#include "channel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

#define READ_AT_ONCE (1u << 20)

void channel_init(struct channel *channel, uint64_t max)
{
    *channel = (struct channel){.state = BRIG_CHANNEL_SILENT, .max = max};
    buf_init(&channel->body, (size_t)max);
}

void channel_done(struct channel *channel)
{
    buf_done(&channel->body);
    *channel = (struct channel){.state = BRIG_CHANNEL_OFF};
}

static bool fail(struct channel *channel, enum brig_channel state)
{
    channel->state = state;
    buf_done(&channel->body);
    buf_init(&channel->body, 0);
    return false;
}

/* The line with the length is complete. */
static bool begin_body(struct channel *channel)
{
    const char *digits = channel->digits;
    if (channel->digit_count == 0 || (digits[0] == '0' && channel->digit_count > 1))
        return fail(channel, BRIG_CHANNEL_JUNK);
    channel->want = 0;
    for (size_t i = 0; i < channel->digit_count; i++)
        channel->want = channel->want * 10 + (uint64_t)(digits[i] - '0');
    if (channel->want > channel->max)
        return fail(channel, BRIG_CHANNEL_TOO_LARGE);
    channel->in_body = true;
    channel->state = channel->want ? BRIG_CHANNEL_HALF : BRIG_CHANNEL_SENT;
    return true;
}

/* Returns the number of bytes that belong to the head. That is less than `len` if the line ends, or
 * if it is invalid. */
static size_t feed_head(struct channel *channel, const char *bytes, size_t len)
{
    size_t i = 0;
    while (i < len && !channel->in_body) {
        char c = bytes[i++];
        channel->state = BRIG_CHANNEL_HALF;
        if (c == '\n') {
            begin_body(channel);
            break;
        }
        if (c < '0' || c > '9' || channel->digit_count == CHANNEL_DIGITS_MAX) {
            fail(channel, BRIG_CHANNEL_JUNK);
            break;
        }
        channel->digits[channel->digit_count++] = c;
    }
    return i;
}

static bool goes_on(const struct channel *channel)
{
    return channel->state == BRIG_CHANNEL_SILENT || channel->state == BRIG_CHANNEL_HALF ||
           channel->state == BRIG_CHANNEL_SENT;
}

void channel_filled(struct channel *channel, size_t len)
{
    channel->body.len += len;
    if (channel->body.len == channel->want)
        channel->state = BRIG_CHANNEL_SENT;
}

bool channel_feed(struct channel *channel, const char *bytes, size_t len)
{
    size_t used = channel->in_body ? 0 : feed_head(channel, bytes, len);
    if (!goes_on(channel))
        return false;
    size_t rest = len - used, missing = (size_t)channel->want - channel->body.len;
    if (!channel->in_body || rest == 0)
        return true;
    if (rest > missing)
        return fail(channel, BRIG_CHANNEL_TWICE);
    buf_add(&channel->body, bytes + used, rest);
    if (channel->body.failed)
        return fail(channel, BRIG_CHANNEL_NO_MEMORY);
    channel_filled(channel, 0);
    return true;
}

char *channel_space(struct channel *channel, size_t *len)
{
    if (!channel->in_body || channel->state != BRIG_CHANNEL_HALF)
        return NULL;
    size_t missing = (size_t)channel->want - channel->body.len;
    *len = missing < READ_AT_ONCE ? missing : READ_AT_ONCE;
    char *at = buf_reserve(&channel->body, *len);
    if (!at)
        fail(channel, BRIG_CHANNEL_NO_MEMORY);
    return at;
}

void channel_end(struct channel *channel)
{
    if (channel->state == BRIG_CHANNEL_HALF)
        fail(channel, BRIG_CHANNEL_HALF);
}

const char *channel_fault(const struct channel *channel, char *out, size_t size)
{
    char most[UNITS_TEXT_SIZE];
    const char *text = NULL;
    switch (channel->state) {
    case BRIG_CHANNEL_OFF:
    case BRIG_CHANNEL_SENT:
        return NULL;
    case BRIG_CHANNEL_SILENT:
        text = "no result was sent";
        break;
    case BRIG_CHANNEL_JUNK:
        text = "the result that was sent does not begin with its length";
        break;
    case BRIG_CHANNEL_TWICE:
        text = "more was sent after the result, so it is not known which part is meant";
        break;
    case BRIG_CHANNEL_HALF:
        text = "only a part of the result was sent";
        break;
    case BRIG_CHANNEL_NOT_JSON:
        text = "the result is not JSON";
        break;
    case BRIG_CHANNEL_NO_MEMORY:
        text = "there was not enough memory for the result";
        break;
    case BRIG_CHANNEL_WITHHELD:
        text = "the result is withheld: looking for secrets in it took too long";
        break;
    case BRIG_CHANNEL_TOO_LARGE:
        units_format_size(channel->max, most);
        snprintf(out, size, "the result is larger than result_size, which is %s", most);
        return out;
    }
    snprintf(out, size, "%s", text);
    return out;
}
