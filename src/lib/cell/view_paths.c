/* SPDX-License-Identifier: MIT */
/* Answers questions about paths of the host. view_paths.h has the interface. */
#include "view_paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool view_is_within(const char *path, const char *base)
{
    size_t len = strlen(base);
    if (strcmp(base, "/") == 0)
        return true;
    return strncmp(path, base, len) == 0 && (path[len] == '/' || !path[len]);
}

bool view_is_kernels(const char *path)
{
    return view_is_within(path, "/proc") || view_is_within(path, "/sys") ||
           view_is_within(path, "/dev");
}

/* The home in a line of the user database, if the line is about this user. */
static char *home_in(char *line, uid_t uid)
{
    char *fields[7] = {NULL};
    for (size_t i = 0; i < 7; i++)
        fields[i] = strsep(&line, ":\n");
    return fields[6] && strtoul(fields[2], NULL, 10) == uid ? fields[5] : NULL;
}

/* Read the file itself instead of asking the C library, which may use the network. */
void view_find_homes(struct view_homes *homes, const char *named, bool ask)
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

/* Does it exist, and is it not the root? */
bool view_is_home(const char *path)
{
    return path[0] && path[1];
}

bool view_is_too_much_for(const char *dir, const struct view_homes *homes)
{
    static const char *const system[] = {"/usr",   "/bin",   "/sbin", "/lib",
                                         "/lib32", "/lib64", "/etc",  "/boot"};
    static const char *const roots[] = {"/", "/home", "/root", "/var", "/run", "/opt", "/srv"};
    for (size_t i = 0; i < sizeof system / sizeof *system; i++) {
        if (view_is_within(dir, system[i]))
            return true;
    }
    if (view_is_within(dir, "/home") && strlen(dir) > 6 && !strchr(dir + 6, '/'))
        return true;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        if (strcmp(dir, roots[i]) == 0)
            return true;
    }
    for (size_t i = 0; i < 2; i++) {
        if (view_is_home(homes->paths[i]) && view_is_within(homes->paths[i], dir))
            return true;
    }
    return false;
}

bool view_is_too_much(const char *dir)
{
    struct view_homes homes;
    view_find_homes(&homes, getenv("HOME"), false);
    return view_is_too_much_for(dir, &homes);
}
