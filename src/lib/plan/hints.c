/* SPDX-License-Identifier: MIT */
/* Finds hints. hints.h has the interface. The arguments of a command, which may come from anybody,
 * choose the paths that are looked up on the host. So files are opened with O_PATH only, no symlink
 * is followed and no automount is triggered. */
#include "hints.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"

#define TEXT_MAX      480 /* of one hint */
#define ABOUT_FILES   3   /* the most hints about files */
#define WORDS_MAX     64  /* the most words that are looked up */
#define ARGUMENTS_MAX 256

void hints_add(struct strings *hints, const struct redact_rules *rules, const char *text)
{
    char safe[TEXT_MAX];
    autofree char *shown = rules ? redact_copy(rules, text) : strdup(text);
    if (!shown || hints->count >= BRIG_HINTS_MAX)
        return;
    text_escape(shown, strlen(shown), safe, sizeof safe);
    for (size_t i = 0; i < hints->count; i++) {
        if (strcmp(hints->items[i], safe) == 0)
            return;
    }
    (void)strings_add_text(hints, safe);
}

void hints_say(struct strings *hints, const char *format, ...)
{
    char text[TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hints_add(hints, NULL, text);
}

/* ---- paths in arguments -------------------------------------------------------------------- */

static bool is_link_or_trigger(int fd, bool *dir)
{
    struct stat st;
    struct statfs fs;
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return true;
    *dir = S_ISDIR(st.st_mode);
    return S_ISLNK(st.st_mode) || fs.f_type == AUTOFS_SUPER_MAGIC;
}

enum found {
    NOT_THERE,
    THERE,
    BEHIND_LINK, /* or an automount point: the search does not go behind it */
};

/* Look up a path of the host. Each component is opened on its own, since opening triggers an
 * automount for every component but the last. */
static enum found find_on_host(const char *path, bool *dir)
{
    char part[NAME_MAX + 1];
    autofd at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    *dir = true;
    while (at >= 0) {
        path += strspn(path, "/");
        size_t len = strcspn(path, "/");
        if (len == 0)
            return THERE;
        if (len > NAME_MAX)
            return NOT_THERE;
        memcpy(part, path, len);
        part[len] = 0;
        path += len;
        int next = openat(at, part, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        close(at);
        at = next;
        if (at >= 0 && is_link_or_trigger(at, dir))
            return BEHIND_LINK;
    }
    return NOT_THERE;
}

static bool is_on_host(const char *path, bool *dir)
{
    return find_on_host(path, dir) == THERE;
}

/* May the guest see something at this path? Paths that brig made count, and so do the directories
 * above them, and everything behind a symlink, which a guest may have made. */
static bool is_in_view(const struct view *view, const char *path)
{
    bool dir;
    char behind[PATH_MAX];
    size_t len = strlen(path + 1);
    if (view_resolve(view, path, behind, sizeof behind))
        return find_on_host(behind, &dir) != NOT_THERE;
    for (uint32_t i = 0; i < view->count; i++) {
        const char *made = view->ops[i].target;
        if (made && strlen(made) >= len && memcmp(made, path + 1, len) == 0 &&
            (made[len] == '/' || !made[len]))
            return true;
    }
    return false;
}

/* Make a path absolute and remove "." and "..", without file access. Returns false for a path that
 * can never be shown. */
static bool make_plain(const char *start, const char *word, size_t len, char out[PATH_MAX])
{
    char whole[PATH_MAX];
    size_t used = 0;
    int n = word[0] == '/' ? snprintf(whole, sizeof whole, "%.*s", (int)len, word)
                           : snprintf(whole, sizeof whole, "%s/%.*s", start, (int)len, word);
    if (n <= 0 || n >= PATH_MAX)
        return false;
    for (const char *at = whole; *at;) {
        at += strspn(at, "/");
        size_t part = strcspn(at, "/");
        bool up = part == 2 && at[0] == '.' && at[1] == '.';
        while (up && used > 0 && out[--used] != '/') {
        }
        if (part > 0 && !up && !(part == 1 && at[0] == '.')) {
            out[used++] = '/';
            memcpy(out + used, at, part);
            used += part;
        }
        at += part;
    }
    out[used] = 0;
    return used > 1 && !view_is_kernels(out);
}

static void say_hidden(struct strings *hints, const char *path)
{
    const char *home = getenv("HOME");
    if (view_is_too_much(path))
        hints_say(hints,
                  "%.300s exists, but the command cannot see it. Show the part of it that is "
                  "needed with --ro PATH.",
                  path);
    else if (home && home[0] == '/' && home[1] && view_is_within(path, home))
        hints_say(hints,
                  "%.200s exists, but the command cannot see it: its home is an empty one. --ro "
                  "%.200s shows it.",
                  path, path);
    else
        hints_say(hints, "%.200s exists, but the command cannot see it. --ro %.200s shows it.",
                  path, path);
}

/* Returns true if a hint was added. */
static bool look_at(struct strings *hints, const struct plan *plan, const char *word, size_t len)
{
    char path[PATH_MAX];
    bool dir;
    if (!make_plain(plan->cell.start, word, len, path) || is_in_view(&plan->cell.view, path))
        return false;
    if (is_on_host(path, &dir)) {
        say_hidden(hints, path);
        return true;
    }
    char *slash = strrchr(path, '/');
    if (slash == path)
        return false;
    *slash = 0; /* the command may have meant to create the file */
    if (is_in_view(&plan->cell.view, path) || !is_on_host(path, &dir) || !dir ||
        view_is_too_much(path))
        return false;
    hints_say(hints,
              "The directory %.200s exists, but the command cannot see it. --ro %.200s shows it, "
              "--rw lets it be written.",
              path, path);
    return true;
}

static bool is_path(const char *word)
{
    return word[0] == '/' || strncmp(word, "../", 3) == 0 || strcmp(word, "..") == 0;
}

/* Look at the argument as a whole, at the value after a "=", and at the words of a shell
 * command. */
static void look_at_argument(struct strings *hints, const struct plan *plan, const char *argument,
                             unsigned *words)
{
    static const char between[] = " \t\n'\"`;|&<>(),=:";
    size_t len = strlen(argument);
    if (len < PATH_MAX && is_path(argument) && *words < WORDS_MAX) {
        ++*words;
        if (look_at(hints, plan, argument, len))
            return;
    }
    for (const char *at = argument; *at && *words < WORDS_MAX && hints->count < ABOUT_FILES;) {
        size_t part = strcspn(at, between);
        if (part < len && part < PATH_MAX && is_path(at)) {
            ++*words;
            look_at(hints, plan, at, part);
        }
        at += part;
        at += strspn(at, between);
    }
}

static void look_at_arguments(struct strings *hints, const struct plan *plan)
{
    unsigned words = 0;
    for (size_t i = 3; i < plan->argv.count && i < ARGUMENTS_MAX && hints->count < ABOUT_FILES; i++)
        look_at_argument(hints, plan, plan->argv.items[i], &words);
}

/* ---- the hints of a failure ---------------------------------------------------------------- */

void hints_of_failure(struct strings *hints, const struct plan *plan, uint64_t no_routes,
                      uint64_t no_ports)
{
    const char *fix = plan->hides_host ? "" : " --network host gives it the host's.";
    if (!plan->hides_host && !plan->template && plan->cell.used)
        look_at_arguments(hints, plan);
    if (!plan->template && command_ends_with_return(plan->path, &plan->place))
        hints_say(hints,
                  "The first line of %.200s ends with a carriage return, which is a part of the "
                  "last word on it; remove it from all lines: sed -i 's/\\r$//' %.100s",
                  plan->path, plan->path);
    if (no_routes)
        hints_say(hints, "The command tried to reach other machines, and it has no network.%s",
                  fix);
    else if (no_ports)
        hints_say(hints,
                  "The command sent UDP packets to its own loopback device where nothing listens, "
                  "as a look-up of a host name does: it has no network and no name server.%s",
                  fix);
}
