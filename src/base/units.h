/* SPDX-License-Identifier: MIT */
/* Conversion between numbers with units, as people write them, and integers. Pure.
 *
 * Every parser consumes the whole text and refuses 0, negative numbers and overflow. On failure it
 * returns a static text that names the reason ("is negative"); NULL means success. */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#define UNITS_TEXT_SIZE 32

const char *units_parse_size(const char *text, uint64_t *bytes);      /* 512M 2G 1.5G 4096 */
const char *units_parse_duration(const char *text, uint64_t *ns);     /* 500ms 30s 1h30m 90 */
const char *units_parse_count(const char *text, uint64_t *count);     /* 100 */
const char *units_parse_cpus(const char *text, uint64_t *milli_cpus); /* 0.5 1 2.25 */

void units_format_size(uint64_t bytes, char out[UNITS_TEXT_SIZE]);      /* "512 MiB" */
void units_format_duration(uint64_t ns, char out[UNITS_TEXT_SIZE]);     /* "1h30m" "1.5s" "20ms" */
void units_format_cpus(uint64_t milli_cpus, char out[UNITS_TEXT_SIZE]); /* "0.5" */

#endif
