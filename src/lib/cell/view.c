/* Compiling the file view: operations, and where a mount goes. */
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
    return "/"; /* a path, for those who take it for one before view_failed() is asked */
}

int view_failed(const struct view *view, struct brig_error *err)
{
    if (view->no_memory)
        return error_memory(err, STAGE);
    if (view->too_many)
        return error_refused(err, STAGE,
                             "the file view has too many parts; show a folder that "
                             "holds them instead");
    return 0;
}

/* ---- what is where ------------------------------------------------------------------------- */

bool view_is_within(const char *path, const char *base)
{
    size_t len = strlen(base);
    if (strcmp(base, "/") == 0)
        return true;
    return strncmp(path, base, len) == 0 && (path[len] == '/' || !path[len]);
}

/* The mount that a path of the cell is on: the last one that covers it. */
static const struct view_mount *mount_of(const struct view *view, const char *path)
{
    for (size_t i = view->mount_count; i-- > 0;) {
        if (view_is_within(path, view->mounts[i].target))
            return &view->mounts[i];
    }
    return NULL;
}

void view_note(struct view *view, const char *target, const char *source, bool writable,
               bool folder)
{
    if (view->mount_count == VIEW_MOUNTS_MAX) {
        view->too_many = true;
        return;
    }
    view->mounts[view->mount_count++] =
        (struct view_mount){target, source, writable, folder, view->part};
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

/* ---- places for mounts --------------------------------------------------------------------- */

struct cell_op *view_folder(struct view *view, const char *target, unsigned mode)
{
    for (uint32_t i = 0; i < view->count; i++) {
        if (view->ops[i].kind == CELL_FOLDER && strcmp(view->ops[i].target, target) == 0)
            return &view->ops[i];
    }
    struct cell_op *op = view_add(view, CELL_FOLDER, NULL, view_text(view, target));
    op->a = mode;
    return op;
}

/* Was everything above it made by us? Else somebody may put a link in the way, meanwhile. */
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

/* Make the folders above a target, and the target itself as a folder or an empty file. */
static void make_new_place(struct view *view, const char *target, const struct view_mount *mount,
                           bool folder, bool ours)
{
    for (const char *at = strchr(target + 1, '/'); at; at = strchr(at + 1, '/')) {
        char above[PATH_MAX];
        snprintf(above, sizeof above, "%.*s", (int)(at - target), target);
        if (mount && view_is_within(mount->target, above))
            continue; /* made already: the mount is on it */
        view_folder(view, above + 1, 0755)->b = !ours;
    }
    if (mount && strcmp(mount->target, target) == 0)
        return;
    if (folder) {
        view_folder(view, target + 1, 0755)->b = !ours;
    } else {
        struct cell_op *op = view_add(view, CELL_FILE, "", target + 1);
        op->a = 0644;
        op->c = !ours;
    }
}

/* The place of a mount, where it is ours to make; elsewhere it must be there. *flags tells which.
 * It is made by who makes what it is in. */
static int make_place(struct view *view, const char *target, bool folder, uint64_t *flags,
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
            !S_ISLNK(st.st_mode) && S_ISDIR(st.st_mode) == folder)
            return 0;
        return error_refused(err, STAGE,
                             "%.200s: there is no such %s in %.200s, and brig makes nothing in "
                             "your folders",
                             target, folder ? "folder" : "file", mount->source);
    }
    enum cell_part part = view->part;
    view->part = mount ? mount->part : part;
    make_new_place(view, target, mount, folder, ours);
    view->part = part;
    return 0;
}

int view_bind(struct view *view, const struct source *source, const char *target, bool writable,
              enum view_source kind, struct brig_error *err)
{
    uint64_t flags;
    const char *path = view_text(view, source->path);
    target = view_text(view, target);
    int ret = make_place(view, target, source->folder, &flags, err);
    if (ret < 0)
        return ret;
    struct cell_op *op = view_add(view, CELL_BIND, path, target + 1);
    op->a = flags | (writable ? 0 : CELL_READ_ONLY) | (kind == VIEW_SYSTEM ? CELL_SYSTEM : 0);
    if (kind == VIEW_CALLER && view->guest_uid) {
        op->a |= CELL_OWNER;
        op->fd = SLOT_OWNER;
    }
    if (view->split && view->part == CELL_PART_RUN)
        op->a |= CELL_TAKEN;
    op->b = source->device;
    op->c = source->inode;
    view_note(view, target, path, writable, source->folder);
    return 0;
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
    view_add(view, CELL_TMPFS, view_text(view, options), target + 1)->a = flags;
    view_note(view, target, NULL, owned, true);
    return 0;
}

int view_build(struct view *view, const struct brig_spec *spec, const char *workdir,
               const char **start, struct brig_error *err)
{
    bool host = spec->values[KEY_VIEW].number == VIEW_HOST;
    view->split = view->guest_uid && !host;
    if (view->split)
        view_add(view, CELL_JOIN, NULL, NULL);
    view_begin(view, CELL_PART_GROUND);
    view_add(view, CELL_PRIVATE, NULL, NULL);
    int ret = view_add_system(view, host, spec->values[KEY_NETWORK].number == NETWORK_HOST, err);
    if (ret == 0)
        ret = view_add_caller(view, spec, workdir, start, err);
    if (ret < 0)
        return ret;
    view_begin(view, CELL_PART_GROUND);
    view_add(view, CELL_PIVOT, NULL, NULL);
    view_add(view, CELL_SEAL, NULL, "/");
    if (view->split)
        view_add(view, CELL_SEAL, NULL, "/dev");
    view_begin(view, CELL_PART_RUN);
    view_add(view, CELL_CHDIR, *start, NULL);
    return view_failed(view, err);
}
