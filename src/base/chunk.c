/* SPDX-License-Identifier: MIT */
/* Allocation of the chunks of chunk.h. */
#include "chunk.h"

#include <stdint.h>
#include <stdlib.h>

#define PAGE 4096

unsigned char *chunk_new(size_t size, void **memory)
{
    unsigned char *whole = malloc(2 * PAGE + size);
    *memory = whole;
    return whole ? whole + (PAGE - (uintptr_t)whole % PAGE) + CHUNK_APART : NULL;
}
