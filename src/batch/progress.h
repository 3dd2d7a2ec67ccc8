/* How far a batch is: a line for a terminal, and one for the end. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    uint64_t total;                         /* jobs of the input; 0: not known */
    uint64_t ok, failed, cancelled, before; /* `before`: of ok and failed, by an earlier batch */
    uint64_t running;
    uint64_t started_ns, drawn_ns; /* monotonic */
    bool shown;
};

#define PROGRESS_SIZE 400

/* Pure: what fits into that many columns, the most important parts of it. */
void progress_format(const struct progress *progress, uint64_t now_ns, unsigned columns,
                     char out[PROGRESS_SIZE]);
/* Pure: "10000 jobs: 9990 ok, 10 failed, in 31 s". */
void progress_summary(const struct progress *progress, uint64_t now_ns, char out[PROGRESS_SIZE]);

/* Draw it if it is time to, and return after how many milliseconds it will be; -1: never. */
int progress_draw(struct progress *progress);
void progress_clear(struct progress *progress);

#endif
