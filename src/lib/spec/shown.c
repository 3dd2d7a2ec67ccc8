/* SPDX-License-Identifier: MIT */
/* Parses and joins the entries of ro, rw and tmpfs. */
#include "shown.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"

#define STAGE "view"
#define MARK  '\n' /* followed by the length of the path, a colon, the path, the second part */

char *shown_join(const char *path, const char *second)
{
    char *entry = NULL;
    if (asprintf(&entry, "%c%zu:%s%s", MARK, strlen(path), path, second ? second : "") < 0)
        return NULL;
    return entry;
}

bool shown_is_joined(const char *entry)
{
    return entry[0] == MARK;
}

void shown_done(struct shown *shown)
{
    free(shown->path);
    free(shown->second);
    *shown = (struct shown){0};
}

/* The first `len` bytes are the path. `second` is NULL if there is no second part. */
static int take(const char *path, size_t len, const char *second, struct shown *out,
                struct brig_error *err)
{
    *out = (struct shown){.path = strndup(path, len), .second = second ? strdup(second) : NULL};
    if (out->path && (out->second || !second))
        return 0;
    shown_done(out);
    return error_memory(err, STAGE);
}

static int take_joined(const char *entry, struct shown *out, struct brig_error *err)
{
    char *path = NULL;
    size_t len = strtoul(entry + 1, &path, 10);
    path++;
    return take(path, len, path[len] ? path + len : NULL, out, err);
}

static bool has_dots(const char *path)
{
    for (const char *at = path; *at; at += strspn(at, "/")) {
        size_t len = strcspn(at, "/");
        if (len == 2 && at[0] == '.' && at[1] == '.')
            return true;
        at += len;
    }
    return false;
}

static int refuse_dots(const char *path, const char *what, struct brig_error *err)
{
    char real[PATH_MAX];
    bool found = realpath(path, real);
    return error_usage(err, STAGE, "%s: %.200s: goes through \"..\"; use the real path%s%.200s",
                       what, path, found ? ": " : "", found ? real : "");
}

/* The end of the path: the last colon that a slash follows. NULL if the whole text is a path. */
static const char *find_place(const char *text)
{
    const char *found = NULL;
    for (const char *at = text; (at = strstr(at, ":/")); at++)
        found = at;
    return found;
}

/* Refuse the text if a file exists whose name ends with the colon. A guest may have created that
 * file, so the text cannot safely be taken as its path either. */
static int check_meaning(const char *text, const char *colon, const char *what,
                         struct brig_error *err)
{
    struct stat st;
    autofree char *other = strndup(text, (size_t)(colon - text) + 1);
    if (!other)
        return error_memory(err, STAGE);
    if (lstat(other, &st) < 0)
        return 0;
    return error_refused(
        err, STAGE,
        "%s: %.200s: can mean two things, because %.200s exists; give it in two parts:"
        " {\"path\": ..., \"dest\": ...} in a spec, (path, dest) in Python",
        what, text, other);
}

/* P:DEST with a relative DEST is taken as a path that does not exist. Explain the mistake if P
 * exists. */
static int check_relative(const char *text, const char *what, struct brig_error *err)
{
    struct stat st;
    const char *colon = strrchr(text, ':');
    if (!colon || lstat(text, &st) == 0)
        return 0;
    autofree char *path = strndup(text, (size_t)(colon - text));
    if (!path)
        return error_memory(err, STAGE);
    if (lstat(path, &st) < 0)
        return 0;
    return error_usage(err, STAGE, "%s: \"%.100s\" is not an absolute path without . and ..", what,
                       colon + 1);
}

int shown_read_place(const char *entry, const char *what, struct shown *out, struct brig_error *err)
{
    const char *colon = shown_is_joined(entry) ? NULL : find_place(entry);
    int ret = 0;
    if (shown_is_joined(entry))
        ret = take_joined(entry, out, err);
    else
        ret = take(entry, colon ? (size_t)(colon - entry) : strlen(entry), colon ? colon + 1 : NULL,
                   out, err);
    if (ret < 0)
        return ret;
    if (colon)
        ret = check_meaning(entry, colon, what, err);
    else if (!shown_is_joined(entry))
        ret = check_relative(entry, what, err);
    if (ret == 0 && has_dots(out->path))
        ret = refuse_dots(out->path, what, err);
    if (ret < 0)
        shown_done(out);
    return ret;
}

int shown_read_size(const char *entry, struct shown *out, struct brig_error *err)
{
    const char *colon = strrchr(entry, ':');
    if (shown_is_joined(entry))
        return take_joined(entry, out, err);
    return take(entry, colon ? (size_t)(colon - entry) : strlen(entry), colon ? colon + 1 : NULL,
                out, err);
}
