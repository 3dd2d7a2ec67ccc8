/* SPDX-License-Identifier: MIT */
/* Follows the command of a spec to its tool chain. toolchain.h has the interface. */
#include "toolchain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "lib/spec/environment.h"
#include "view_paths.h"

#define HOPS_MAX  16 /* symlinks and interpreters of one command */
#define LINKS_MAX 16
#define FILE_MAX  TOOLCHAIN_LINE /* bytes of .python-version and of a #! line */
#define WORDS_MAX (FILE_MAX / 2)

struct search {
    struct toolchain *chain;
    struct toolchain_places places; /* set by places_of() */
    const char *home;
    bool has_places;
    const char *path;    /* PATH of the guest */
    const char *workdir; /* relative paths start here */
    unsigned hops;
    bool no_memory;
};

static void add(struct search *search, struct strings *list, const char *text)
{
    if (strings_add_text(list, text) < 0)
        search->no_memory = true;
}

/* Looked up only if the command is not one of the system. */
static const struct toolchain_places *places_of(struct search *search)
{
    if (!search->has_places)
        toolchain_places_find(&search->places, search->home);
    search->has_places = true;
    return &search->places;
}

static bool is_executable(const char *path)
{
    struct stat st;
    return access(path, X_OK) == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Read up to 255 bytes of a regular file. `plainly`: no component of its path may be a symlink. */
static bool read_start(const char *path, char out[FILE_MAX], bool plainly)
{
    struct stat st;
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    autofd fd = plainly ? fd_open_plain(path, flags, 0) : open(path, flags);
    ssize_t n =
        fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, out, FILE_MAX - 1) : -1;
    out[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* ---- the parts that are shown -------------------------------------------------------------- */

static bool is_shown(const struct toolchain *chain, const char *path)
{
    for (size_t i = 0; i < chain->shown.count; i++) {
        if (view_is_within(path, chain->shown.items[i]))
            return true;
    }
    return false;
}

/* Record a symlink on the path, which is made in the cell as well. */
static void note_link(struct search *search, const char *path, const char *text)
{
    struct toolchain *chain = search->chain;
    for (size_t i = 0; i < chain->links.count; i++) {
        if (strcmp(chain->links.items[i], path) == 0)
            return;
    }
    if (chain->links.count == LINKS_MAX || is_shown(chain, path) || view_is_kernels(path))
        return;
    add(search, &chain->links, path);
    add(search, &chain->to, text);
}

static void show_part(struct search *search, const char *prefix, const char *name)
{
    char path[PATH_MAX], text[PATH_MAX];
    struct stat st;
    if (snprintf(path, sizeof path, "%s%s%s", prefix, *name ? "/" : "", name) >= PATH_MAX ||
        lstat(path, &st) < 0 || is_shown(search->chain, path))
        return;
    if (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)) {
        add(search, &search->chain->shown, path);
    } else if (S_ISLNK(st.st_mode)) { /* such as lib64, a symlink to lib */
        ssize_t len = readlink(path, text, sizeof text - 1);
        text[len > 0 ? len : 0] = 0;
        if (len > 0 && !strchr(text, '/'))
            note_link(search, path, text);
    }
}

static void put_variable(struct search *search, const char *name, const char *value)
{
    if (strings_put(&search->chain->environment, name, strlen(name), value) < 0)
        search->no_memory = true;
}

/* Add the files outside of the prefix that the command needs, and the variables that it finds them
 * by. */
static void add_surroundings(struct search *search, const struct toolchain_rule *rule,
                             const char *prefix)
{
    const struct toolchain_places *places = places_of(search);
    if (strcmp(rule->name, "cargo") == 0 && places->rustup[0] &&
        toolchain_is_safe(places, places->rustup)) {
        show_part(search, places->rustup, "toolchains");
        show_part(search, places->rustup, "settings.toml");
        show_part(search, places->rustup, "update-hashes"); /* or rustup tries to make it */
        put_variable(search, "RUSTUP_HOME", places->rustup);
    }
    if (strcmp(rule->name, "~/.local") == 0)
        put_variable(search, "PYTHONUSERBASE", prefix);
}

/* Show the prefix of a file by the first rule that matches. `named`: the caller named the file, and
 * no symlink is on its path. */
static bool show_prefix_of(struct search *search, const char *file, bool named)
{
    char prefix[PATH_MAX];
    for (size_t i = 0; i < toolchain_rule_count; i++) {
        const struct toolchain_rule *rule = &toolchain_rules[i];
        if ((rule->marked && !named) || !rule->find(places_of(search), file, prefix))
            continue;
        if (!toolchain_is_safe(places_of(search), prefix))
            return false;
        for (const char *const *name = rule->shown; *name; name++)
            show_part(search, prefix, *name);
        add_surroundings(search, rule, prefix);
        if (!search->chain->name) {
            search->chain->name = rule->name;
            snprintf(search->chain->prefix, sizeof search->chain->prefix, "%.255s", prefix);
        }
        return true;
    }
    return false;
}

/* ---- following the command ----------------------------------------------------------------- */

/* Record the first symlink in the path of a directory, and replace it in the path by its target. */
static bool note_first_link(struct search *search, char dir[PATH_MAX])
{
    char part[PATH_MAX], text[PATH_MAX], next[PATH_MAX];
    for (const char *at = dir; at; at = strchr(at + 1, '/')) {
        const char *end = strchr(at + 1, '/');
        int len = end ? (int)(end - dir) : (int)strlen(dir);
        snprintf(part, sizeof part, "%.*s", len, dir);
        ssize_t n = readlink(part, text, sizeof text - 1);
        if (n <= 0)
            continue;
        text[n] = 0;
        note_link(search, part, text);
        int above = text[0] == '/' ? 0 : (int)(strrchr(part, '/') - part) + 1;
        if (snprintf(next, sizeof next, "%.*s%s%s", above, part, text, dir + len) >= PATH_MAX)
            return false;
        memcpy(dir, next, strlen(next) + 1);
        return true;
    }
    return false;
}

/* Record the symlinks on the path to the directory of a file. */
static void note_links(struct search *search, const char *path)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
    for (int round = 0; round < LINKS_MAX && note_first_link(search, dir); round++) {
    }
}

/* Replace the directory of a file by its real path. Returns false if there is no such directory. */
static bool find_place_of(const char *path, char out[PATH_MAX], bool *linked)
{
    char dir[PATH_MAX], real[PATH_MAX];
    const char *name = strrchr(path, '/');
    if (!name || snprintf(dir, sizeof dir, "%.*s", (int)(name - path), path) >= PATH_MAX ||
        !realpath(*dir ? dir : "/", real))
        return false;
    *linked = strcmp(real, dir) != 0;
    return snprintf(out, PATH_MAX, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name + 1) <
           PATH_MAX;
}

static void follow(struct search *search, const char *path, bool named);
static void find_named(struct search *search, const char *name, bool named);

const char *toolchain_env_program(char *const *words)
{
    for (; *words; words++) {
        const char *word = *words;
        bool split = word[0] == '-' && word[1] == 'S' && word[2];
        bool valued = strcmp(word, "-u") == 0 || strcmp(word, "-C") == 0 ||
                      strcmp(word, "--unset") == 0 || strcmp(word, "--chdir") == 0;
        word += split ? 2 : 0;
        if (valued && words[1])
            words++;
        else if (word[0] != '-' && !strchr(word, '='))
            return word;
    }
    return NULL;
}

bool toolchain_interpreter(const char *file, char line[TOOLCHAIN_LINE], const char **program,
                           const char **searched)
{
    char *words[WORDS_MAX + 1], *word;
    size_t count = 0;
    if (!read_start(file, line, false) || line[0] != '#' || line[1] != '!')
        return false;
    line[strcspn(line, "\r\n")] = 0;
    for (char *rest = line + 2; (word = strsep(&rest, " \t")) && count < WORDS_MAX;) {
        if (*word)
            words[count++] = word;
    }
    words[count] = NULL;
    if (count == 0)
        return false;
    const char *slash = strrchr(words[0], '/');
    *program = words[0];
    *searched =
        strcmp(slash ? slash + 1 : words[0], "env") == 0 ? toolchain_env_program(words + 1) : NULL;
    return true;
}

/* The interpreter of a script is a command as well; env looks it up in PATH. */
static void follow_interpreter(struct search *search, const char *file)
{
    char line[FILE_MAX];
    const char *program, *searched;
    if (!toolchain_interpreter(file, line, &program, &searched) || program[0] != '/')
        return;
    if (strcmp(strrchr(program, '/'), "/env") != 0)
        follow(search, program, false);
    else if (searched && !strchr(searched, '/'))
        find_named(search, searched, false);
}

/* Follow the Python that a venv was made with, if the venv has a copy of the program instead of a
 * symlink. */
static void follow_base(struct search *search, const char *file)
{
    char config[PATH_MAX], text[FILE_MAX], base[PATH_MAX];
    const char *bin = strstr(file, "/bin/");
    for (const char *next = bin; next; next = strstr(next + 1, "/bin/"))
        bin = next;
    if (!bin ||
        snprintf(config, sizeof config, "%.*s/pyvenv.cfg", (int)(bin - file), file) >= PATH_MAX ||
        !read_start(config, text, true))
        return;
    const char *home = strncmp(text, "home = ", 7) == 0 ? text : strstr(text, "\nhome = ");
    home = home ? strchr(home, '=') + 2 : "";
    if (home[0] == '/' &&
        snprintf(base, sizeof base, "%.*s/python3", (int)strcspn(home, "\r\n"), home) < PATH_MAX)
        follow(search, base, false);
}

static void follow(struct search *search, const char *path, bool named)
{
    char file[PATH_MAX], text[PATH_MAX], next[PATH_MAX];
    bool linked;
    if (search->hops++ >= HOPS_MAX || !find_place_of(path, file, &linked))
        return;
    if (toolchain_is_system(file))
        return;
    if (!is_shown(search->chain, file))
        (void)show_prefix_of(search, file, named && !linked);
    /* A guest may have written a symlink that leads anywhere, so record only those that lead to
     * shown files. */
    if (linked && is_shown(search->chain, file))
        note_links(search, path);
    ssize_t len = readlink(file, text, sizeof text - 1);
    if (len <= 0) {
        follow_base(search, file);
        follow_interpreter(search, file);
        return;
    }
    text[len] = 0;
    int n = text[0] == '/' ? snprintf(next, sizeof next, "%s", text)
                           : snprintf(next, sizeof next, "%.*s/%s",
                                      (int)(strrchr(file, '/') - file), file, text);
    if (n < PATH_MAX)
        follow(search, next, false);
}

/* ---- pyenv's shims ------------------------------------------------------------------------- */

static bool is_version(const char *name)
{
    return *name && strlen(name) < 64 && !strchr(name, '/') && name[0] != '.';
}

/* Find the bin directory of a version, or of the newest one that begins with it: 3.11 is 3.11.7. */
static bool find_version(const struct search *search, const char *version, const char *name,
                         char bin[PATH_MAX])
{
    char file[PATH_MAX], best[64] = "";
    const char *root = search->places.pyenv;
    snprintf(bin, PATH_MAX, "%.3800s/versions/%s/bin", root, version);
    snprintf(file, sizeof file, "%.3900s/%.100s", bin, name);
    if (is_executable(file))
        return true;
    snprintf(file, sizeof file, "%.3800s/versions", root);
    DIR *dir = opendir(file);
    size_t len = strlen(version);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (is_version(entry->d_name) && strncmp(entry->d_name, version, len) == 0 &&
            entry->d_name[len] == '.' && strverscmp(entry->d_name, best) > 0)
            snprintf(best, sizeof best, "%s", entry->d_name);
    }
    if (dir)
        closedir(dir);
    snprintf(bin, PATH_MAX, "%.3800s/versions/%s/bin", root, best);
    snprintf(file, sizeof file, "%.3900s/%.100s", bin, name);
    return *best && is_executable(file);
}

/* Choose versions as pyenv does: the variable, .python-version from the work directory upwards, and
 * the global file. */
static void read_versions(const struct search *search, char out[FILE_MAX])
{
    char dir[PATH_MAX], file[PATH_MAX];
    const char *named = getenv("PYENV_VERSION");
    if (named && *named) {
        snprintf(out, FILE_MAX, "%s", named);
        return;
    }
    snprintf(dir, sizeof dir, "%s", search->workdir);
    while (dir[0] == '/') {
        char *slash = strrchr(dir, '/');
        if (snprintf(file, sizeof file, "%s/.python-version", slash[1] ? dir : "") < PATH_MAX &&
            read_start(file, out, true))
            return;
        if (!slash[1])
            break;
        slash[slash == dir ? 1 : 0] = 0;
    }
    snprintf(file, sizeof file, "%.4000s/version", search->places.pyenv);
    if (!read_start(file, out, true))
        out[0] = 0;
}

/* Returns true if the name is found: *bin is the directory of a version, or empty for the rest of
 * PATH. */
static bool find_behind_shim(const struct search *search, const char *name, char bin[PATH_MAX])
{
    char versions[FILE_MAX];
    read_versions(search, versions);
    char *rest = versions, *version;
    bin[0] = 0;
    while ((version = strsep(&rest, ": \t\r\n"))) {
        if (strcmp(version, "system") == 0)
            return true;
        if (is_version(version) && find_version(search, version, name, bin))
            return true;
        bin[0] = 0;
    }
    return false;
}

/* ---- PATH ---------------------------------------------------------------------------------- */

/* Set PATH with another directory in place of this element, or without it. */
static void replace_element(struct search *search, size_t at, size_t len, const char *bin)
{
    char *path = NULL;
    if (search->chain->path)
        return;
    len += !*bin && search->path[at + len]; /* an empty element would be the current directory */
    if (asprintf(&path, "%.*s%s%s", (int)at, search->path, bin, search->path + at + len) < 0)
        search->no_memory = true;
    else
        search->chain->path = path;
}

/* Returns true if this element of PATH has the command. */
static bool look_in(struct search *search, size_t at, size_t len, const char *name, bool named)
{
    char file[PATH_MAX], bin[PATH_MAX], shims[PATH_MAX];
    const char *element = search->path + at;
    bool absolute = element[0] == '/';
    int n = absolute ? snprintf(file, sizeof file, "%.*s/%s", (int)len, element, name)
                     : snprintf(file, sizeof file, "%s/%.*s/%s", search->workdir, (int)len, element,
                                name);
    if (n >= PATH_MAX || access(file, X_OK) < 0)
        return false;
    if (toolchain_is_system(file))
        return true;
    snprintf(shims, sizeof shims, "%.4000s/shims", places_of(search)->pyenv);
    if (search->places.pyenv[0] && strlen(shims) == len && memcmp(shims, element, len) == 0) {
        if (!find_behind_shim(search, name, bin))
            return false;
        replace_element(search, at, len, bin);
        if (!bin[0])
            return false;
        snprintf(file, sizeof file, "%.3900s/%.100s", bin, name);
    }
    follow(search, file, named && absolute);
    return true;
}

static void find_named(struct search *search, const char *name, bool named)
{
    const char *path = search->path;
    if (strlen(name) > 100)
        return;
    for (size_t at = 0;;) {
        size_t len = strcspn(path + at, ":");
        if (look_in(search, at, len, name, named) || !path[at + len])
            return;
        at += len + 1;
    }
}

char *toolchain_path(const struct brig_spec *spec)
{
    const struct strings *named = &spec->values[KEY_ENV].list;
    struct strings all = {0};
    const char *value = getenv("PATH");
    if (spec->values[KEY_ENV_FILE].list.count) {
        int ret = environment_build(&all, spec, environ, NULL, NULL, NULL);
        if (ret == -ENOMEM) {
            strings_done(&all);
            return NULL;
        }
        /* environment_build() is called again later, and then reports any other fault. */
        value = ret < 0 ? NULL : environment_get(all.items, "PATH");
    }
    for (size_t i = 0; i < named->count; i++) {
        if (strncmp(named->items[i], "PATH=", 5) == 0)
            value = named->items[i] + 5;
    }
    char *copy = strdup(value ? value : "");
    strings_done(&all);
    return copy;
}

static void start(struct search *search, const struct brig_spec *spec)
{
    char file[PATH_MAX];
    const char *command = spec->command.items[0];
    search->home = spec->home ? spec->home : getenv("HOME");
    if (!strchr(command, '/'))
        find_named(search, command, true);
    else if (command[0] == '/')
        follow(search, command, true);
    else if (snprintf(file, sizeof file, "%s/%s", search->workdir, command) < PATH_MAX)
        follow(search, file, true);
}

int toolchain_find(struct toolchain *chain, const struct brig_spec *spec)
{
    *chain = (struct toolchain){0};
    if (spec->command.count == 0 || spec->template)
        return 0;
    const char *command = spec->command.items[0];
    if (toolchain_is_system(command) && !strstr(command, "/.."))
        return 0;
    char current[PATH_MAX];
    const char *workdir = spec->values[KEY_WORKDIR].text;
    if (!workdir || workdir[0] != '/') {
        if (!getcwd(current, sizeof current))
            current[0] = 0;
        size_t len = strlen(current);
        if (workdir)
            snprintf(current + len, sizeof current - len, "/%s", workdir);
        workdir = current;
    }
    autofree char *path = toolchain_path(spec);
    if (!path)
        return -ENOMEM;
    struct search search = {.chain = chain, .path = path, .workdir = workdir};
    start(&search, spec);
    if (!search.no_memory)
        return 0;
    toolchain_done(chain);
    return -ENOMEM;
}

int toolchain_copy(struct toolchain *to, const struct toolchain *from)
{
    *to = (struct toolchain){.name = from->name};
    memcpy(to->prefix, from->prefix, sizeof to->prefix);
    to->path = from->path ? strdup(from->path) : NULL;
    if ((!to->path && from->path) || strings_copy(&to->shown, &from->shown) < 0 ||
        strings_copy(&to->links, &from->links) < 0 || strings_copy(&to->to, &from->to) < 0 ||
        strings_copy(&to->environment, &from->environment) < 0) {
        toolchain_done(to);
        return -ENOMEM;
    }
    return 0;
}

static bool same_list(const struct strings *a, const struct strings *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->items[i], b->items[i]) == 0;
    return same;
}

bool toolchain_same(const struct toolchain *a, const struct toolchain *b)
{
    return same_list(&a->shown, &b->shown) && same_list(&a->links, &b->links) &&
           same_list(&a->to, &b->to) && same_list(&a->environment, &b->environment) &&
           strcmp(a->path ? a->path : "", b->path ? b->path : "") == 0;
}

void toolchain_done(struct toolchain *chain)
{
    strings_done(&chain->shown);
    strings_done(&chain->links);
    strings_done(&chain->to);
    strings_done(&chain->environment);
    free(chain->path);
    *chain = (struct toolchain){0};
}
