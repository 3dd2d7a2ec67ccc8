/* SPDX-License-Identifier: MIT */
/* The journal of a batch: one line with the result of each finished job. It alone decides which
 * jobs are finished: a job without a line in it runs (again). One batch at a time writes it. */
#ifndef CLI_BATCH_JOURNAL_H
#define CLI_BATCH_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "brig.h"

struct journal {
    int fd; /* -1: no journal */
    const char *path;
    uint64_t size;      /* of the complete lines */
    uint64_t begins_at; /* the offset of the first record */
    bool unsynced;
    /* The contents when it was opened. */
    uint64_t records, failed, last_line; /* the greatest line number */
    uint64_t followed, other; /* the last input line that was compared; the line that differs */
    uint32_t *marks;          /* for each line number, a part of its hash; 0: not finished */
    size_t marks_size;
};

#define JOURNAL_NONE                                                                               \
    (struct journal)                                                                               \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* Open or create it. `setup` is a hash of the settings that all jobs share. An incomplete last line
 * is removed. Refused: a file that is not a journal or is damaged, a journal with another setup, a
 * journal in use. */
int journal_open(struct journal *journal, const char *path, uint64_t setup, struct brig_error *err);
void journal_close(struct journal *journal);

enum journal_state {
    JOURNAL_TODO,
    JOURNAL_DONE,
    JOURNAL_OTHER, /* finished, but with another line in its place */
};

/* Look up the next job of the input; call it for all jobs in order. A finished job must have the
 * same line as before. A line number that is skipped must not be in the journal. */
enum journal_state journal_follow(struct journal *journal, uint64_t line, uint64_t hash);
/* Call this at the end of the input: JOURNAL_OTHER if the journal has later lines. */
enum journal_state journal_follow_end(struct journal *journal);
/* Start again at the first line. */
void journal_rewind(struct journal *journal);

/* Set the error for JOURNAL_OTHER. `input` is the name of the input. */
int journal_refuse(const struct journal *journal, const char *input, struct brig_error *err);

/* Append a complete line; on failure nothing is appended. It is durable after journal_sync(). */
int journal_add(struct journal *journal, const char *line, size_t len, struct brig_error *err);
int journal_sync(struct journal *journal, struct brig_error *err);

/* Copy all records to a file descriptor. */
int journal_replay(const struct journal *journal, int fd, struct brig_error *err);

/* Pure: parse the beginning of a line. */
struct journal_record {
    uint64_t line, hash;
    bool ok;
};
bool journal_parse(const char *text, size_t len, struct journal_record *out);

#endif
