/* SPDX-License-Identifier: MIT */
/* Opens and closes a handle of the library: brig_open(), brig_close() and small functions of
 * brig.h. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "lib/plan/host.h"
#include "pool.h"

#define STAGE "open"

int brig_open(struct brig **out, struct brig_error *err)
{
    struct brig *brig = calloc(1, sizeof *brig);
    if (!brig)
        return error_memory(err, STAGE);
    int ret = host_init(brig, err);
    if (ret < 0)
        free(brig);
    else
        *out = brig;
    return ret;
}

void brig_close(struct brig *brig)
{
    if (!brig)
        return;
    if (brig->pid == getpid())
        pool_close(brig->pool);
    host_done(brig);
    free(brig);
}

void brig_free(void *memory)
{
    free(memory);
}

const char *brig_version(void)
{
    return BRIG_VERSION;
}
