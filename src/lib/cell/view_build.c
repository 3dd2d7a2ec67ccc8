/* SPDX-License-Identifier: MIT */
/* Builds a view: the system's part, the caller's part, and the pivot. Called by cell.c. */
#include "view_build.h"

int view_build(struct view *view, const struct brig_spec *spec, const char *workdir,
               const char **start, struct brig_error *err)
{
    bool host = spec->values[KEY_VIEW].number == VIEW_HOST;
    view->split = view->guest_uid && !host;
    if (view->split)
        view_add(view, CELL_JOIN, NULL, NULL);
    view_begin(view, CELL_PART_BASE);
    view_add(view, CELL_PRIVATE, NULL, NULL);
    int ret = view_add_system(view, host, spec->values[KEY_NETWORK].number == NETWORK_HOST, err);
    if (ret == 0)
        ret = view_add_caller(view, spec, workdir, start, err);
    if (ret < 0)
        return ret;
    view_begin(view, CELL_PART_BASE);
    view_add(view, CELL_PIVOT, NULL, NULL);
    view_add(view, CELL_SEAL, NULL, "/");
    if (view->split)
        view_add(view, CELL_SEAL, NULL, "/dev");
    view_begin(view, CELL_PART_RUN);
    view_add(view, CELL_CHDIR, *start, NULL);
    return view_failed(view, err);
}
