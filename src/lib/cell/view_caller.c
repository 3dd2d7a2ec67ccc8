/* SPDX-License-Identifier: MIT */
/* Builds the caller's part of a view: the caller's directories and files, the work directory, and
 * the guest's /tmp and home. Called by view_build.c. Makes nothing in the caller's directories. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/units.h"
#include "lib/spec/shown.h"
#include "view_build.h"

#define STAGE "view"

/* ---- paths --------------------------------------------------------------------------------- */

/* Is the path absolute, not the root, and without "", "." or ".." as a component? */
static bool is_plain(const char *path)
{
    if (path[0] != '/' || !path[1])
        return false;
    for (const char *at = path; *at; at += strcspn(at, "/")) {
        at++;
        size_t len = strcspn(at, "/");
        if (len == 0 || (len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.'))
            return false;
    }
    return true;
}

/* May something be mounted there? Not on paths that the cell needs for itself. */
static int check_target(const char *what, const char *target, struct brig_error *err)
{
    static const char *const own[] = {"/proc", "/sys", "/dev"};
    if (strcmp(target, "/") == 0)
        return error_refused(err, STAGE, "%s: / cannot be mounted over; see --view host", what);
    if (!is_plain(target))
        return error_usage(err, STAGE, "%s: \"%.100s\" is not an absolute path without . and ..",
                           what, target);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (view_is_within(target, own[i]) && (!view_is_within(target, "/dev/shm") || !target[8]))
            return error_refused(err, STAGE, "%s: %.200s: %s is the cell's own", what, target,
                                 own[i]);
    }
    return 0;
}

static void cut_slashes(char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        path[--len] = 0;
}

/* ---- the mounts, shallow ones before deep ones --------------------------------------------- */

enum part_kind { PART_TMPFS, PART_DIR, PART_HOME, PART_RO, PART_RW };

struct part {
    enum part_kind kind;
    const char *target;
    struct source source;
    uint64_t bytes;
    unsigned mode, depth;
};

/* Mounts of the caller and of brig may be inside one another, in any order. */
struct parts {
    struct part items[VIEW_MOUNTS_MAX];
    size_t count;
};

static void parts_done(struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        source_done(&parts->items[i].source);
}

/* Takes ownership of the source. */
static int add_to(struct parts *parts, struct part part, struct brig_error *err)
{
    if (parts->count == VIEW_MOUNTS_MAX) {
        source_done(&part.source);
        return error_refused(err, STAGE, "more than %d directories are to be shown",
                             VIEW_MOUNTS_MAX);
    }
    for (const char *at = part.target; *at; at++)
        part.depth += *at == '/';
    /* Insert it after all mounts that are not deeper: a mount named later covers one named
     * before. */
    size_t at = parts->count++;
    for (; at > 0 && parts->items[at - 1].depth > part.depth; at--)
        parts->items[at] = parts->items[at - 1];
    parts->items[at] = part;
    return 0;
}

static int add_shown(struct view *view, struct parts *parts, const struct shown *shown,
                     bool writable, struct brig_error *err)
{
    const char *what = writable ? "--rw" : "--ro";
    char target[PATH_MAX];
    struct part part = {.kind = writable ? PART_RW : PART_RO};
    if (shown->second && strlen(shown->second) >= sizeof target)
        return error_usage(err, STAGE, "%s: the path in the cell is too long", what);
    int ret = source_open(&part.source, what, shown->path, err);
    if (ret < 0)
        return ret;
    snprintf(target, sizeof target, "%s", shown->second ? shown->second : part.source.path);
    cut_slashes(target);
    ret = check_target(what, target, err);
    if (ret < 0) {
        source_done(&part.source);
        return ret;
    }
    part.target = view_text(view, target);
    return add_to(parts, part, err);
}

static int add_named(struct view *view, struct parts *parts, const char *entry, bool writable,
                     struct brig_error *err)
{
    struct shown shown;
    int ret = shown_read_place(entry, writable ? "--rw" : "--ro", &shown, err);
    if (ret < 0)
        return ret;
    ret = add_shown(view, parts, &shown, writable, err);
    shown_done(&shown);
    return ret;
}

static int add_all_named(struct view *view, struct parts *parts, const struct strings *list,
                         bool writable, struct brig_error *err)
{
    int ret = 0;
    for (size_t i = 0; i < list->count && ret == 0; i++)
        ret = add_named(view, parts, list->items[i], writable, err);
    return ret;
}

static int add_shown_tmpfs(struct view *view, struct parts *parts, const struct shown *shown,
                           struct brig_error *err)
{
    char target[PATH_MAX];
    const char *size = shown->second ? shown->second : "";
    struct part part = {.kind = PART_TMPFS, .bytes = view->scratch, .mode = 01777};
    const char *why = shown->second ? units_parse_size(size, &part.bytes) : NULL;
    if (why)
        return error_usage(err, STAGE, "--tmpfs: \"%.80s\" %s", size, why);
    if (part.bytes == BRIG_UNLIMITED || part.bytes == 0)
        return error_usage(err, STAGE, "--tmpfs: \"%.80s\": a directory in memory needs a size",
                           size);
    if (strlen(shown->path) >= sizeof target)
        return error_usage(err, STAGE, "--tmpfs: the path is too long");
    snprintf(target, sizeof target, "%s", shown->path);
    cut_slashes(target);
    int ret = check_target("--tmpfs", target, err);
    if (ret < 0)
        return ret;
    part.target = view_text(view, target);
    return add_to(parts, part, err);
}

static int add_named_tmpfs(struct view *view, struct parts *parts, const char *entry,
                           struct brig_error *err)
{
    struct shown shown;
    int ret = shown_read_size(entry, &shown, err);
    if (ret < 0)
        return ret;
    ret = add_shown_tmpfs(view, parts, &shown, err);
    shown_done(&shown);
    return ret;
}

static int add_all_tmpfs(struct view *view, struct parts *parts, const struct strings *list,
                         struct brig_error *err)
{
    int ret = 0;
    for (size_t i = 0; i < list->count && ret == 0; i++)
        ret = add_named_tmpfs(view, parts, list->items[i], err);
    return ret;
}

/* A directory that the caller shows at the place of the home is the home. */
static bool is_home_shown(const struct parts *parts)
{
    for (size_t i = parts->count; i-- > 0;) {
        const struct part *part = &parts->items[i];
        if (part->kind != PART_HOME && strcmp(part->target, VIEW_HOME) == 0)
            return part->kind == PART_TMPFS || part->source.dir;
    }
    return false;
}

/* brig makes no home in a directory that the caller shows; the home is /tmp then. */
static bool is_covered(const struct parts *parts, const char *path)
{
    for (size_t i = 0; i < parts->count; i++) {
        const struct part *part = &parts->items[i];
        if (part->kind != PART_HOME && view_is_within(path, part->target))
            return true;
    }
    return false;
}

static int mount_parts(struct view *view, const struct parts *parts, bool host,
                       struct brig_error *err)
{
    int ret = 0;
    if (!host && is_covered(parts, VIEW_HOME) && !is_home_shown(parts)) {
        view->home = "/tmp";
        view->home_moved = true;
    }
    for (size_t i = 0; i < parts->count && ret == 0; i++) {
        const struct part *part = &parts->items[i];
        if (part->kind == PART_HOME && !host && is_covered(parts, part->target))
            continue;
        if (part->kind == PART_TMPFS || part->kind == PART_HOME)
            ret = view_tmpfs(view, part->target, part->bytes, part->mode, true, err);
        else
            ret = view_bind(view, &part->source, part->target, part->kind != PART_RO, VIEW_CALLER,
                            err);
    }
    return ret;
}

/* ---- home and work directory --------------------------------------------------------------- */

static int add_workdir(struct view *view, struct parts *parts, const struct brig_spec *spec,
                       const char *workdir, const struct view_homes *homes, const char **start,
                       struct brig_error *err)
{
    struct part part = {.kind = PART_DIR};
    bool asked = spec_asked(spec, KEY_WORKDIR);
    *start = NULL;
    if (!asked && view_is_too_much_for(workdir, homes))
        return 0;
    int ret = source_open(&part.source, "workdir", workdir, err);
    if (ret < 0)
        return ret;
    ret = check_target("workdir", part.source.path, err);
    if (ret < 0) {
        source_done(&part.source);
        return ret;
    }
    part.target = *start = view_text(view, part.source.path);
    return add_to(parts, part, err);
}

static int add_private(struct view *view, struct parts *parts, const struct view_homes *homes,
                       bool host, struct brig_error *err)
{
    struct part tmp = {.kind = PART_TMPFS, .target = "/tmp", .bytes = view->scratch, .mode = 01777};
    struct part home = {
        .kind = PART_HOME, .target = VIEW_HOME, .bytes = view->scratch, .mode = 0700};
    int ret = add_to(parts, tmp, err);
    if (!host)
        return ret < 0 ? ret : add_to(parts, home, err);
    for (size_t i = 0; i < 2 && ret == 0; i++) {
        home.target = view_text(view, homes->paths[i]);
        if (view_is_home(homes->paths[i]))
            ret = add_to(parts, home, err);
    }
    return ret;
}

static const char *choose_home(struct view *view, const struct view_homes *homes, bool host)
{
    for (size_t i = 0; i < 2 && host; i++) {
        if (view_is_home(homes->paths[i]))
            return view_text(view, homes->paths[i]);
    }
    return host ? "/tmp" : VIEW_HOME;
}

/* ---- files that the guest must not change -------------------------------------------------- */

/* Returns the rest of `path` below the directory that a part shows, under any name; "" if the path
 * is that directory itself; NULL if it is not in it. */
static const char *rest_below(const struct part *part, const char *path)
{
    char above[PATH_MAX];
    for (size_t len = strlen(path); len > 0; len--) {
        struct stat st;
        if (path[len] && path[len] != '/')
            continue;
        snprintf(above, sizeof above, "%.*s", (int)len, path);
        if (lstat(above, &st) == 0 && source_device(&st) == part->source.device &&
            st.st_ino == part->source.inode)
            return path[len] ? path + len + 1 : "";
    }
    return NULL;
}

static bool is_part(const struct parts *parts, const char *target)
{
    for (size_t i = 0; i < parts->count; i++) {
        if (strcmp(parts->items[i].target, target) == 0)
            return true;
    }
    return false;
}

static int refuse_guard(const char *path, const struct part *part, const char *why,
                        struct brig_error *err)
{
    return error_refused(
        err, STAGE, "%.200s: %s, and the guest may write to %.200s; keep it where no guest can",
        path, why, part->target);
}

static const char *unfit_to_guard(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return "does not exist, so that the guest could make it";
    if (S_ISLNK(st.st_mode))
        return "is a symlink, which the guest could redirect";
    if (!(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
        return "is not a file, so that the guest can use it";
    if (S_ISREG(st.st_mode) && st.st_nlink > 1)
        return "has a second name, by which the guest could change it";
    return NULL;
}

/* Guard a path in a writable part. A guest cannot move or replace a mount point. So each directory
 * on the path is mounted on itself, writable as before, and the last directory or file read-only.
 * The new parts are inserted after this part, and are visited next. */
static int guard_in(struct view *view, struct parts *parts, const struct part *part,
                    const char *path, const char *rest, struct brig_error *err)
{
    char place[PATH_MAX], source[PATH_MAX];
    size_t len = strcspn(rest, "/");
    struct part cover = {.kind = rest[len] ? PART_RW : PART_RO};
    if (!*rest && path[strlen(path) - 1] == '/')
        return 0; /* it only has to stay in its place, and a mount does */
    if (!*rest)
        return refuse_guard(path, part, "decides about other runs", err);
    if (snprintf(place, sizeof place, "%s/%.*s", part->target, (int)len, rest) >= PATH_MAX)
        return error_refused(err, STAGE, "%.200s: is too long a path in the cell", path);
    if (is_part(parts, place))
        return 0; /* read-only, or visited by itself */
    const char *why = rest[len] ? NULL : unfit_to_guard(path);
    if (why)
        return refuse_guard(path, part, why, err);
    snprintf(source, sizeof source, "%.*s", (int)((size_t)(rest - path) + len), path);
    int ret = source_open(&cover.source, "guard", source, err);
    if (ret < 0)
        return ret;
    cover.target = view_text(view, place);
    return add_to(parts, cover, err);
}

/* Does a part that is named later cover all of it? */
static bool is_hidden(const struct parts *parts, size_t index)
{
    for (size_t i = index + 1; i < parts->count; i++) {
        if (strcmp(parts->items[i].target, parts->items[index].target) == 0)
            return true;
    }
    return false;
}

static int add_guards(struct view *view, struct parts *parts, const struct strings *guards,
                      struct brig_error *err)
{
    for (size_t i = 0; i < guards->count; i++) {
        /* New parts are inserted after their part, so the loop visits them too. */
        for (size_t j = 0; j < parts->count; j++) {
            const struct part part = parts->items[j];
            const char *path = guards->items[i];
            bool writable = (part.kind == PART_RW || part.kind == PART_DIR) && !is_hidden(parts, j);
            const char *rest = writable ? rest_below(&part, path) : NULL;
            int ret = rest ? guard_in(view, parts, &part, path, rest, err) : 0;
            if (ret < 0)
                return ret;
        }
    }
    return 0;
}

static int collect(struct view *view, struct parts *parts, const struct brig_spec *spec,
                   const char *workdir, const char **start, struct brig_error *err)
{
    struct view_homes homes;
    bool host = spec->values[KEY_VIEW].number == VIEW_HOST;
    view_find_homes(&homes, spec->home ? spec->home : getenv("HOME"), host);
    view->home = choose_home(view, &homes, host);
    int ret = add_private(view, parts, &homes, host, err);
    if (ret == 0)
        ret = add_workdir(view, parts, spec, workdir, &homes, start, err);
    if (ret == 0)
        ret = add_all_tmpfs(view, parts, &spec->values[KEY_TMPFS].list, err);
    if (ret == 0)
        ret = add_all_named(view, parts, &spec->values[KEY_RO].list, false, err);
    if (ret == 0)
        ret = add_all_named(view, parts, &spec->values[KEY_RW].list, true, err);
    return ret;
}

int view_check_guards(const struct brig_spec *spec, struct brig_error *err)
{
    const char *start = NULL;
    struct parts parts = {.count = 0};
    char *workdir =
        realpath(spec->values[KEY_WORKDIR].text ? spec->values[KEY_WORKDIR].text : ".", NULL);
    struct view *view = calloc(1, sizeof *view);
    int ret = 0;
    /* A run reports any other fault. */
    if (!view || !workdir)
        ret = error_memory(err, STAGE);
    else if (collect(view, &parts, spec, workdir, &start, NULL) == 0)
        ret = add_guards(view, &parts, &spec->guards, err);
    parts_done(&parts);
    if (view)
        strings_done(&view->text);
    free(view);
    free(workdir);
    return ret;
}

/* Does the guest see the host's own files at this path, through the caller's mounts or the work
 * directory? */
static bool is_brought(const struct parts *parts, const char *path, bool host)
{
    for (size_t i = parts->count; i-- > 0;) { /* the deepest first */
        const struct part *part = &parts->items[i];
        if (view_is_within(path, part->target))
            return part->kind != PART_TMPFS && part->kind != PART_HOME;
    }
    return host;
}

static int add_toolchain(struct view *view, struct parts *parts, const struct brig_spec *spec,
                         struct brig_error *err)
{
    struct toolchain *chain = &view->toolchain;
    bool host = spec->values[KEY_VIEW].number == VIEW_HOST;
    int ret =
        spec->toolchain ? toolchain_copy(chain, spec->toolchain) : toolchain_find(chain, spec);
    if (ret < 0)
        return error_memory(err, STAGE);
    for (size_t i = 0; i < chain->shown.count && ret == 0; i++) {
        struct part part = {.kind = PART_RO};
        if (is_brought(parts, chain->shown.items[i], host))
            continue;
        ret = source_open(&part.source, "tool chain", chain->shown.items[i], err);
        if (ret < 0)
            return ret;
        part.target = view_text(view, part.source.path);
        ret = add_to(parts, part, err);
    }
    return ret;
}

int view_add_caller(struct view *view, const struct brig_spec *spec, const char *workdir,
                    const char **start, struct brig_error *err)
{
    struct parts parts = {.count = 0};
    int ret = collect(view, &parts, spec, workdir, start, err);
    if (ret == 0)
        ret = add_toolchain(view, &parts, spec, err);
    if (ret == 0)
        ret = add_guards(view, &parts, &spec->guards, err);
    if (ret == 0)
        ret = mount_parts(view, &parts, spec->values[KEY_VIEW].number == VIEW_HOST, err);
    for (size_t i = 0; i < view->toolchain.links.count && ret == 0; i++)
        view_link(view, view->toolchain.links.items[i], view->toolchain.to.items[i]);
    parts_done(&parts);
    if (!*start)
        *start = view->home;
    return ret;
}
