/* SPDX-License-Identifier: MIT */
/* Collects the operations of a view, and decides where a mount goes. Called by the other view_*.c
 * files and cell.c. view.h and view_build.h have the interface. */
#include "view.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "child/protocol.h"
#include "idmap.h"
#include "view_build.h"

#define STAGE "view"

/* ---- operations ---------------------------------------------------------------------------- */

struct cell_op *view_add(struct view *view, enum cell_kind kind, const char *source,
                         const char *target)
{
    if (view->count < VIEW_OPS_MAX)
        view->count++;
    else
        view->too_many = true;
    struct cell_op *op = &view->ops[view->too_many ? VIEW_OPS_MAX : view->count - 1];
    *op = (struct cell_op){
        .kind = kind, .part = view->part, .fd = -1, .source = source, .target = target};
    return op;
}

const char *view_text(struct view *view, const char *text)
{
    if (strings_add_text(&view->text, text) == 0)
        return view->text.items[view->text.count - 1];
    view->no_memory = true;
    return "/"; /* a valid path, for callers that use it before view_failed() is called */
}

int view_failed(const struct view *view, struct brig_error *err)
{
    if (view->no_memory)
        return error_memory(err, STAGE);
    if (view->too_many)
        return error_refused(err, STAGE,
                             "the file view has too many parts; show a directory that "
                             "holds them instead");
    return 0;
}

/* ---- the mounts of a view ------------------------------------------------------------------ */

/* Returns the mount that a path of the cell is on: the last one that covers it. */
static const struct view_mount *mount_of(const struct view *view, const char *path)
{
    for (size_t i = view->mount_count; i-- > 0;) {
        if (view_is_within(path, view->mounts[i].target))
            return &view->mounts[i];
    }
    return NULL;
}

void view_note(struct view *view, const char *target, const char *source, bool writable, bool dir)
{
    if (view->mount_count == VIEW_MOUNTS_MAX) {
        view->too_many = true;
        return;
    }
    view->mounts[view->mount_count++] =
        (struct view_mount){target, source, writable, dir, view->part};
}

bool view_resolve(const struct view *view, const char *path, char *out, size_t size)
{
    const struct view_mount *mount = mount_of(view, path);
    if (!mount || !mount->source)
        return false;
    size_t skip = strcmp(mount->target, "/") == 0 ? 0 : strlen(mount->target);
    const char *base = strcmp(mount->source, "/") == 0 ? "" : mount->source;
    return (size_t)snprintf(out, size, "%s%s", base, path + skip) < size;
}

/* ---- mount points -------------------------------------------------------------------------- */

struct cell_op *view_dir(struct view *view, const char *target, unsigned mode)
{
    for (uint32_t i = 0; i < view->count; i++) {
        if (view->ops[i].kind == CELL_DIR && strcmp(view->ops[i].target, target) == 0)
            return &view->ops[i];
    }
    struct cell_op *op = view_add(view, CELL_DIR, NULL, view_text(view, target));
    op->make.mode = mode;
    return op;
}

void view_cover(struct view *view, const char *source, const char *target, bool ours)
{
    uint64_t sealed = view->split ? CELL_SEALED : 0;
    view_add(view, CELL_COVER, source, target)->flags = (ours ? CELL_OURS : 0) | sealed;
}

/* Did brig make everything above the path? If not, another process may put a symlink there. */
static bool is_ours(const struct view *view, const char *path)
{
    for (size_t i = 0; i < view->mount_count; i++) {
        if (view->mounts[i].source && view_is_within(path, view->mounts[i].target))
            return false;
    }
    return true;
}

void view_begin(struct view *view, enum cell_part part)
{
    view->part = view->split ? part : CELL_PART_RUN;
}

/* Make the directories above a mount point, and the mount point itself as a directory or an empty
 * file. */
static void make_new_place(struct view *view, const char *target, const struct view_mount *mount,
                           bool dir, bool ours)
{
    for (const char *at = strchr(target + 1, '/'); at; at = strchr(at + 1, '/')) {
        char above[PATH_MAX];
        snprintf(above, sizeof above, "%.*s", (int)(at - target), target);
        if (mount && view_is_within(mount->target, above))
            continue; /* it exists: the mount is on it */
        view_dir(view, above + 1, 0755)->make.foreign = !ours;
    }
    if (mount && strcmp(mount->target, target) == 0)
        return;
    if (dir) {
        view_dir(view, target + 1, 0755)->make.foreign = !ours;
    } else {
        struct cell_op *op = view_add(view, CELL_FILE, "", target + 1);
        op->make.mode = 0644;
        op->make.foreign = !ours;
    }
}

/* Make a mount point if it is on a mount that brig made; elsewhere it must exist. Sets CELL_OURS in
 * *flags if brig made everything above it. The part that makes the mount below also makes the mount
 * point. */
static int make_place(struct view *view, const char *target, bool dir, uint64_t *flags,
                      struct brig_error *err)
{
    const struct view_mount *mount = mount_of(view, target);
    bool ours = is_ours(view, target);
    *flags = ours ? CELL_OURS : 0;
    if (view->no_memory)
        return error_memory(err, STAGE);
    if (mount && mount->source) {
        struct stat st;
        char behind[PATH_MAX];
        if (view_resolve(view, target, behind, sizeof behind) && lstat(behind, &st) == 0 &&
            !S_ISLNK(st.st_mode) && S_ISDIR(st.st_mode) == dir)
            return 0;
        return error_refused(err, STAGE,
                             "%.200s: there is no such %s in %.200s, and brig makes nothing in "
                             "your directories",
                             target, dir ? "directory" : "file", mount->source);
    }
    enum cell_part part = view->part;
    view->part = mount ? mount->part : part;
    make_new_place(view, target, mount, dir, ours);
    view->part = part;
    return 0;
}

int view_bind(struct view *view, const struct source *source, const char *target, bool writable,
              enum view_source kind, struct brig_error *err)
{
    uint64_t flags;
    const char *path = view_text(view, source->path);
    target = view_text(view, target);
    int ret = make_place(view, target, source->dir, &flags, err);
    if (ret < 0)
        return ret;
    struct cell_op *op = view_add(view, CELL_BIND, path, target + 1);
    op->flags = flags | (writable ? 0 : CELL_READ_ONLY) | (kind == VIEW_SYSTEM ? CELL_SYSTEM : 0);
    if (kind == VIEW_CALLER && view->guest_uid && writable && !view->unmapped &&
        !idmap_works(path, view->guest_uid))
        view->unmapped = path;
    if (kind == VIEW_CALLER && view->guest_uid) {
        op->flags |= CELL_IDMAP;
        op->fd = SLOT_USER_NS;
    }
    if (view->split && view->part == CELL_PART_RUN)
        op->flags |= CELL_TAKEN;
    op->device = source->device;
    op->inode = source->inode;
    view_note(view, target, path, writable, source->dir);
    return 0;
}

void view_link(struct view *view, const char *path, const char *to)
{
    const struct view_mount *mount = mount_of(view, path);
    if (mount && mount->source)
        return;
    /* The path may exist already, as a symlink or a directory. */
    for (uint32_t i = 0; i < view->count; i++) {
        const struct cell_op *op = &view->ops[i];
        if ((op->kind == CELL_LINK || op->kind == CELL_DIR) && strcmp(op->target, path + 1) == 0)
            return;
    }
    enum cell_part part = view->part;
    view->part = mount ? mount->part : part;
    for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        char above[PATH_MAX];
        snprintf(above, sizeof above, "%.*s", (int)(at - path), path);
        if (!mount || !view_is_within(mount->target, above))
            view_dir(view, above + 1, 0755);
    }
    view_add(view, CELL_LINK, view_text(view, to), view_text(view, path) + 1);
    view->part = part;
}

int view_tmpfs(struct view *view, const char *target, uint64_t bytes, unsigned mode, bool owned,
               struct brig_error *err)
{
    char options[128];
    uint64_t flags, owner = owned ? view->guest_uid : 0;
    snprintf(options, sizeof options, "mode=%o,size=%" PRIu64 ",nr_inodes=100000", mode, bytes);
    if (owner)
        snprintf(options + strlen(options), sizeof options - strlen(options),
                 ",uid=%" PRIu64 ",gid=%" PRIu64, owner, owner);
    target = view_text(view, target);
    int ret = make_place(view, target, true, &flags, err);
    if (ret < 0)
        return ret;
    view_add(view, CELL_TMPFS, view_text(view, options), target + 1)->flags = flags;
    view_note(view, target, NULL, owned, true);
    return 0;
}
