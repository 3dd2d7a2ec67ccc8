/* SPDX-License-Identifier: MIT */
/* Time: the monotonic clock for every deadline, the calendar only for text that people read. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S  UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

static inline uint64_t clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline void clock_sleep(uint64_t ns)
{
    const struct timespec t = {(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static inline int64_t clock_calendar(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * (int64_t)NS_PER_S + t.tv_nsec;
}

/* "2026-11-15T20:26:01.123Z" */
#define CLOCK_TEXT_SIZE 32
void clock_format(int64_t calendar_ns, char out[CLOCK_TEXT_SIZE]);

#endif
