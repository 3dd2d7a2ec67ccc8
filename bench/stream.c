/* What capturing costs: run a guest that writes SIZE bytes and keep all of them, with secrets
 * hidden or as they are.
 *
 *     bench_stream SIZE on|off */
#include <stdio.h>
#include <stdlib.h>

#include "brig.h"

int main(int argc, char **argv)
{
    struct brig_error err = {.text = "usage: bench_stream SIZE on|off"};
    struct brig *brig = NULL;
    struct brig_spec *spec = NULL;
    struct brig_run *run = NULL;
    const char *size = argc > 1 ? argv[1] : "";
    const char *command[] = {"head", "-c", size, "/dev/zero"};
    int ret = argc == 3 ? brig_open(&brig, &err) : -1;
    if (ret == 0)
        ret = brig_spec_new(&spec, &err);
    if (ret == 0)
        ret = brig_spec_set_command(spec, command, 4, &err);
    if (ret == 0)
        ret = brig_spec_set(spec, "output", size, BRIG_FROM_OPTION, NULL, &err);
    if (ret == 0)
        ret = brig_spec_set(spec, "redact", argv[2], BRIG_FROM_OPTION, NULL, &err);
    if (ret == 0)
        ret = brig_spec_set_sink(spec, BRIG_STDOUT, BRIG_SINK_CAPTURE, -1, &err);
    if (ret == 0)
        ret = brig_start(brig, spec, &run, &err);
    if (ret < 0) {
        fprintf(stderr, "bench_stream: %s\n", err.text);
        return 1;
    }
    brig_run_wait(run, -1);
    bool all = brig_run_result(run)->out.len == strtoull(size, NULL, 10);
    brig_run_free(run);
    brig_spec_free(spec);
    brig_close(brig);
    return all ? 0 : 1;
}
