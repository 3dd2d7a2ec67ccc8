/* SPDX-License-Identifier: MIT */
/* The parser of the command line. The settings are not listed here: they are the library's keys. */
#include "options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/nearest.h"
#include "help.h"
#include "words.h"

#define STAGE "command line"

enum own {
    OWN_SPEC,
    OWN_METADATA,
    OWN_JSON,
    OWN_RESULT,
    OWN_EVENTS,
    OWN_DRY_RUN,
    OWN_DIE_WITH_PARENT,
    OWN_WARM,
    OWN_QUIET,
    OWN_VERBOSE,
    OWN_HELP,
};

const struct own_option own_options[] = {
    [OWN_SPEC] = {"spec", 0, "FILE", "read the command and settings from a JSON file (-: stdin)"},
    [OWN_METADATA] = {"metadata", 0, "FILE", "read limits from a job's metadata, a JSON object"},
    [OWN_JSON] = {"json", 0, NULL, "capture the output, print only the result, as JSON"},
    [OWN_RESULT] = {"result", 0, "FILE|fd:N", "write the result there; the output stays live"},
    [OWN_EVENTS] = {"events", 0, "FILE|fd:N",
                    "write events there as they happen, one JSON per line"},
    [OWN_DRY_RUN] = {"dry-run", 0, NULL, "print the plan, start nothing"},
    [OWN_DIE_WITH_PARENT] = {"die-with-parent", 0, NULL,
                             "end the run when the process that started brig is gone"},
    [OWN_WARM] = {"warm", 0, NULL, "run in a cell that was built ahead; for tests"},
    [OWN_QUIET] = {"quiet", 'q', NULL, "print no messages of brig except errors"},
    [OWN_VERBOSE] = {"verbose", 'v', NULL, "print how the run ended and the resources it used"},
    [OWN_HELP] = {"help", 'h', NULL, "show this help"},
};
const size_t own_option_count = sizeof own_options / sizeof *own_options;

/* One parsed option: a key of the library, or an option of the command itself. */
struct found {
    const struct brig_key *key; /* or NULL */
    size_t own;
    const char *argument; /* the placeholder of its value, or NULL */
    char name[80];        /* as written, for messages */
};

/* The target of set_own(). */
struct reading {
    struct run_options *options;
    const char *spec, *metadata; /* paths */
};

/* The command line is parsed twice, and files are read between the passes: list entries from
 * options come after those from files. */
enum pass { PASS_OWN, PASS_KEYS };

static bool find_long(const struct option_set *set, const char *name, size_t len,
                      struct found *found)
{
    size_t count;
    const struct brig_key *keys = brig_keys(&count);
    for (size_t i = 0; i < count; i++) {
        if (strlen(keys[i].option) == len && memcmp(keys[i].option, name, len) == 0) {
            *found = (struct found){.key = &keys[i], .argument = keys[i].argument};
            return true;
        }
    }
    for (size_t i = 0; i < set->count; i++) {
        if (strlen(set->own[i].option) == len && memcmp(set->own[i].option, name, len) == 0) {
            *found = (struct found){.own = i, .argument = set->own[i].argument};
            return true;
        }
    }
    return false;
}

/* Refuse an unknown option, and suggest the nearest one. */
static int unknown_option(const struct option_set *set, const char *arg, size_t len,
                          const char *verb, struct brig_error *err)
{
    struct nearest nearest;
    char hint[NEAREST_HINT_SIZE];
    size_t count;
    const struct brig_key *keys = brig_keys(&count);
    nearest_init(&nearest, arg + 2, len);
    for (size_t i = 0; i < count; i++)
        nearest_try(&nearest, keys[i].option);
    for (size_t i = 0; i < set->count; i++)
        nearest_try(&nearest, set->own[i].option);
    return error_usage(err, STAGE, "%.80s: unknown option%s; see brig %s --help", arg,
                       nearest_hint(&nearest, "--", hint), verb);
}

static bool find_letter(const struct option_set *set, char letter, struct found *found)
{
    size_t count;
    const struct brig_key *keys = brig_keys(&count);
    for (size_t i = 0; i < count; i++) {
        if (keys[i].letter == letter) {
            *found = (struct found){.key = &keys[i], .argument = keys[i].argument};
            return true;
        }
    }
    for (size_t i = 0; i < set->count; i++) {
        if (set->own[i].letter == letter) {
            *found = (struct found){.own = i, .argument = set->own[i].argument};
            return true;
        }
    }
    return false;
}

static void set_own(void *to, size_t own, const char *value)
{
    struct reading *reading = to;
    struct run_options *options = reading->options;
    switch ((enum own)own) {
    case OWN_SPEC:
        reading->spec = value;
        break;
    case OWN_METADATA:
        reading->metadata = value;
        break;
    case OWN_JSON:
        options->json = true;
        break;
    case OWN_RESULT:
        options->result = value;
        break;
    case OWN_EVENTS:
        options->events = value;
        break;
    case OWN_DRY_RUN:
        options->dry_run = true;
        break;
    case OWN_DIE_WITH_PARENT:
        options->die_with_parent = true;
        break;
    case OWN_WARM:
        options->warm = true;
        break;
    case OWN_QUIET:
        options->quiet = true;
        break;
    case OWN_VERBOSE:
        options->verbose = true;
        break;
    case OWN_HELP:
        options->help = true;
        break;
    }
}

static int set_option(const struct option_set *set, const struct found *found, const char *value,
                      enum pass pass, struct brig_error *err)
{
    if (!found->key && pass == PASS_OWN)
        set->set(set->to, found->own, value);
    if (!found->key || pass == PASS_OWN || !value) /* every key takes a value */
        return 0;
    return brig_spec_set(set->spec, found->key->name, value, BRIG_FROM_OPTION, found->name, err);
}

/* Parse one option with its value at argv[*at], and advance *at. */
static int read_option(const struct option_set *set, int argc, char **argv, int *at, enum pass pass,
                       struct brig_error *err)
{
    const char *arg = argv[*at];
    const char *value = NULL;
    struct found found;
    if (arg[1] == '-') {
        size_t len = strcspn(arg + 2, "=");
        if (!find_long(set, arg + 2, len, &found))
            return unknown_option(set, arg, len, argv[0], err);
        snprintf(found.name, sizeof found.name, "--%.*s", len < 70 ? (int)len : 70, arg + 2);
        value = arg[2 + len] ? arg + 3 + len : NULL;
        if (value && !found.argument)
            return error_usage(err, STAGE, "%s: takes no value", found.name);
    } else {
        if (!find_letter(set, arg[1], &found))
            return error_usage(err, STAGE, "%.80s: unknown option; see brig %s --help", arg,
                               argv[0]);
        snprintf(found.name, sizeof found.name, "-%c", arg[1]);
        value = arg[2] ? arg + 2 : NULL;
        if (value && !found.argument)
            return error_usage(
                err, STAGE, "%.80s: short options cannot be combined; write them one by one", arg);
    }
    if (found.argument && !value) {
        if (*at + 1 >= argc)
            return error_usage(err, STAGE, "%s: wants a value (%s)", found.name, found.argument);
        value = argv[++*at];
    }
    ++*at;
    return set_option(set, &found, value, pass, err);
}

int options_environment(struct brig_spec *spec, struct brig_error *err)
{
    size_t count;
    const struct brig_key *keys = brig_keys(&count);
    for (size_t i = 0; i < count; i++) {
        char name[64];
        if (keys[i].type == BRIG_TYPE_LIST || keys[i].type == BRIG_TYPE_MAP)
            continue;
        int n = snprintf(name, sizeof name, "BRIG_%s", keys[i].name);
        for (int j = 5; j < n; j++)
            name[j] = (char)toupper((unsigned char)name[j]);
        const char *value = getenv(name);
        if (!value)
            continue;
        int ret = brig_spec_set(spec, keys[i].name, value, BRIG_FROM_ENVIRONMENT, name, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

typedef int (*json_reader)(struct brig_spec *, const char *, size_t, const char *,
                           struct brig_error *);

static int read_json(struct brig_spec *spec, const char *path, const char *option,
                     json_reader reader, struct brig_error *err)
{
    autofree char *text = NULL;
    size_t len = 0;
    int ret = words_file(path, option, BRIG_SPEC_MAX, &text, &len, err);
    if (ret < 0)
        return ret;
    return reader(spec, text, len, strcmp(path, "-") == 0 ? "stdin" : path, err);
}

/* Parse all options before the command; *at becomes the index of the command. */
static int read_options(const struct option_set *set, int argc, char **argv, int *at,
                        enum pass pass, struct brig_error *err)
{
    int ret = 0;
    *at = 1;
    while (ret == 0 && *at < argc && argv[*at][0] == '-' && argv[*at][1]) {
        if (strcmp(argv[*at], "--") == 0) {
            ++*at;
            break;
        }
        ret = read_option(set, argc, argv, at, pass, err);
    }
    return ret;
}

static int read_all(struct run_options *options, int argc, char **argv, struct brig_error *err)
{
    struct reading files = {.options = options};
    const struct option_set set = {own_options, own_option_count, set_own, &files, options->spec};
    int at = 1;
    int ret = read_options(&set, argc, argv, &at, PASS_OWN, err);
    if (ret < 0 || options->help)
        return ret;
    if (files.spec)
        ret = read_json(options->spec, files.spec, "--spec", brig_spec_read_json, err);
    if (ret == 0 && files.metadata)
        ret = read_json(options->spec, files.metadata, "--metadata", brig_spec_read_metadata, err);
    if (ret == 0)
        ret = options_environment(options->spec, err);
    if (ret == 0)
        ret = read_options(&set, argc, argv, &at, PASS_KEYS, err);
    if (ret == 0 && at < argc)
        ret = brig_spec_set_command(options->spec, (const char *const *)argv + at,
                                    (size_t)(argc - at), err);
    else if (ret == 0 && !files.spec)
        ret = error_usage(err, STAGE, "no command; see brig run --help");
    return ret;
}

int options_read_set(const struct option_set *set, int argc, char **argv, struct brig_error *err)
{
    int at = 1;
    int ret = read_options(set, argc, argv, &at, PASS_OWN, err);
    if (ret == 0)
        ret = options_environment(set->spec, err);
    if (ret == 0)
        ret = read_options(set, argc, argv, &at, PASS_KEYS, err);
    if (ret == 0 && at < argc)
        ret = error_usage(err, STAGE, "%.80s: is not an option; see brig %s --help", argv[at],
                          argv[0]);
    return ret;
}

int options_read(struct run_options *options, int argc, char **argv, struct brig_error *err)
{
    *options = (struct run_options){0};
    int ret = brig_spec_new(&options->spec, err);
    if (ret == 0)
        ret = read_all(options, argc, argv, err);
    if (ret < 0)
        options_done(options);
    return ret;
}

void options_done(struct run_options *options)
{
    brig_spec_free(options->spec);
    *options = (struct run_options){0};
}

void options_help(FILE *out)
{
    size_t count;
    const struct brig_key *keys = brig_keys(&count);
    fputs("usage: brig run [options] [--] COMMAND [ARG...]\n"
          "\n"
          "Run a command as if it will misbehave: with limits, and ended together with every\n"
          "process that it started. Settings may also come from BRIG_* variables and a spec file.\n"
          "\n",
          out);
    for (size_t i = 0; i < count; i++) {
        char values[96];
        help_values(&keys[i], values, sizeof values);
        help_option(out, keys[i].option, keys[i].letter, keys[i].argument, keys[i].help, values);
    }
    fputc('\n', out);
    for (size_t i = 0; i < own_option_count; i++)
        help_option(out, own_options[i].option, own_options[i].letter, own_options[i].argument,
                    own_options[i].help, "");
    fputs(
        "\n"
        "Sizes: 4096 512K 64M 2G. Durations: 500ms 30s 5m 1h30m; plain numbers are seconds.\n"
        "The word unlimited removes a limit.\n"
        "Exit code: the command's own; 124 timeout; 125 brig could not run it as asked; 126 not\n"
        "executable; 127 not found; 128+N killed by signal N; 137 killed at another limit; 2 bad\n"
        "usage.\n",
        out);
}
