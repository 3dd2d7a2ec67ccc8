/* SPDX-License-Identifier: MIT */
/* Memory for bytes in transit: read() fills it and write() empties it.
 *
 * Bytes from a pipe start at the beginning of a page. Some CPUs (AMD Zen 3) copy at less than half
 * their speed if the destination is up to 32 bytes further into its page than the source. malloc()
 * returns such addresses for large blocks, because it keeps 16 bytes in front of them for itself.
 */
#ifndef BASE_CHUNK_H
#define BASE_CHUNK_H

#include <stddef.h>

#define CHUNK_APART 64 /* distance of the bytes from the start of a page */

/* Allocate `size` bytes, preceded by CHUNK_APART bytes that the caller may use as well. Returns
 * NULL without memory; otherwise the caller frees *memory. */
unsigned char *chunk_new(size_t size, void **memory);

#endif
