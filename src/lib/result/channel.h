/* SPDX-License-Identifier: MIT */
/* The result channel: the one message that a guest sends as its result, apart from its output.
 * Called by run.c and finish.c.
 *
 * The message has the length in decimal digits, a newline, and that many bytes. Anything else is
 * not a result: junk, a second message, a part of a message and one that is too large have a state
 * each, and none of their bytes is used. It takes bytes and touches no file descriptor. */
#ifndef LIB_CHANNEL_H
#define LIB_CHANNEL_H

#include <stdint.h>

#include "base/buf.h"
#include "brig.h"

#define CHANNEL_DIGITS_MAX 19

struct channel {
    enum brig_channel state;
    char digits[CHANNEL_DIGITS_MAX + 1];
    size_t digit_count;
    uint64_t want, max;
    bool in_body;
    struct buf body;
};

void channel_init(struct channel *channel, uint64_t max);
void channel_done(struct channel *channel);

/* Returns false if further bytes cannot change the state: stop reading. */
bool channel_feed(struct channel *channel, const char *bytes, size_t len);

/* Returns the place for the next read and its largest size, if the next bytes belong to the body;
 * call channel_filled() after it. Returns NULL otherwise: read into a buffer and call
 * channel_feed(). */
char *channel_space(struct channel *channel, size_t *len);
void channel_filled(struct channel *channel, size_t len);

/* Nothing more comes: a part of a message is not a result. */
void channel_end(struct channel *channel);

/* Returns the reason why there is no result, as a sentence. Returns NULL if there is one, or if the
 * channel is off. */
const char *channel_fault(const struct channel *channel, char *out, size_t size);

#endif
