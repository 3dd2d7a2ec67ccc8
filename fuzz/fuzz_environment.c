/* SPDX-License-Identifier: MIT */
/* lib/environment.c: the lines of an env file, compared with a reader that is as simple as the
 * manual's sentence about them. */
#include "lib/spec/environment.h"

#include <sys/mman.h>
#include <unistd.h>

#include "target.h"

/* Returns true if every line is valid; *value is the value of the last line with that name. */
static bool reference_read(const char *text, size_t size, const char *name, char **value)
{
    size_t name_len = strlen(name);
    *value = NULL;
    if (memchr(text, 0, size))
        return false;
    for (size_t at = 0; at < size;) {
        const char *line = text + at, *newline = memchr(line, '\n', size - at);
        size_t len = newline ? (size_t)(newline - line) : size - at;
        const char *sign = memchr(line, '=', len);
        at += len + 1;
        if (len == 0 || *line == '#')
            continue;
        if (!sign || sign == line)
            return false;
        if ((size_t)(sign - line) != name_len || memcmp(line, name, name_len) != 0)
            continue;
        free(*value);
        *value = strndup(sign + 1, len - name_len - 1);
        ensure(*value);
    }
    return true;
}

static void check_entries(const struct strings *env, const char *text, size_t size)
{
    ensure(!env->items || !env->items[env->count]);
    for (size_t i = 0; i < env->count; i++) {
        char *entry = strdup(env->items[i]), *value = NULL;
        ensure(entry);
        char *sign = strchr(entry, '=');
        ensure(sign && sign != entry && !strchr(entry, '\n'));
        *sign = 0;
        ensure(reference_read(text, size, entry, &value));
        ensure(value && strcmp(value, sign + 1) == 0);
        ensure(environment_get(env->items, entry) == env->items[i] + (sign + 1 - entry));
        free(value);
        free(entry);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], *text = target_text(data, size), *value = NULL;
    struct brig_spec *spec;
    struct strings env = {0};
    struct brig_error err = {0};
    int fd = memfd_create("env", MFD_CLOEXEC);
    ensure(fd >= 0 && write(fd, text, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ensure(brig_spec_new(&spec, NULL) == 0);
    ensure(brig_spec_set(spec, "env_file", path, BRIG_FROM_OPTION, NULL, NULL) == 0);
    int ret = environment_build(&env, spec, NULL, NULL, NULL, &err);
    ensure(reference_read(text, size, "", &value) == (ret == 0));
    ensure(!value);
    if (ret == 0)
        check_entries(&env, text, size);
    else
        ensure(err.fault == BRIG_FAULT_USAGE && is_printable(err.text));
    strings_done(&env);
    brig_spec_free(spec);
    close(fd);
    free(text);
    return 0;
}
