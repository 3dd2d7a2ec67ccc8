/* The journal of a batch: one line for each job that is done, its result. It is the record of
 * truth: what is in it is done, what is not in it runs (again). Written by one batch at a time. */
#ifndef CLI_BATCH_JOURNAL_H
#define CLI_BATCH_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "brig.h"

struct journal {
    int fd; /* -1: there is none */
    const char *path;
    uint64_t size;      /* of its whole lines */
    uint64_t begins_at; /* the first record */
    bool unsynced;
    /* What was there when it was opened. */
    uint64_t records, failed, last_line; /* the greatest number */
    uint64_t followed, other; /* the input was looked at up to this line; the one that is wrong */
    uint32_t *marks;          /* by the number of the line: a part of its hash, 0: not done */
    size_t marks_size;
};

#define JOURNAL_NONE                                                                               \
    (struct journal)                                                                               \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* Open or make it. `setup` is a hash of what all jobs share. A last line that is not whole is cut
 * off. Refused: what is no journal or is damaged, another setup, a journal that is in use. */
int journal_open(struct journal *journal, const char *path, uint64_t setup, struct brig_error *err);
void journal_close(struct journal *journal);

enum journal_state {
    JOURNAL_TODO,
    JOURNAL_DONE,
    JOURNAL_OTHER, /* done, but the line was another one */
};

/* The next job of the input, from the first to the last: what was done must be what is there. A
 * line that is passed over is none. */
enum journal_state journal_follow(struct journal *journal, uint64_t line, uint64_t hash);
/* At the end of the input: JOURNAL_OTHER if it should have gone on. */
enum journal_state journal_follow_end(struct journal *journal);
/* From the first once more. */
void journal_rewind(struct journal *journal);

/* The error after JOURNAL_OTHER. `input` names what was read. */
int journal_refuse(const struct journal *journal, const char *input, struct brig_error *err);

/* Add a whole line, all or nothing. It counts after journal_sync(). */
int journal_add(struct journal *journal, const char *line, size_t len, struct brig_error *err);
int journal_sync(struct journal *journal, struct brig_error *err);

/* Copy all records to a descriptor. */
int journal_replay(const struct journal *journal, int fd, struct brig_error *err);

/* Pure: the beginning of a line. */
struct journal_record {
    uint64_t line, hash;
    bool ok;
};
bool journal_parse(const char *text, size_t len, struct journal_record *out);

#endif
