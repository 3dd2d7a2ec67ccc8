/* SPDX-License-Identifier: MIT */
/* The computations of the supervisor for one run, repeated: the spec, the environment, the system's
 * part of the file view and its landlock rules. tests/system/test_cost.py runs it under callgrind.
 * It does not call brig_start(), because callgrind does not know the newest system calls.
 *
 *     bench_plan TIMES */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/spec/environment.h"
#include "lib/cell/landlock.h"
#include "lib/cell/view_build.h"

static int compute(struct brig_error *err)
{
    static struct view view;
    struct strings env = {0};
    struct brig_spec *spec = NULL;
    const char *command[] = {"/bin/true"};
    view = (struct view){.guest_uid = 0x70000001, .uid = 1000, .gid = 1000, .scratch = 1 << 20};
    int ret = brig_spec_new(&spec, err);
    if (ret == 0)
        ret = brig_spec_set_command(spec, command, 1, err);
    if (ret == 0)
        ret = environment_build(&env, spec, environ, VIEW_HOME, "/tmp", err);
    if (ret == 0)
        ret = view_add_system(&view, false, false, err);
    if (ret == 0)
        landlock_add_rules(&view, 7);
    strings_done(&view.text);
    strings_done(&env);
    brig_spec_free(spec);
    return ret;
}

int main(int argc, char **argv)
{
    struct brig_error err = {.text = "usage: bench_plan TIMES"};
    int ret = argc == 2 ? 0 : -1;
    for (int i = argc == 2 ? atoi(argv[1]) : 0; i > 0 && ret == 0; i--)
        ret = compute(&err);
    if (ret < 0)
        fprintf(stderr, "bench_plan: %s\n", err.text);
    return ret < 0;
}
