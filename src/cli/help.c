/* Help for `brig run`. */
#include "help.h"

#include <string.h>

#include "brig.h"
#include "options.h"

void help_values(const struct brig_key *key, char *out, size_t size)
{
    out[0] = 0;
    if (key->choices && key->initial)
        snprintf(out, size, "%s; default %s", key->choices, key->initial);
    else if (key->initial)
        snprintf(out, size, "default %s", key->initial);
}

void help_option(FILE *out, const char *option, char letter, const char *argument, const char *help,
                 const char *values)
{
    char left[64], short_form[8] = "    ";
    if (letter)
        snprintf(short_form, sizeof short_form, "-%c, ", letter);
    snprintf(left, sizeof left, "%s--%s%s%s", short_form, option, argument ? " " : "",
             argument ? argument : "");
    fprintf(out, "  %-30s %s", left, help);
    if (*values)
        fprintf(out, " (%s)", values);
    fputc('\n', out);
}

void help_run(FILE *out)
{
    size_t count;
    const struct brig_key *keys = brig_keys(&count);
    fputs("usage: brig run [options] [--] COMMAND [ARG...]\n\n"
          "Run a command as if it will misbehave: bounded, watched, and ended with all that it\n"
          "started. Settings may also come from BRIG_* variables and a spec file.\n\n",
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
        "\nSizes: 4096 512K 64M 2G. Durations: 500ms 30s 5m 1h30m; bare numbers are seconds.\n"
        "No limit: the word unlimited.\n"
        "Exit code: the command's own; 124 timeout; 125 brig could not run it as asked; 126 not\n"
        "executable; 127 not found; 128+N killed by signal N; 137 killed at another limit; 2 bad\n"
        "usage.\n",
        out);
}
