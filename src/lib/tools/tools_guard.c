/* SPDX-License-Identifier: MIT */
/* Protects the files that decide about the next call from the guests of a tools file: the file
 * itself, its env files, the directories of its commands and their files, and everything by which
 * these are found: symlinks, PATH, interpreters. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "lib/plan/command.h"
#include "lib/spec/shown.h"
#include "lib/cell/toolchain.h"
#include "tools.h"
#include "lib/cell/view.h"
#include "lib/spec/way.h"

#define STAGE    "tools"
#define HOPS_MAX 64 /* symlinks, interpreters and PATH entries of one word */

/* The paths that are guarded in every run. */
struct guarding {
    struct brig_tools *tools;
    struct brig_spec *more; /* a spec whose guests share directories with the tools; or NULL */
    struct strings paths;   /* in the form of way_find() */
};

/* The search for the files that one tool starts. */
struct following {
    struct guarding *g;
    const struct brig_spec *spec;
    const char *path;   /* PATH of the tool */
    char cwd[PATH_MAX]; /* its work directory */
    unsigned hops;
};

static int fail(const char *path, int errnum, struct brig_error *err)
{
    return error_system(err, STAGE, errnum, "%.200s: cannot be guarded: %s", path,
                        error_text(errnum));
}

/* Guard the path and everything its resolution depends on. */
static int guard(struct guarding *g, const char *path, struct way *way, struct brig_error *err)
{
    struct way own;
    int ret = way_find(&g->paths, NULL, path, way ? way : &own);
    return ret < 0 ? fail(path, -ret, err) : 0;
}

/* Map a path of the tool to a path of the host: an entry of ro or rw may show it elsewhere. */
static void find_behind(const struct brig_spec *spec, const char *path, char out[PATH_MAX])
{
    static const enum key keys[] = {KEY_RO, KEY_RW};
    snprintf(out, PATH_MAX, "%s", path);
    for (size_t i = 0; i < 2; i++) {
        const struct strings *list = &spec->values[keys[i]].list;
        for (size_t j = 0; j < list->count; j++) {
            struct shown shown;
            if (shown_read_place(list->items[j], "", &shown, NULL) < 0)
                continue; /* the run reports the error */
            if (shown.second && view_is_within(path, shown.second))
                snprintf(out, PATH_MAX, "%s%s%s", shown.path[0] == '/' ? "" : "./", shown.path,
                         path + strlen(shown.second));
            shown_done(&shown);
        }
    }
}

static int guard_interpreter(struct following *f, const char *file, struct brig_error *err);

/* Guard a file that is started or named, given its path in the cell. Its whole directory is
 * guarded, since a program loads other files from there, and so are the directories that its
 * symlinks lead to. */
static int guard_file(struct following *f, const char *path, struct brig_error *err)
{
    char file[PATH_MAX], text[PATH_MAX];
    struct way way;
    find_behind(f->spec, path, file);
    while (f->hops++ < HOPS_MAX) {
        char *name = strrchr(file, '/');
        char above[PATH_MAX];
        snprintf(above, sizeof above, "%.*s", name > file ? (int)(name - file) : 1, file);
        int ret = guard(f->g, above, &way, err);
        if (ret < 0 || way.missing)
            return ret;
        snprintf(above, sizeof above, "%s", name + 1);
        const char *root = strcmp(way.real, "/") == 0 ? "" : way.real;
        if (snprintf(file, sizeof file, "%s/%s", root, above) >= PATH_MAX)
            return fail(path, ENAMETOOLONG, err);
        ssize_t len = readlink(file, text, sizeof text - 1);
        if (len <= 0)
            return guard_interpreter(f, file, err);
        text[len] = 0;
        if (text[0] == '/')
            find_behind(f->spec, text, file);
        else if (snprintf(file, sizeof file, "%s/%s", root, text) >= PATH_MAX)
            return fail(path, ENAMETOOLONG, err);
    }
    return fail(path, ELOOP, err);
}

/* Make a path absolute, as the tool sees it. Returns false if it is too long. */
static bool join(const struct following *f, const char *path, size_t len, char out[PATH_MAX])
{
    int n = path[0] == '/' ? snprintf(out, PATH_MAX, "%.*s", (int)len, path)
                           : snprintf(out, PATH_MAX, "%s/%.*s", f->cwd, (int)len, path);
    return n < PATH_MAX;
}

static int guard_started(struct following *f, const char *path, struct brig_error *err)
{
    char file[PATH_MAX];
    if (!join(f, path, strlen(path), file))
        return fail(path, ENAMETOOLONG, err);
    return guard_file(f, file, err);
}

/* True if the guest certainly finds the file too, and not only the host. */
static bool is_hit(const struct following *f, const char *file, const struct stat *st)
{
    return (toolchain_is_system(file) || view_is_within(file, f->cwd)) && (st->st_mode & S_IXOTH);
}

/* Guard one directory of PATH; an empty one is the work directory. *hit is set if later directories
 * do not matter. */
static int guard_element(struct following *f, const char *element, size_t len, const char *name,
                         bool *hit, struct brig_error *err)
{
    char path[PATH_MAX], file[PATH_MAX];
    struct way way;
    struct stat st;
    if (!join(f, len ? element : ".", len ? len : 1, path))
        return fail(name, ENAMETOOLONG, err);
    find_behind(f->spec, path, file);
    int ret = guard(f->g, file, &way, err);
    if (ret < 0 || way.missing ||
        snprintf(file, sizeof file, "%s/%s", way.real, name) >= PATH_MAX || stat(file, &st) < 0 ||
        !S_ISREG(st.st_mode) || !(st.st_mode & 0111))
        return ret;
    *hit = is_hit(f, file, &st);
    return guard_file(f, file, err);
}

/* Guard all directories of PATH in which the program could be found first. */
static int guard_search(struct following *f, const char *name, struct brig_error *err)
{
    bool hit = false;
    for (const char *path = f->path;;) {
        size_t len = strcspn(path, ":");
        int ret = guard_element(f, path, len, name, &hit, err);
        if (ret < 0 || hit || !path[len])
            return ret;
        path += len + 1;
    }
}

static int guard_program(struct following *f, const char *name, struct brig_error *err)
{
    return strchr(name, '/') ? guard_started(f, name, err) : guard_search(f, name, err);
}

static int guard_interpreter(struct following *f, const char *file, struct brig_error *err)
{
    char line[TOOLCHAIN_LINE];
    const char *program, *searched;
    if (!toolchain_interpreter(file, line, &program, &searched))
        return 0;
    int ret = guard_started(f, program, err); /* without a slash, it is in the work directory */
    return ret == 0 && searched ? guard_program(f, searched, err) : ret;
}

/* Guard the word if it names a file. */
static int guard_word(struct following *f, const char *word, struct brig_error *err)
{
    char path[PATH_MAX], file[PATH_MAX];
    struct stat st;
    if (!*word || strlen(word) >= PATH_MAX)
        return 0;
    if (!join(f, word, strlen(word), path)) {
        autofd cwd = open(f->cwd, O_PATH | O_DIRECTORY | O_CLOEXEC);
        bool exists = fstatat(cwd, word, &st, 0) == 0 && S_ISREG(st.st_mode);
        return exists ? fail(word, ENAMETOOLONG, err) : 0;
    }
    find_behind(f->spec, path, file);
    f->hops = 0;
    return stat(file, &st) == 0 && S_ISREG(st.st_mode) ? guard_file(f, path, err) : 0;
}

/* Guard a word and the files that an option in it could name: --opt=FILE, @FILE, -oFILE. */
static int guard_words_in(struct following *f, const char *word, struct brig_error *err)
{
    int ret = guard_word(f, word, err);
    if (ret == 0 && word[0] == '-' && word[1] && word[1] != '-')
        ret = guard_word(f, word + 2, err);
    for (const char *at = strpbrk(word, "=@"); at && ret == 0; at = strpbrk(at + 1, "=@"))
        ret = guard_word(f, at + 1, err);
    return ret;
}

/* Guard the tool chain: a venv depends on more than its bin directory. */
static int guard_toolchain(struct following *f, struct brig_error *err)
{
    struct toolchain chain;
    if (toolchain_find(&chain, f->spec) < 0)
        return error_memory(err, STAGE);
    int ret = 0;
    for (size_t i = 0; i < chain.shown.count && ret == 0; i++)
        ret = guard(f->g, chain.shown.items[i], NULL, err);
    toolchain_done(&chain);
    return ret;
}

/* True for a relative command whose directory does not exist here: a tools file written for another
 * directory can still be listed. */
static bool is_elsewhere(const struct following *f, const char *command)
{
    char path[PATH_MAX], file[PATH_MAX];
    const char *slash = strrchr(command, '/');
    if (!slash || command[0] == '/' || !join(f, command, (size_t)(slash - command), path))
        return false;
    find_behind(f->spec, path, file);
    return access(file, F_OK) < 0;
}

static int guard_command(struct following *f, struct brig_error *err)
{
    const struct strings *command = &f->spec->command;
    if (command->count == 0)
        return 0;
    const char *slash = strrchr(command->items[0], '/');
    const char *name = slash ? slash + 1 : command->items[0];
    const char *started =
        strcmp(name, "env") == 0 ? toolchain_env_program(command->items + 1) : NULL;
    int ret = is_elsewhere(f, command->items[0]) ? 0 : guard_program(f, command->items[0], err);
    f->hops = 0;
    for (size_t i = 1; started && i < command->count && command->items[i] != started; i++) {
        if (strncmp(command->items[i], "PATH=", 5) == 0) /* env searches this PATH */
            f->path = command->items[i] + 5;
    }
    if (ret == 0 && started)
        ret = guard_program(f, started, err);
    for (size_t i = 1; i < command->count && ret == 0; i++)
        ret = guard_words_in(f, command->items[i], err);
    return ret == 0 ? guard_toolchain(f, err) : ret;
}

static int guard_tool(struct guarding *g, const struct brig_spec *spec, struct brig_error *err)
{
    const struct strings *files = &spec->values[KEY_ENV_FILE].list;
    const struct strings *variables = &spec->values[KEY_ENV].list;
    const char *workdir = spec->values[KEY_WORKDIR].text;
    struct following f = {.g = g, .spec = spec};
    autofree char *path = toolchain_path(spec);
    if (!path)
        return error_memory(err, STAGE);
    if (!realpath(workdir ? workdir : ".", f.cwd))
        return 0; /* the run reports the error */
    f.path = *path ? path : COMMAND_DEFAULT_PATH;
    int ret = guard_command(&f, err);
    for (size_t i = 0; i < variables->count && ret == 0; i++) {
        const char *value = strchr(variables->items[i], '=');
        ret = value ? guard_word(&f, value + 1, err) : 0;
    }
    for (size_t i = 0; i < files->count && ret == 0; i++)
        ret = guard(g, files->items[i], NULL, err);
    return ret;
}

/* Add the guards to every run that shares a directory with the tools. */
static int add_all(const struct guarding *g, struct brig_error *err)
{
    int ret = g->more ? spec_add_guards(g->more, &g->paths) : 0;
    for (size_t i = 0; i < g->tools->count && ret == 0; i++)
        ret = spec_add_guards(g->tools->items[i].spec, &g->paths);
    return ret < 0 ? error_system(err, STAGE, -ret, "%s", error_text(-ret)) : 0;
}

/* Check now rather than at the first call. */
static int check_all(const struct guarding *g, struct brig_error *err)
{
    struct brig_error local = {0};
    int ret = g->more ? view_check_guards(g->more, &local) : 0;
    const char *who = "run_command";
    for (size_t i = 0; i < g->tools->count && ret == 0; i++) {
        who = g->tools->items[i].told.name;
        ret = view_check_guards(g->tools->items[i].spec, &local);
    }
    if (ret == 0)
        return 0;
    return error_set(
        err, local.fault, local.stage, local.errnum,
        "%s: %.330s. Use its real path, in a directory outside of that one or shown with \"ro\" "
        "(here in %.40s)",
        g->tools->name, local.text, who);
}

int brig_tools_guard(struct brig_tools *tools, const char *path, struct brig_spec *more,
                     struct brig_error *err)
{
    struct guarding g = {.tools = tools, .more = more};
    int ret = path ? guard(&g, path, NULL, err) : 0;
    for (size_t i = 0; i < tools->count && ret == 0; i++)
        ret = guard_tool(&g, tools->items[i].spec, err);
    if (ret == 0)
        ret = add_all(&g, err);
    strings_done(&g.paths);
    return ret == 0 ? check_all(&g, err) : ret;
}
