/* What lies on the system's part of a view: the caller's folders and files, the work folder, and
 * the guest's own /tmp and home. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/units.h"
#include "view_build.h"

#define STAGE "view"

/* ---- paths --------------------------------------------------------------------------------- */

/* Absolute, not the root, and without "", "." or ".." as a part. */
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

/* May something be mounted there? Not over what is the cell's own. */
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

/* ---- what lies on the root, the shallow before the deep ------------------------------------- */

enum part_kind { PART_TMPFS, PART_FOLDER, PART_HOME, PART_RO, PART_RW };

struct part {
    enum part_kind kind;
    const char *target;
    struct source source;
    uint64_t bytes;
    unsigned mode, depth;
};

/* Mounts of the caller and of ours may be in one another, in any order. */
struct parts {
    struct part items[VIEW_MOUNTS_MAX];
    size_t count;
};

static void parts_done(struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        source_done(&parts->items[i].source);
}

/* Takes the source. */
static int add_to(struct parts *parts, struct part part, struct brig_error *err)
{
    if (parts->count == VIEW_MOUNTS_MAX) {
        source_done(&part.source);
        return error_refused(err, STAGE, "more than %d folders are to be shown", VIEW_MOUNTS_MAX);
    }
    for (const char *at = part.target; *at; at++)
        part.depth += *at == '/';
    /* Behind all that are not deeper: what is named later lies on what is named before. */
    size_t at = parts->count++;
    for (; at > 0 && parts->items[at - 1].depth > part.depth; at--)
        parts->items[at] = parts->items[at - 1];
    parts->items[at] = part;
    return 0;
}

/* P[:DEST]: DEST is absolute, and where P is without it. */
static int add_named(struct view *view, struct parts *parts, const char *text, bool writable,
                     struct brig_error *err)
{
    const char *what = writable ? "--rw" : "--ro";
    const char *colon = strrchr(text, ':');
    char target[PATH_MAX];
    struct part part = {.kind = writable ? PART_RW : PART_RO};
    autofree char *path = colon ? strndup(text, (size_t)(colon - text)) : strdup(text);
    if (!path)
        return error_memory(err, STAGE);
    if (colon && strlen(colon + 1) >= sizeof target)
        return error_usage(err, STAGE, "%s: the path in the cell is too long", what);
    int ret = source_open(&part.source, what, path, err);
    if (ret < 0)
        return ret;
    snprintf(target, sizeof target, "%s", colon ? colon + 1 : part.source.path);
    cut_slashes(target);
    ret = check_target(what, target, err);
    if (ret < 0) {
        source_done(&part.source);
        return ret;
    }
    part.target = view_text(view, target);
    return add_to(parts, part, err);
}

static int add_all_named(struct view *view, struct parts *parts, const struct strings *list,
                         bool writable, struct brig_error *err)
{
    int ret = 0;
    for (size_t i = 0; i < list->count && ret == 0; i++)
        ret = add_named(view, parts, list->items[i], writable, err);
    return ret;
}

/* P[:SIZE] */
static int add_named_tmpfs(struct view *view, struct parts *parts, const char *text,
                           struct brig_error *err)
{
    char target[PATH_MAX];
    const char *colon = strrchr(text, ':');
    struct part part = {.kind = PART_TMPFS, .bytes = view->scratch, .mode = 01777};
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    const char *why = colon ? units_parse_size(colon + 1, &part.bytes) : NULL;
    if (why)
        return error_usage(err, STAGE, "--tmpfs: \"%.80s\" %s", colon + 1, why);
    if (part.bytes == BRIG_UNLIMITED || part.bytes == 0)
        return error_usage(err, STAGE, "--tmpfs: \"%.80s\": a folder in memory needs a size",
                           colon ? colon + 1 : "");
    if (len >= sizeof target)
        return error_usage(err, STAGE, "--tmpfs: the path is too long");
    snprintf(target, sizeof target, "%.*s", (int)len, text);
    cut_slashes(target);
    int ret = check_target("--tmpfs", target, err);
    if (ret < 0)
        return ret;
    part.target = view_text(view, target);
    return add_to(parts, part, err);
}

static int add_all_tmpfs(struct view *view, struct parts *parts, const struct strings *list,
                         struct brig_error *err)
{
    int ret = 0;
    for (size_t i = 0; i < list->count && ret == 0; i++)
        ret = add_named_tmpfs(view, parts, list->items[i], err);
    return ret;
}

/* Our own home has no place in a folder that the caller shows instead of ours: /tmp is it, then. */
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
    if (!host && is_covered(parts, VIEW_HOME))
        view->home = "/tmp";
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

/* ---- home and work folder ------------------------------------------------------------------ */

/* The caller's home folders, free of links: the one it names and the one of the user database. */
struct homes {
    char paths[2][PATH_MAX]; /* empty: there is none */
};

/* The home of a line of the user database, if it is about this user. */
static char *home_in(char *line, uid_t uid)
{
    char *fields[7] = {NULL};
    for (size_t i = 0; i < 7; i++)
        fields[i] = strsep(&line, ":\n");
    return fields[6] && strtoul(fields[2], NULL, 10) == uid ? fields[5] : NULL;
}

/* The file itself, not all of what the C library could ask: that may be a network. */
static void find_homes(struct homes *homes, const char *named, bool ask)
{
    char line[4096];
    const char *home = NULL;
    if (!named || !*named || !realpath(named, homes->paths[0]))
        homes->paths[0][0] = 0;
    homes->paths[1][0] = 0;
    FILE *users = ask ? fopen("/etc/passwd", "re") : NULL;
    while (users && !home && fgets(line, sizeof line, users))
        home = home_in(line, getuid());
    if (home && (!realpath(home, homes->paths[1]) || strcmp(homes->paths[0], homes->paths[1]) == 0))
        homes->paths[1][0] = 0;
    if (users)
        fclose(users);
}

/* Is it there, and more than the root? */
static bool is_home(const char *path)
{
    return path[0] && path[1];
}

/* Folders that are too much to be written by a guest only because brig was started in them: the
 * root, all of a home, what holds homes, and the system's own. */
static bool is_too_much(const char *folder, const struct homes *homes)
{
    static const char *const system[] = {"/usr",   "/bin",   "/sbin", "/lib",
                                         "/lib32", "/lib64", "/etc",  "/boot"};
    static const char *const roots[] = {"/", "/home", "/root", "/var", "/run", "/opt", "/srv"};
    for (size_t i = 0; i < sizeof system / sizeof *system; i++) {
        if (view_is_within(folder, system[i]))
            return true;
    }
    if (view_is_within(folder, "/home") && strlen(folder) > 6 && !strchr(folder + 6, '/'))
        return true;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        if (strcmp(folder, roots[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < 2; i++) {
        if (is_home(homes->paths[i]) && view_is_within(homes->paths[i], folder))
            return true;
    }
    return false;
}

bool view_is_too_much(const char *folder)
{
    struct homes homes;
    find_homes(&homes, getenv("HOME"), false);
    return is_too_much(folder, &homes);
}

static int add_workdir(struct view *view, struct parts *parts, const struct brig_spec *spec,
                       const char *workdir, const struct homes *homes, const char **start,
                       struct brig_error *err)
{
    struct part part = {.kind = PART_FOLDER};
    bool asked = spec_asked(spec, KEY_WORKDIR);
    *start = NULL;
    if (!asked && is_too_much(workdir, homes))
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

static int add_private(struct view *view, struct parts *parts, const struct homes *homes, bool host,
                       struct brig_error *err)
{
    struct part tmp = {.kind = PART_TMPFS, .target = "/tmp", .bytes = view->scratch, .mode = 01777};
    struct part home = {
        .kind = PART_HOME, .target = VIEW_HOME, .bytes = view->scratch, .mode = 0700};
    int ret = add_to(parts, tmp, err);
    if (!host)
        return ret < 0 ? ret : add_to(parts, home, err);
    for (size_t i = 0; i < 2 && ret == 0; i++) {
        home.target = view_text(view, homes->paths[i]);
        if (is_home(homes->paths[i]))
            ret = add_to(parts, home, err);
    }
    return ret;
}

static const char *choose_home(struct view *view, const struct homes *homes, bool host)
{
    for (size_t i = 0; i < 2 && host; i++) {
        if (is_home(homes->paths[i]))
            return view_text(view, homes->paths[i]);
    }
    return host ? "/tmp" : VIEW_HOME;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int collect(struct view *view, struct parts *parts, const struct brig_spec *spec,
                   const char *workdir, const char **start, struct brig_error *err)
{
    struct homes homes;
    bool host = spec->values[KEY_VIEW].number == VIEW_HOST;
    find_homes(&homes, spec->home ? spec->home : getenv("HOME"), host);
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

int view_add_caller(struct view *view, const struct brig_spec *spec, const char *workdir,
                    const char **start, struct brig_error *err)
{
    struct parts parts = {.count = 0};
    int ret = collect(view, &parts, spec, workdir, start, err);
    if (ret == 0)
        ret = mount_parts(view, &parts, spec->values[KEY_VIEW].number == VIEW_HOST, err);
    parts_done(&parts);
    if (!*start)
        *start = view->home;
    return ret;
}
