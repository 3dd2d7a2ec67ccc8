/* The result channel: the one message that a guest sends as its result, beside what it prints.
 *
 * On the wire: the length in decimal digits, a newline, that many bytes, and nothing more. Who
 * sends something else has no result: junk, a second message, half of one, or too much is each its
 * own state, and none of the bytes is used. Pure: takes bytes, touches no descriptor. */
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

/* Returns false when nothing that follows can make a difference: stop reading. */
bool channel_feed(struct channel *channel, const char *bytes, size_t len);

/* Where to read the next bytes to, and how many at most: straight into the body where that is what
 * comes. NULL: into memory of the caller's, for channel_feed(). */
char *channel_space(struct channel *channel, size_t *len);
void channel_filled(struct channel *channel, size_t len);

/* Nothing more comes: half a message is none. */
void channel_end(struct channel *channel);

/* Why there is no result, as a sentence; NULL where there is one or the channel is off. */
const char *channel_fault(const struct channel *channel, char *out, size_t size);

#endif
