/* SPDX-License-Identifier: MIT */
/* Parser for the command lines of small verbs. */
#include "words.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/nearest.h"
#include "help.h"

#define STAGE "command line"

static const struct word *find(const struct word *words, size_t count, const char *arg,
                               const char **value)
{
    size_t len = strcspn(arg + 2, "=");
    for (size_t i = 0; i < count; i++) {
        if (arg[1] == '-' && strlen(words[i].option) == len &&
            memcmp(words[i].option, arg + 2, len) == 0) {
            *value = arg[2 + len] ? arg + 3 + len : NULL;
            return &words[i];
        }
        if (arg[1] != '-' && arg[1] == words[i].letter) {
            *value = arg[2] ? arg + 2 : NULL;
            return &words[i];
        }
    }
    return NULL;
}

static int unknown_word(const struct word *words, size_t count, const char *arg, const char *verb,
                        struct brig_error *err)
{
    struct nearest nearest;
    char hint[NEAREST_HINT_SIZE];
    nearest_init(&nearest, arg + 2, arg[1] == '-' ? strcspn(arg + 2, "=") : 0);
    for (size_t i = 0; i < count; i++)
        nearest_try(&nearest, words[i].option);
    return error_usage(err, STAGE, "%.80s: unknown option%s; see brig %s --help", arg,
                       nearest_hint(&nearest, "--", hint), verb);
}

static int read_word(const struct word *words, size_t count, int argc, char **argv, int *at,
                     struct brig_error *err)
{
    const char *arg = argv[*at], *value = NULL;
    const struct word *word = find(words, count, arg, &value);
    if (!word)
        return unknown_word(words, count, arg, argv[0], err);
    if (value && !word->argument)
        return error_usage(err, STAGE, "--%s: takes no value", word->option);
    if (word->argument && !value) {
        if (*at + 1 >= argc)
            return error_usage(err, STAGE, "--%s: wants a value (%s)", word->option,
                               word->argument);
        value = argv[++*at];
    }
    if (word->value)
        *word->value = value;
    if (word->flag)
        *word->flag = true;
    return 0;
}

int words_read(const struct word *words, size_t count, int argc, char **argv, const char **rest,
               size_t most, struct brig_error *err)
{
    size_t found = 0;
    bool only_rest = false;
    for (int at = 1; at < argc; at++) {
        int ret = 0;
        if (!only_rest && strcmp(argv[at], "--") == 0) {
            only_rest = true;
        } else if (!only_rest && argv[at][0] == '-' && argv[at][1]) {
            ret = read_word(words, count, argc, argv, &at, err);
        } else if (found < most) {
            rest[found++] = argv[at];
        } else {
            ret = error_usage(err, STAGE, "%.80s: one argument too many; see brig %s --help",
                              argv[at], argv[0]);
        }
        if (ret < 0)
            return ret;
    }
    return (int)found;
}

void words_help(FILE *out, const char *usage, const struct word *words, size_t count)
{
    fputs(usage, out);
    for (size_t i = 0; i < count; i++)
        help_option(out, words[i].option, words[i].letter, words[i].argument, words[i].help, "");
}

int words_file(const char *path, const char *option, size_t max, char **text, size_t *len,
               struct brig_error *err)
{
    bool own = strcmp(path, "-") == 0;
    struct stat st;
    autofd fd = own ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && !own && (fstat(fd, &st) < 0 || S_ISFIFO(st.st_mode)))
        return error_usage(err, STAGE,
                           "%s: %.200s: is a FIFO, not a file; pass - and redirect stdin from it",
                           option, path);
    if (fd < 0)
        return error_usage(err, STAGE, "%s: %.200s: %s", option, path, error_text(errno));
    int ret = fd_read_all(fd, max, text, len);
    if (ret == -EFBIG)
        return error_usage(err, STAGE, "%s: %.200s: is larger than %zu bytes", option, path, max);
    if (ret < 0)
        return error_usage(err, STAGE, "%s: %.200s: %s", option, path, error_text(-ret));
    return 0;
}
