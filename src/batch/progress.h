/* SPDX-License-Identifier: MIT */
/* The progress of a batch: a line for the terminal, and a summary at the end. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    uint64_t total; /* jobs of the input; 0: unknown */
    uint64_t ok, failed, cancelled;
    uint64_t before; /* the part of ok and failed that is from earlier batches */
    uint64_t running;
    uint64_t started_ns, drawn_ns; /* monotonic */
    bool shown;
};

#define PROGRESS_SIZE 400

/* Pure: the line for a terminal with so many columns; less important parts are left out. */
void progress_format(const struct progress *progress, uint64_t now_ns, unsigned columns,
                     char out[PROGRESS_SIZE]);
/* Pure: "10000 jobs: 9990 ok, 10 failed, in 31 s". */
void progress_summary(const struct progress *progress, uint64_t now_ns, char out[PROGRESS_SIZE]);

/* Draw the line if it is due. Returns the milliseconds until the next time; -1: never. */
int progress_draw(struct progress *progress);
void progress_clear(struct progress *progress);

#endif
