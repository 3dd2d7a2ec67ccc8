/* SPDX-License-Identifier: MIT */
/* Line reader of a batch. */
#include "batch_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE 65536
#define ROOM  (LINES_LINE_MAX + PIECE)

int lines_init(struct lines *lines, int fd)
{
    char *data = malloc(ROOM);
    if (!data)
        return -ENOMEM;
    *lines = (struct lines){.fd = fd, .data = data};
    return 0;
}

void lines_done(struct lines *lines)
{
    free(lines->data);
    lines->data = NULL;
}

uint64_t lines_hash(uint64_t hash, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

int lines_fill(struct lines *lines)
{
    if (lines->ended)
        return 0;
    if (lines->from) {
        lines->to -= lines->from;
        memmove(lines->data, lines->data + lines->from, lines->to);
        lines->from = 0;
    }
    size_t room = ROOM - lines->to;
    if (room == 0)
        return 0; /* lines_next() makes room: the line is complete, or too long */
    ssize_t n = read(lines->fd, lines->data + lines->to, room < PIECE ? room : PIECE);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -errno;
    lines->to += (size_t)n;
    lines->ended = n == 0;
    return 0;
}

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    }
    return true;
}

/* Hash and drop the rest of a line that is too long. */
static enum lines_found skip(struct lines *lines)
{
    const char *at = lines->data + lines->from;
    const char *end = memchr(at, '\n', lines->to - lines->from);
    size_t len = end ? (size_t)(end - at) : lines->to - lines->from;
    lines->hash = lines_hash(lines->hash, at, len);
    lines->from += len + (end ? 1 : 0);
    if (!end && !lines->ended)
        return LINES_WAIT;
    lines->skipping = false;
    return LINES_TOO_LONG;
}

static enum lines_found begin_skipping(struct lines *lines)
{
    lines->number++;
    lines->skipping = true;
    lines->hash = LINES_HASH;
    return skip(lines);
}

enum lines_found lines_next(struct lines *lines, const char **line, size_t *len)
{
    if (lines->skipping)
        return skip(lines);
    while (lines->from < lines->to) {
        const char *at = lines->data + lines->from;
        size_t left = lines->to - lines->from;
        const char *end = memchr(at, '\n', left);
        size_t found = end ? (size_t)(end - at) : left;
        if (found > LINES_LINE_MAX)
            return begin_skipping(lines);
        if (!end && !lines->ended)
            return LINES_WAIT;
        lines->from += found + (end ? 1 : 0);
        lines->number++;
        if (is_blank(at, found))
            continue;
        lines->hash = lines_hash(LINES_HASH, at, found);
        *line = at;
        *len = found;
        return LINES_LINE;
    }
    return lines->ended ? LINES_END : LINES_WAIT;
}
