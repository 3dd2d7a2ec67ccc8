/* SPDX-License-Identifier: MIT */
/* Random input that is the same in every run: a failure can be repeated. */
#ifndef UNIT_RANDOM_H
#define UNIT_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

/* splitmix64 */
static inline uint64_t random_next(struct random *random)
{
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 to below - 1 */
static inline size_t random_below(struct random *random, size_t below)
{
    return (size_t)(random_next(random) % below);
}

static inline void random_fill(struct random *random, unsigned char *out, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)random_next(random);
}

#endif
