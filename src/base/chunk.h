/* Memory for bytes on their way: where a read() puts them and a write() takes them from.
 *
 * What comes from a pipe begins a page. Some processors (AMD Zen 3) copy at less than half their
 * speed to an address that is up to 32 bytes further into its page than what is copied, and that is
 * where malloc() puts what is large: it keeps 16 bytes before it for itself. */
#ifndef BASE_CHUNK_H
#define BASE_CHUNK_H

#include <stddef.h>

#define CHUNK_APART 64 /* from the beginning of a page to that of the bytes */

/* Room for `size` bytes, and CHUNK_APART bytes before them to use as well. NULL without memory;
 * else the caller frees *memory. */
unsigned char *chunk_new(size_t size, void **memory);

#endif
