/* SPDX-License-Identifier: MIT */
/* The cost of capturing: run a guest that writes SIZE bytes and keep all of them, with redaction on
 * or off. The comparison is a reader that keeps the bytes of a pipe, without a cell.
 *
 *     bench_stream SIZE on|off
 *     WRITER | bench_stream SIZE keep */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "brig.h"

#define AT_ONCE (1 << 20)

static int keep_stdin(size_t size)
{
    struct buf kept;
    ssize_t n = 1;
    fcntl(0, F_SETPIPE_SZ, AT_ONCE);
    buf_init(&kept, size + AT_ONCE);
    while (n > 0) {
        char *at = buf_reserve_now(&kept, AT_ONCE);
        n = at ? read(0, at, AT_ONCE) : -1;
        kept.len += n > 0 ? (size_t)n : 0;
    }
    bool all = kept.len == size;
    buf_done(&kept);
    return all ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "keep") == 0)
        return keep_stdin(strtoull(argv[1], NULL, 10));
    struct brig_error err = {.text = "usage: bench_stream SIZE on|off|keep"};
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
