/* SPDX-License-Identifier: MIT */
/* brig completion: scripts for bash, zsh and fish, from the tables of verbs and options. */
#include <stdio.h>
#include <string.h>

#include "brig.h"
#include "commands.h"
#include "cli/options.h"
#include "cli/term.h"

/* One option, from any table. */
struct row {
    const char *option, *argument, *help, *choices;
    char letter;
    bool many; /* the value is a list of choices, separated by commas */
};

/* True if the value is a file, by the placeholder in the help. */
static bool takes_file(const struct row *row)
{
    static const char *const words[] = {"FILE", "DIR", "P["};
    for (size_t i = 0; row->argument && i < sizeof words / sizeof *words; i++) {
        if (strncmp(row->argument, words[i], strlen(words[i])) == 0)
            return true;
    }
    return false;
}

static size_t row_count(void)
{
    size_t count;
    brig_keys(&count);
    return count + own_option_count;
}

static struct row own_row(const struct own_option *own)
{
    return (struct row){own->option, own->argument, own->help, NULL, own->letter, false};
}

static struct row row_at(size_t i)
{
    size_t count;
    const struct brig_key *keys = brig_keys(&count);
    if (i < count)
        return (struct row){keys[i].option,  keys[i].argument, keys[i].help,
                            keys[i].choices, keys[i].letter,   keys[i].type != BRIG_TYPE_CHOICE};
    return own_row(&own_options[i - count]);
}

/* Other verbs with options of their own; one of them also takes the keys of a spec. */
static const struct other {
    const char *verb;
    const struct own_option *own;
    const size_t *count;
    bool keys;
} others[] = {
    {"batch", batch_options, &batch_option_count, false},
    {"mcp", mcp_own_options, &mcp_own_option_count, true},
};
#define OTHER_COUNT (sizeof others / sizeof *others)

static size_t other_count(const struct other *other)
{
    size_t keys;
    brig_keys(&keys);
    return *other->count + (other->keys ? keys : 0);
}

static struct row other_row(const struct other *other, size_t i)
{
    return i < *other->count ? own_row(&other->own[i]) : row_at(i - *other->count);
}

static void print_words(const char *choices)
{
    for (; *choices; choices++)
        putchar(*choices == '|' ? ' ' : *choices);
}

/* Print text inside single quotes: zsh closes and reopens them around a quote, fish escapes it. */
static void print_quoted(const char *text, const char *quote)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs(quote, stdout);
        else
            putchar(*text);
    }
}

#define ZSH_QUOTE  "'\\''"
#define FISH_QUOTE "\\'"

/* Print the completion of the value after an option. */
static void print_bash_value(const struct row *row)
{
    printf("    --%s", row->option);
    if (row->letter)
        printf("|-%c", row->letter);
    fputs(") ", stdout);
    if (row->choices) {
        printf("%s \"", row->many ? "_brig_words" : "_brig_word");
        print_words(row->choices);
        puts("\" ;;");
    } else {
        puts(takes_file(row) ? "COMPREPLY=($(compgen -f -- \"$cur\")) ;;" : ";;");
    }
}

/* Print the values and names of a verb's options, then the completion of other words. */
static void print_bash_verb(const char *verbs, size_t count, struct row (*at)(const void *, size_t),
                            const void *of, const char *otherwise)
{
    printf("    %s)\n    case $prev in\n", verbs);
    for (size_t i = 0; i < count; i++) {
        struct row row = at(of, i);
        if (row.argument)
            print_bash_value(&row);
    }
    fputs("    *) case $cur in\n        -*) _brig_word \"", stdout);
    for (size_t i = 0; i < count; i++)
        printf("--%s ", at(of, i).option);
    printf("\" ;;\n        *) %s ;;\n        esac ;;\n    esac ;;\n", otherwise);
}

static struct row run_row(const void *of, size_t i)
{
    (void)of;
    return row_at(i);
}

static struct row verb_row(const void *of, size_t i)
{
    return other_row(of, i);
}

static void print_bash(void)
{
    puts("# bash completion for brig; made by: brig completion bash\n"
         "_brig_word() { COMPREPLY=($(compgen -W \"$1\" -- \"$cur\")); }\n"
         "_brig_words() {\n"
         "    local before=\n"
         "    case $cur in *,*) before=${cur%,*}, ;; esac\n"
         "    COMPREPLY=($(compgen -P \"$before\" -W \"$1\" -- \"${cur##*,}\"))\n"
         "}\n"
         "_brig() {\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
         "    COMPREPLY=()\n"
         "    # --option=value is three words here\n"
         "    if [ \"$cur\" = = ]; then\n"
         "        cur=\n"
         "    elif [ \"$prev\" = = ] && [ \"$COMP_CWORD\" -gt 2 ]; then\n"
         "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
         "    fi");
    fputs("    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        _brig_word \"", stdout);
    for (unsigned i = 0; i < command_count; i++)
        printf("%s ", commands[i].name);
    puts("--help --version\"\n        return\n    fi\n"
         "    case ${COMP_WORDS[1]} in\n"
         "    completion) _brig_word \"bash zsh fish\" ;;");
    print_bash_verb("run|explain", row_count(), run_row, NULL,
                    "COMPREPLY=($(compgen -c -- \"$cur\") $(compgen -f -- \"$cur\"))");
    for (size_t o = 0; o < OTHER_COUNT; o++)
        print_bash_verb(others[o].verb, other_count(&others[o]), verb_row, &others[o],
                        "COMPREPLY=($(compgen -f -- \"$cur\"))");
    puts("    esac\n}\ncomplete -F _brig brig");
}

/* Help texts contain no brackets, which have a meaning in zsh; a colon between the brackets has
 * none. */
static void print_zsh_row(const struct row *row)
{
    for (int letter = 0; letter < (row->letter ? 2 : 1); letter++) {
        if (letter)
            printf("        '*-%c[", row->letter);
        else
            printf("        '*--%s[", row->option);
        print_quoted(row->help, ZSH_QUOTE);
        putchar(']');
        if (row->choices) {
            fputs(row->many ? ":value:_values -s , value " : ":value:(", stdout);
            print_words(row->choices);
            fputs(row->many ? "" : ")", stdout);
        } else if (row->argument) {
            fputs(takes_file(row) ? ":file:_files" : ":value: ", stdout);
        }
        puts("' \\");
    }
}

static void print_zsh(void)
{
    puts("#compdef brig\n# zsh completion for brig; made by: brig completion zsh\n"
         "_brig() {\n    local -a verbs\n    verbs=(");
    for (unsigned i = 0; i < command_count; i++)
        printf("        '%s:%s'\n", commands[i].name, commands[i].help);
    puts("    )\n    if (( CURRENT == 2 )); then\n        _describe verb verbs\n        return\n"
         "    fi\n    case $words[2] in\n"
         "    completion) _values shell bash zsh fish; return ;;\n"
         "    run|explain) ;;");
    for (size_t o = 0; o < OTHER_COUNT; o++) {
        printf("    %s)\n        shift words; (( CURRENT-- ))\n        _arguments \\\n",
               others[o].verb);
        for (size_t i = 0; i < other_count(&others[o]); i++) {
            struct row row = other_row(&others[o], i);
            print_zsh_row(&row);
        }
        puts("        '*:file:_files'\n        return ;;");
    }
    puts("    *) return ;;\n    esac\n"
         "    shift words; (( CURRENT-- ))\n    _arguments -S \\");
    for (size_t i = 0; i < row_count(); i++) {
        struct row row = row_at(i);
        print_zsh_row(&row);
    }
    puts("        '(-):command: _command_names -e' \\\n        '*::arguments: _normal'\n}\n"
         "_brig \"$@\"");
}

static void print_fish_row(const struct row *row, const char *verbs)
{
    printf("complete -c brig -n '__fish_seen_subcommand_from %s' -l %s", verbs, row->option);
    if (row->letter)
        printf(" -s %c", row->letter);
    if (row->choices) {
        fputs(row->many ? " -x -a '(__fish_append , " : " -x -a '", stdout);
        print_words(row->choices);
        fputs(row->many ? ")'" : "'", stdout);
    } else if (row->argument) {
        fputs(takes_file(row) ? " -r" : " -x", stdout);
    }
    fputs(" -d '", stdout);
    print_quoted(row->help, FISH_QUOTE);
    puts("'");
}

static void print_fish(void)
{
    puts("# fish completion for brig; made by: brig completion fish\n"
         "complete -c brig -f -n __fish_use_subcommand -l help -d 'show the verbs'\n"
         "complete -c brig -f -n __fish_use_subcommand -l version -d 'show the version'");
    for (unsigned i = 0; i < command_count; i++)
        printf("complete -c brig -f -n __fish_use_subcommand -a %s -d '%s'\n", commands[i].name,
               commands[i].help);
    puts("complete -c brig -f -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'");
    for (size_t i = 0; i < row_count(); i++) {
        struct row row = row_at(i);
        print_fish_row(&row, "run explain");
    }
    for (size_t o = 0; o < OTHER_COUNT; o++) {
        for (size_t i = 0; i < other_count(&others[o]); i++) {
            struct row row = other_row(&others[o], i);
            print_fish_row(&row, others[o].verb);
        }
    }
}

int cmd_completion(int argc, char **argv)
{
    const char *shell = argc == 2 ? argv[1] : "";
    if (strcmp(shell, "bash") == 0) {
        print_bash();
    } else if (strcmp(shell, "zsh") == 0) {
        print_zsh();
    } else if (strcmp(shell, "fish") == 0) {
        print_fish();
    } else {
        term_message("completion: wants one of bash, zsh, fish");
        return 2;
    }
    return ferror(stdout) || fflush(stdout) ? 125 : 0;
}
