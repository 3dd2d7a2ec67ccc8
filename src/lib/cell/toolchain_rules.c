/* SPDX-License-Identifier: MIT */
/* The table of tool chains, one row per kind: how its prefix is found, and which parts of it are
 * shown. Called by toolchain.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "toolchain.h"
#include "view_paths.h"

/* Neither etc nor files of the prefix itself: npm and pip keep passwords there. */
static const char *const prefix_parts[] = {"bin",   "lib", "lib64",      "libexec",    "include",
                                           "share", "ssl", "conda-meta", "pyvenv.cfg", NULL};
static const char *const go_parts[] = {"bin",  "lib",     "pkg",    "src", "api",
                                       "misc", "VERSION", "go.env", NULL};
static const char *const bin_alone[] = {"bin", NULL};
static const char *const all_of_it[] = {"", NULL};
static const char *const user_parts[] = {"bin", "lib", NULL};

static bool has(const char *prefix, const char *name, mode_t type)
{
    char path[PATH_MAX];
    struct stat st;
    return snprintf(path, sizeof path, "%s/%s", prefix, name) < PATH_MAX && lstat(path, &st) == 0 &&
           (st.st_mode & S_IFMT) == type;
}

/* Find BASE/MIDDLE/NAME for a file below it. */
static bool below(const char *file, const char *base, const char *middle, char prefix[PATH_MAX])
{
    char above[PATH_MAX];
    if (!base[0] || snprintf(above, sizeof above, "%s/%s", base, middle) >= PATH_MAX ||
        !view_is_within(file, above) || !file[strlen(above)])
        return false;
    size_t len = strlen(above) + 1;
    len += strcspn(file + len, "/");
    if (!file[len])
        return false;
    memcpy(prefix, file, len);
    prefix[len] = 0;
    return true;
}

/* Find X for X/bin/NAME. */
static bool of_bin(const char *file, char prefix[PATH_MAX])
{
    const char *name = strrchr(file, '/');
    size_t len = (size_t)(name - file);
    if (len < 5 || memcmp(name - 4, "/bin", 4) != 0)
        return false;
    memcpy(prefix, file, len - 4);
    prefix[len - 4] = 0;
    return true;
}

/* versions/V, or versions/V/envs/E of pyenv-virtualenv. */
static bool find_pyenv(const struct toolchain_places *places, const char *file,
                       char prefix[PATH_MAX])
{
    char version[PATH_MAX];
    if (!below(file, places->pyenv, "versions", version))
        return false;
    if (!below(file, version, "envs", prefix))
        memcpy(prefix, version, sizeof version);
    return true;
}

static bool find_uv(const struct toolchain_places *places, const char *file, char prefix[PATH_MAX])
{
    return below(file, places->home, ".local/share/uv/python", prefix) ||
           below(file, places->home, ".local/share/uv/tools", prefix);
}

static bool find_pipx(const struct toolchain_places *places, const char *file,
                      char prefix[PATH_MAX])
{
    return below(file, places->home, ".local/share/pipx/venvs", prefix) ||
           below(file, places->home, ".local/pipx/venvs", prefix);
}

static bool find_nvm(const struct toolchain_places *places, const char *file, char prefix[PATH_MAX])
{
    return below(file, places->nvm, "versions/node", prefix);
}

static bool find_rust(const struct toolchain_places *places, const char *file,
                      char prefix[PATH_MAX])
{
    return below(file, places->rustup, "toolchains", prefix);
}

static bool is_bin_of(const char *base, const char *file, char prefix[PATH_MAX])
{
    return base[0] && of_bin(file, prefix) && strcmp(prefix, base) == 0;
}

static bool find_cargo(const struct toolchain_places *places, const char *file,
                       char prefix[PATH_MAX])
{
    return is_bin_of(places->cargo, file, prefix);
}

static bool find_go_path(const struct toolchain_places *places, const char *file,
                         char prefix[PATH_MAX])
{
    char base[PATH_MAX];
    snprintf(base, sizeof base, "%.4000s/go", places->home);
    return places->home[0] && is_bin_of(base, file, prefix) && !has(base, "VERSION", S_IFREG);
}

static bool find_local(const struct toolchain_places *places, const char *file,
                       char prefix[PATH_MAX])
{
    char base[PATH_MAX];
    snprintf(base, sizeof base, "%.4000s/.local", places->home);
    return places->home[0] && is_bin_of(base, file, prefix);
}

/* The directories in which conda's own installers put it, and the environments below them. */
static bool find_conda_place(const struct toolchain_places *places, const char *file,
                             char prefix[PATH_MAX])
{
    static const char *const names[] = {"miniconda3", "anaconda3",  "miniforge3",
                                        "mambaforge", "micromamba", "conda"};
    for (size_t i = 0; i < 2 * (sizeof names / sizeof *names); i++) {
        char base[PATH_MAX];
        const char *above = i % 2 ? "/opt" : places->home;
        snprintf(base, sizeof base, "%.4000s/%s", above, names[i / 2]);
        if (above[0] && has(base, "conda-meta", S_IFDIR) &&
            (below(file, base, "envs", prefix) || is_bin_of(base, file, prefix)))
            return has(prefix, "conda-meta", S_IFDIR);
    }
    return false;
}

static bool find_conda(const struct toolchain_places *places, const char *file,
                       char prefix[PATH_MAX])
{
    (void)places;
    return of_bin(file, prefix) && has(prefix, "conda-meta", S_IFDIR);
}

static bool find_venv(const struct toolchain_places *places, const char *file,
                      char prefix[PATH_MAX])
{
    (void)places;
    return of_bin(file, prefix) && has(prefix, "pyvenv.cfg", S_IFREG);
}

static bool find_go(const struct toolchain_places *places, const char *file, char prefix[PATH_MAX])
{
    (void)places;
    return of_bin(file, prefix) && has(prefix, "VERSION", S_IFREG) &&
           has(prefix, "src/runtime", S_IFDIR);
}

const struct toolchain_rule toolchain_rules[] = {
    {"pyenv", false, find_pyenv, prefix_parts},       {"uv", false, find_uv, prefix_parts},
    {"pipx", false, find_pipx, prefix_parts},         {"nvm", false, find_nvm, prefix_parts},
    {"rustup", false, find_rust, all_of_it},          {"cargo", false, find_cargo, bin_alone},
    {"conda", false, find_conda_place, prefix_parts}, {"venv", true, find_venv, prefix_parts},
    {"conda", true, find_conda, prefix_parts},        {"go", true, find_go, go_parts},
    {"go", false, find_go_path, bin_alone},           {"~/.local", false, find_local, user_parts},
};
const size_t toolchain_rule_count = sizeof toolchain_rules / sizeof *toolchain_rules;

/* ---- places -------------------------------------------------------------------------------- */

/* The directory that a variable names, or `name` in the home. */
static void find_place(char out[PATH_MAX], const char *variable, const char *home, const char *name)
{
    char path[PATH_MAX];
    const char *named = getenv(variable);
    int n = named && named[0] == '/' ? snprintf(path, sizeof path, "%s", named)
                                     : snprintf(path, sizeof path, "%s/%s", home, name);
    if (n >= PATH_MAX || path[0] != '/' || !realpath(path, out))
        out[0] = 0;
}

void toolchain_places_find(struct toolchain_places *places, const char *home)
{
    if (!home || home[0] != '/' || !realpath(home, places->home) || !places->home[1])
        places->home[0] = 0;
    find_place(places->pyenv, "PYENV_ROOT", places->home, ".pyenv");
    find_place(places->nvm, "NVM_DIR", places->home, ".nvm");
    find_place(places->cargo, "CARGO_HOME", places->home, ".cargo");
    find_place(places->rustup, "RUSTUP_HOME", places->home, ".rustup");
}

bool toolchain_is_safe(const struct toolchain_places *places, const char *prefix)
{
    char part[PATH_MAX];
    struct stat st;
    if (prefix[0] != '/' || !prefix[1] || view_is_too_much(prefix) ||
        (places->home[0] && view_is_within(places->home, prefix)))
        return false;
    for (const char *at = prefix; at; at = strchr(at + 1, '/')) {
        const char *end = strchr(at + 1, '/');
        snprintf(part, sizeof part, "%.*s", (int)(end ? end - prefix : (long)strlen(prefix)),
                 prefix);
        if (lstat(part, &st) < 0 || S_ISLNK(st.st_mode))
            return false;
        if (st.st_uid != 0 && st.st_uid != getuid() && st.st_uid != geteuid())
            return false;
        if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
            return false;
    }
    return true;
}

bool toolchain_is_system(const char *path)
{
    static const char *const system[] = {"/usr",   "/bin",   "/sbin",  "/lib",
                                         "/lib32", "/lib64", "/libx32"};
    for (size_t i = 0; i < sizeof system / sizeof *system; i++) {
        if (view_is_within(path, system[i]))
            return true;
    }
    return false;
}
