/* SPDX-License-Identifier: MIT */
/* The table of keys and the parsing of single values.
 *
 * The command line, the JSON spec, the operator's file, the manual page and the completions are all
 * generated from these rows; nothing else in the project lists the settings. */
#include "keys.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"

const struct brig_key key_table[KEY_COUNT] = {
    [KEY_MEMORY] =
        {
            .name = "memory",
            .option = "memory",
            .letter = 'm',
            .type = BRIG_TYPE_SIZE,
            .argument = "SIZE",
            .initial = "2G",
            .help = "memory of the whole process tree",
            .detail =
                "Counts anonymous memory, page cache, tmpfs, memfd, shared memory and swap of "
                "all processes of the run together. Reaching it ends the run as "
                "memory_limit.",
            .limit = true,
            .unlimited = true,
        },
    [KEY_CPUS] =
        {
            .name = "cpus",
            .option = "cpus",
            .type = BRIG_TYPE_CPUS,
            .argument = "N",
            .initial = "1",
            .help = "how many CPUs' worth of time the tree may use",
            .detail = "A share, not a number of cores: 0.5 is half of one, and eight busy threads "
                      "under 1 together get one core's worth.",
            .limit = true,
            .unlimited = true,
        },
    [KEY_CPU_PRIORITY] =
        {
            .name = "cpu_priority",
            .option = "cpu-priority",
            .type = BRIG_TYPE_CHOICE,
            .argument = "WHAT",
            .initial = "normal",
            .choices = "normal|low",
            .help = "low: others who want the CPUs come first",
            .detail = "With low, the whole tree together has a tenth of the weight that one other "
                      "process has; where nobody else wants the CPUs, it gets as much as "
                      "ever. Real time goes on while it waits for them, and so does its timeout.",
        },
    [KEY_PIDS] =
        {
            .name = "pids",
            .option = "pids",
            .type = BRIG_TYPE_COUNT,
            .argument = "N",
            .initial = "100",
            .help = "processes and threads alive at once",
            .limit = true,
            .unlimited = true,
        },
    [KEY_TIMEOUT] =
        {
            .name = "timeout",
            .option = "timeout",
            .type = BRIG_TYPE_DURATION,
            .argument = "TIME",
            .initial = "30m",
            .help = "end the run after this much real time",
            .limit = true,
            .unlimited = true,
        },
    [KEY_KILL_AFTER] =
        {
            .name = "kill_after",
            .option = "kill-after",
            .letter = 'k',
            .type = BRIG_TYPE_DURATION,
            .argument = "TIME",
            .initial = "3s",
            .help = "how long SIGTERM may take before SIGKILL",
            .limit = true,
        },
    [KEY_CPU_TIME] =
        {
            .name = "cpu_time",
            .option = "cpu-time",
            .type = BRIG_TYPE_DURATION,
            .argument = "TIME",
            .initial = "unlimited",
            .help = "how much CPU time the tree may use in all",
            .limit = true,
            .unlimited = true,
        },
    [KEY_OUTPUT] =
        {
            .name = "output",
            .option = "output",
            .type = BRIG_TYPE_SIZE,
            .argument = "SIZE",
            .initial = "10M",
            .help = "one budget for stdout and stderr together",
            .detail = "Never exceeded by a byte.",
            .limit = true,
            .unlimited = true,
        },
    [KEY_RESULT_SIZE] =
        {
            .name = "result_size",
            .option = "result-size",
            .type = BRIG_TYPE_SIZE,
            .argument = "SIZE",
            .initial = "16M",
            .help = "what it may send on its result channel",
            .detail =
                "At most 1G. A larger result is not truncated: it does not count as a result.",
            .limit = true,
        },
    [KEY_ON_OUTPUT_LIMIT] =
        {
            .name = "on_output_limit",
            .option = "on-output-limit",
            .type = BRIG_TYPE_CHOICE,
            .argument = "WHAT",
            .initial = "kill",
            .choices = "kill|truncate",
            .help = "over the output budget: kill, or truncate",
            .detail =
                "truncate lets the run go on, keeps the first and the last half of the budget "
                "and says how much was left out between them.",
        },
    [KEY_ON_PIDS_LIMIT] =
        {
            .name = "on_pids_limit",
            .option = "on-pids-limit",
            .type = BRIG_TYPE_CHOICE,
            .argument = "WHAT",
            .initial = "kill",
            .choices = "kill|fail",
            .help = "over the process limit: kill, or let fork fail",
        },
    [KEY_OPEN_FILES] =
        {
            .name = "open_files",
            .option = "open-files",
            .type = BRIG_TYPE_COUNT,
            .argument = "N",
            .help = "open files of each process",
            .detail = "At most the caller's own limit. Default: the caller's limit, but at most a "
                      "share of "
                      "the machine's open files, so that 16 runs at once leave some to others.",
            .limit = true,
        },
    [KEY_FILE_SIZE] =
        {
            .name = "file_size",
            .option = "file-size",
            .type = BRIG_TYPE_SIZE,
            .argument = "SIZE",
            .help = "largest file that may be written",
            .detail = "Default: the caller's own limit.",
            .limit = true,
        },
    [KEY_WORKDIR] =
        {
            .name = "workdir",
            .option = "workdir",
            .letter = 'w',
            .type = BRIG_TYPE_PATH,
            .argument = "DIR",
            .help = "work directory, the current one by default",
        },
    [KEY_RO] =
        {
            .name = "ro",
            .option = "ro",
            .type = BRIG_TYPE_LIST,
            .argument = "P[:DEST]",
            .help = "show a path read-only",
            .detail =
                "DEST is absolute, and P itself without it. P has no \"..\", and no part of it is "
                "a "
                "symlink. A text that can be read as a path with a colon in it as well is refused "
                "if that exists; in JSON, {\"path\": P, \"dest\": DEST} says which is which.",
            .second = "dest",
        },
    [KEY_RW] =
        {
            .name = "rw",
            .option = "rw",
            .type = BRIG_TYPE_LIST,
            .argument = "P[:DEST]",
            .help = "show a path writable",
            .detail = "P and DEST as for --ro.",
            .second = "dest",
        },
    [KEY_TMPFS] =
        {
            .name = "tmpfs",
            .option = "tmpfs",
            .type = BRIG_TYPE_LIST,
            .argument = "P[:SIZE]",
            .help = "an empty directory in memory",
            .second = "size",
        },
    [KEY_VIEW] =
        {
            .name = "view",
            .option = "view",
            .type = BRIG_TYPE_CHOICE,
            .argument = "WHAT",
            .initial = "minimal",
            .choices = "minimal|host",
            .help = "which files exist: the system's, or all read-only",
        },
    [KEY_ENV] =
        {
            .name = "env",
            .option = "env",
            .letter = 'e',
            .type = BRIG_TYPE_MAP,
            .argument = "NAME[=VALUE]",
            .help = "set a variable, or pass the caller's on",
            .detail = "The environment is empty but for PATH HOME USER LANG LC_* TERM SHELL TZ "
                      "TMPDIR, where they are set.",
        },
    [KEY_ENV_FILE] =
        {
            .name = "env_file",
            .option = "env-file",
            .type = BRIG_TYPE_LIST,
            .argument = "FILE",
            .help = "read NAME=VALUE lines from a file",
            .detail =
                "Empty lines and lines that begin with # are passed over. --env wins over it.",
        },
    [KEY_NETWORK] =
        {
            .name = "network",
            .option = "network",
            .type = BRIG_TYPE_CHOICE,
            .argument = "WHAT",
            .initial = "none",
            .choices = "none|host",
            .help = "no network, or the host's",
        },
    [KEY_ISOLATION] =
        {
            .name = "isolation",
            .option = "isolation",
            .type = BRIG_TYPE_CHOICE,
            .argument = "WHAT",
            .initial = "cell",
            .choices = "cell|auto",
            .help = "a cell or a refusal; auto: less where none can be built",
            .detail = "With cell, brig refuses to run where the host allows no namespaces or "
                      "mounts, and says why. With auto, such a run is confined by landlock and "
                      "seccomp alone (isolation.tier is degraded in the result), and a line on "
                      "stderr says so.",
            .bounded = true,
        },
    [KEY_STDIN] =
        {
            .name = "stdin",
            .option = "stdin",
            .type = BRIG_TYPE_PATH,
            .argument = "FILE|-|none",
            .help = "a file for stdin, the caller's (-), or an empty one",
            .detail =
                "brig run passes the caller's stdin if that is a pipe, a file or a socket; "
                "a terminal, and every other program's, only if it is asked for. The bytes go "
                "through a pipe of brig's own, which reads ahead: up to 128 KiB more than the "
                "command has read are gone for others who read the same pipe or file. So in "
                "while read x; do brig run ...; done < LIST, give brig run --stdin none.",
        },
    [KEY_CHANNEL] =
        {
            .name = "channel",
            .option = "channel",
            .type = BRIG_TYPE_CHOICE,
            .argument = "WHAT",
            .initial = "off",
            .choices = "off|on",
            .help = "a file descriptor for its result, beside its output",
            .detail = "Its number is in BRIG_RESULT_FD. The guest writes the length of its result "
                      "in decimal digits, a newline and that much JSON, once; it becomes output in "
                      "the result.",
        },
    [KEY_REDACT] =
        {
            .name = "redact",
            .option = "redact",
            .type = BRIG_TYPE_CHOICE,
            .argument = "WHAT",
            .initial = "off",
            .shared = "on",
            .choices = "on|off",
            .help = "hide secrets in what the command gives",
            .detail =
                "A secret becomes [redacted:NAME] in output, events, results and labels. Off where "
                "the caller gets the bytes for itself, as from brig run and brig batch; on where "
                "they go to a model (brig mcp, brig call, tools), and wherever --redact-set or "
                "--redact-pattern is given. In brig's own messages and notes secrets are hidden "
                "unless --redact off is given.",
        },
    [KEY_REDACT_SET] =
        {
            .name = "redact_set",
            .option = "redact-set",
            .type = BRIG_TYPE_TEXT,
            .argument = "SETS",
            .choices = "tokens|assignments|headers|urls|private-keys",
            .help = "which secrets, of those that brig knows; else all",
            .detail =
                "Names separated by commas: tokens, assignments, headers, urls, private-keys.",
        },
    [KEY_REDACT_PATTERN] =
        {
            .name = "redact_pattern",
            .option = "redact-pattern",
            .type = BRIG_TYPE_LIST,
            .argument = "REGEX",
            .help = "hide what matches, too",
            .detail = "A regular expression of PCRE2, on bytes; the first named group in it, "
                      "(?<NAME>...), is the secret, or all that it matches.",
        },
    [KEY_LABELS] =
        {
            .name = "labels",
            .option = "label",
            .type = BRIG_TYPE_MAP,
            .argument = "K=V",
            .help = "a label that the result repeats",
        },
    [KEY_REQUIRE] =
        {
            .name = "require",
            .option = "require",
            .type = BRIG_TYPE_LIST,
            .argument = "LAYERS",
            .choices = "cgroup|memory|pids|cpus|user|mount|pid|ipc|uts|view|capabilities|net|tree|"
                       "environment|descriptors|session|core_dumps|no_new_privs|seccomp|landlock",
            .help = "refuse to run without these layers",
            .detail = "Names separated by commas, as the result lists them under isolation.",
        },
};

const struct brig_key *brig_keys(size_t *count)
{
    *count = KEY_COUNT;
    return key_table;
}

int key_find(const char *name)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        if (strcmp(key_table[i].name, name) == 0)
            return i;
    }
    return -1;
}

const char *key_hint(const char *name, bool limits_only, char out[NEAREST_HINT_SIZE])
{
    struct nearest nearest;
    nearest_init(&nearest, name, strlen(name));
    for (int i = 0; i < KEY_COUNT; i++) {
        if (key_table[i].limit || !limits_only)
            nearest_try(&nearest, key_table[i].name);
    }
    if (!limits_only) /* "command" is a JSON member that is not in the table */
        nearest_try(&nearest, "command");
    return nearest_hint(&nearest, "", out);
}

bool key_is_bounded(const struct brig_key *key)
{
    return key->limit || key->bounded;
}

bool key_is_number(const struct brig_key *key)
{
    switch (key->type) {
    case BRIG_TYPE_SIZE:
    case BRIG_TYPE_DURATION:
    case BRIG_TYPE_COUNT:
    case BRIG_TYPE_CPUS:
    case BRIG_TYPE_CHOICE:
        return true;
    default:
        return false;
    }
}

static bool parse_choice(const char *choices, const char *text, uint64_t *out)
{
    size_t len = strlen(text);
    for (uint64_t i = 0;; i++) {
        size_t n = strcspn(choices, "|");
        if (n == len && len > 0 && memcmp(choices, text, n) == 0) {
            *out = i;
            return true;
        }
        if (!choices[n])
            return false;
        choices += n + 1;
    }
}

const char *key_parse_number(const struct brig_key *key, const char *text, uint64_t *out)
{
    if (strcmp(text, "unlimited") == 0 && key->type != BRIG_TYPE_CHOICE) {
        if (!key->unlimited)
            return "cannot be unlimited";
        *out = BRIG_UNLIMITED;
        return NULL;
    }
    switch (key->type) {
    case BRIG_TYPE_SIZE:
        return units_parse_size(text, out);
    case BRIG_TYPE_DURATION:
        return units_parse_duration(text, out);
    case BRIG_TYPE_COUNT:
        return units_parse_count(text, out);
    case BRIG_TYPE_CPUS:
        return units_parse_cpus(text, out);
    case BRIG_TYPE_CHOICE:
        return parse_choice(key->choices, text, out) ? NULL : "is not one of its choices";
    default:
        return "is not a number";
    }
}

static void format_choice(const char *choices, uint64_t index, char out[KEY_TEXT_SIZE])
{
    while (index-- > 0)
        choices += strcspn(choices, "|") + 1;
    snprintf(out, KEY_TEXT_SIZE, "%.*s", (int)strcspn(choices, "|"), choices);
}

void key_format_number(const struct brig_key *key, uint64_t value, char out[KEY_TEXT_SIZE])
{
    if (value == BRIG_UNLIMITED && key->type != BRIG_TYPE_CHOICE) {
        snprintf(out, KEY_TEXT_SIZE, "unlimited");
        return;
    }
    switch (key->type) {
    case BRIG_TYPE_SIZE:
        units_format_size(value, out);
        break;
    case BRIG_TYPE_DURATION:
        units_format_duration(value, out);
        break;
    case BRIG_TYPE_CPUS:
        units_format_cpus(value, out);
        break;
    case BRIG_TYPE_CHOICE:
        format_choice(key->choices, value, out);
        break;
    default:
        snprintf(out, KEY_TEXT_SIZE, "%llu", (unsigned long long)value);
    }
}
