/* SPDX-License-Identifier: MIT */
/* Formatting of calendar time. */
#include "clock.h"

#include <stdio.h>

void clock_format(int64_t calendar_ns, char out[CLOCK_TEXT_SIZE])
{
    time_t seconds = (time_t)(calendar_ns / (int64_t)NS_PER_S);
    struct tm tm;
    if (!gmtime_r(&seconds, &tm)) {
        snprintf(out, CLOCK_TEXT_SIZE, "invalid");
        return;
    }
    char day[24];
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, CLOCK_TEXT_SIZE, "%s.%03dZ", day,
             (int)(calendar_ns % (int64_t)NS_PER_S / (int64_t)NS_PER_MS));
}
