/* SPDX-License-Identifier: MIT */
/* Follows a path component by component. */
#include "way.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* the kernel's limit */

struct walk {
    struct strings *out;
    struct way *way;      /* way->real: the path resolved so far; "" is the root */
    char start[PATH_MAX]; /* the starting directory, which does not depend on the path */
    char rest[PATH_MAX];
    unsigned links;
};

static int add(struct strings *out, const char *path, bool stays)
{
    char text[PATH_MAX + 1];
    snprintf(text, sizeof text, "%s%s", *path ? path : "/", stays ? "/" : "");
    for (size_t i = 0; i < out->count; i++) {
        if (strcmp(out->items[i], text) == 0)
            return 0;
    }
    return strings_add_text(out, text);
}

static void leave(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
}

/* Go to the parent directory. */
static int go_up(struct walk *walk)
{
    char *real = walk->way->real;
    int ret = *real && strcmp(real, walk->start) != 0 ? add(walk->out, real, true) : 0;
    leave(real);
    return ret;
}

/* Replace the symlink by its contents. */
static int go_on_behind(struct walk *walk)
{
    char text[PATH_MAX], joined[PATH_MAX], *real = walk->way->real;
    ssize_t len = readlink(real, text, sizeof text - 1);
    if (len <= 0)
        return len < 0 ? -errno : -ENOENT;
    text[len] = 0;
    if (++walk->links > LINKS_MAX)
        return -ELOOP;
    if (snprintf(joined, sizeof joined, "%s/%s", text, walk->rest) >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(walk->rest, joined, strlen(joined) + 1);
    int ret = add(walk->out, real, false);
    if (text[0] == '/')
        real[0] = 0;
    else
        leave(real);
    return ret;
}

static int go_down(struct walk *walk, const char *name)
{
    struct stat st;
    char *real = walk->way->real;
    size_t used = strlen(real);
    if (used + 1 + strlen(name) >= PATH_MAX)
        return -ENAMETOOLONG;
    snprintf(real + used, PATH_MAX - used, "/%s", name);
    if (lstat(real, &st) == 0)
        return S_ISLNK(st.st_mode) ? go_on_behind(walk) : 0;
    walk->way->missing = errno;
    return errno == ENAMETOOLONG ? -ENAMETOOLONG : 0;
}

/* Take the next component of the rest. Returns false if there is none. */
static bool take_part(struct walk *walk, char part[PATH_MAX])
{
    const char *at = walk->rest + strspn(walk->rest, "/");
    size_t len = strcspn(at, "/");
    memcpy(part, at, len);
    part[len] = 0;
    memmove(walk->rest, at + len, strlen(at + len) + 1);
    return len > 0;
}

static int follow(struct walk *walk)
{
    char part[PATH_MAX];
    int ret = 0;
    while (ret == 0 && !walk->way->missing && take_part(walk, part)) {
        if (strcmp(part, "..") == 0)
            ret = go_up(walk);
        else if (strcmp(part, ".") != 0)
            ret = go_down(walk, part);
    }
    return ret;
}

int way_find(struct strings *out, const char *from, const char *path, struct way *way)
{
    struct walk walk = {.out = out, .way = way};
    way->real[0] = 0;
    way->missing = 0;
    if (!*path)
        return -ENOENT;
    if (strlen(path) >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(walk.rest, path, strlen(path) + 1);
    if (path[0] != '/' && !(from ? realpath(from, way->real) : realpath(".", way->real)))
        return -errno;
    if (strcmp(way->real, "/") == 0)
        way->real[0] = 0;
    memcpy(walk.start, way->real, strlen(way->real) + 1);
    int ret = follow(&walk);
    if (ret < 0)
        return ret;
    if (!way->real[0])
        memcpy(way->real, "/", 2);
    return add(out, way->real, false);
}
