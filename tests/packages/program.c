/* SPDX-License-Identifier: MIT */
/* A program as a user of libbrig-dev writes it. */
#include <brig.h>
#include <stdio.h>

int main(void)
{
    const char *const argv[] = {"echo", "from C"};
    struct brig *brig = NULL;
    struct brig_spec *spec = NULL;
    struct brig_run *run = NULL;
    struct brig_error err;
    int ret = brig_open(&brig, &err);
    if (ret == 0)
        ret = brig_spec_new(&spec, &err);
    if (ret == 0)
        ret = brig_spec_set_command(spec, argv, 2, &err);
    if (ret == 0)
        ret = brig_start(brig, spec, &run, &err);
    if (ret < 0) {
        fprintf(stderr, "%s\n", err.text);
    } else {
        brig_run_wait(run, -1);
        const struct brig_result *result = brig_run_result(run);
        printf("%s: %.*s", brig_status_name(result->status), (int)result->out.len,
               (const char *)result->out.data);
    }
    brig_run_free(run);
    brig_spec_free(spec);
    brig_close(brig);
    return ret < 0;
}
