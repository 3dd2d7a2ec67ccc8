/* Filling a spec: from single values, from JSON, from a job's metadata. */
#include "spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/jsonr.h"

#define STAGE "spec"

#define TEXT_MAX 131072 /* of one value: the kernel takes no longer argument or variable */

int brig_spec_new(struct brig_spec **out, struct brig_error *err)
{
    struct brig_spec *spec = calloc(1, sizeof *spec);
    if (!spec)
        return error_memory(err, STAGE);
    spec->stdin_fd = -1;
    for (int i = 0; i < KEY_COUNT; i++) {
        const struct brig_key *key = &key_table[i];
        if (key->initial && key_is_number(key))
            spec->values[i].set = !key_parse_number(key, key->initial, &spec->values[i].number);
    }
    *out = spec;
    return 0;
}

void brig_spec_free(struct brig_spec *spec)
{
    if (!spec)
        return;
    for (int i = 0; i < KEY_COUNT; i++) {
        free(spec->values[i].text);
        strings_done(&spec->values[i].list);
    }
    strings_done(&spec->command);
    free(spec);
}

static int bad_value(struct brig_error *err, const struct brig_key *key, const char *where,
                     const char *text, const char *why)
{
    if (key->type == BRIG_TYPE_CHOICE)
        return error_usage(err, STAGE, "%s: \"%.80s\" is not one of %s", where, text, key->choices);
    return error_usage(err, STAGE, "%s: \"%.80s\" %s", where, text, why);
}

/* A name of a variable or label: what stands before '='. */
static const char *check_name(const struct brig_key *key, const char *text)
{
    size_t n = strcspn(text, "=");
    if (n == 0)
        return "has no name before \"=\"";
    if (!text[n] && strcmp(key->name, "labels") == 0)
        return "is not K=V";
    return NULL;
}

static int set_text(struct spec_value *value, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return -ENOMEM;
    free(value->text);
    value->text = copy;
    return 0;
}

static int set_value(struct brig_spec *spec, int index, const char *text, enum brig_origin origin,
                     const char *where, struct brig_error *err)
{
    const struct brig_key *key = &key_table[index];
    struct spec_value *value = &spec->values[index];
    bool list = key->type == BRIG_TYPE_LIST || key->type == BRIG_TYPE_MAP;
    const char *why = NULL;
    uint64_t number = 0;
    if (strlen(text) > TEXT_MAX)
        return error_usage(err, STAGE, "%s: is longer than %d bytes", where, TEXT_MAX);
    if (key_is_number(key))
        why = key_parse_number(key, text, &number);
    else if (!*text)
        why = "is empty";
    else if (key->type == BRIG_TYPE_MAP)
        why = check_name(key, text);
    if (why)
        return bad_value(err, key, where, text, why);
    if (!list && origin < value->origin)
        return 0;
    int ret = 0;
    if (list)
        ret = strings_add_text(&value->list, text);
    else if (key_is_number(key))
        value->number = number;
    else
        ret = set_text(value, text);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "%s: %s", where, strerror(-ret));
    value->set = true;
    if (origin > value->origin)
        value->origin = origin;
    return 0;
}

int brig_spec_set(struct brig_spec *spec, const char *name, const char *text,
                  enum brig_origin origin, const char *where, struct brig_error *err)
{
    int index = key_find(name);
    if (index < 0)
        return error_usage(err, STAGE, "%s: unknown key \"%.80s\"", where ? where : STAGE, name);
    return set_value(spec, index, text, origin, where ? where : name, err);
}

int brig_spec_set_command(struct brig_spec *spec, const char *const *argv, size_t argc,
                          struct brig_error *err)
{
    struct strings command = {0};
    if (argc == 0 || !*argv[0])
        return error_usage(err, STAGE, "command: is empty");
    for (size_t i = 0; i < argc; i++) {
        int ret = strings_add_text(&command, argv[i]);
        if (ret < 0) {
            strings_done(&command);
            return error_system(err, STAGE, -ret, "command: %s", strerror(-ret));
        }
    }
    strings_done(&spec->command);
    spec->command = command;
    return 0;
}

int brig_spec_set_sink(struct brig_spec *spec, enum brig_stream stream, enum brig_sink sink, int fd,
                       struct brig_error *err)
{
    if (stream != BRIG_STDOUT && stream != BRIG_STDERR)
        return error_usage(err, STAGE, "only stdout and stderr have a sink");
    spec->sinks[stream] = (struct spec_sink){sink, fd};
    return 0;
}

int brig_spec_set_stdin(struct brig_spec *spec, int fd, struct brig_error *err)
{
    if (fd < 0)
        return error_usage(err, STAGE, "stdin: %d is not a descriptor", fd);
    spec->stdin_fd = fd;
    return 0;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

/* What is being read, for messages and for the one rule that differs. */
struct reading {
    struct brig_spec *spec;
    enum brig_origin origin;
    const char *name;   /* of the text */
    const char *prefix; /* "" or "limits." */
    bool limits_only;
};

/* A JSON scalar in the text form that the parsers take; false for any other type. */
static bool scalar_text(const json_t *value, const char **text, char number[64])
{
    if (json_is_string(value)) {
        *text = json_string_value(value);
        return true;
    }
    *text = number;
    if (json_is_integer(value)) {
        snprintf(number, 64, "%lld", (long long)json_integer_value(value));
        return true;
    }
    if (json_is_real(value)) {
        snprintf(number, 64, "%.9f", json_real_value(value));
        return true;
    }
    return false;
}

static int read_list(const struct reading *r, int index, const json_t *value, const char *where,
                     struct brig_error *err)
{
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item)
    {
        if (!json_is_string(item))
            return error_usage(err, STAGE, "%s[%zu]: is not a string", where, i);
        int ret = set_value(r->spec, index, json_string_value(item), r->origin, where, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int read_map(const struct reading *r, int index, json_t *value, const char *where,
                    struct brig_error *err)
{
    const char *name;
    json_t *item;
    json_object_foreach(value, name, item)
    {
        const char *text = NULL;
        char number[64];
        if (!scalar_text(item, &text, number))
            return error_usage(err, STAGE, "%s.%.80s: is not a string or a number", where, name);
        if (!*name || strchr(name, '='))
            return error_usage(err, STAGE, "%s: \"%.80s\" is not a name", where, name);
        autofree char *entry = NULL;
        if (asprintf(&entry, "%s=%s", name, text) < 0) {
            entry = NULL;
            return error_memory(err, STAGE);
        }
        int ret = set_value(r->spec, index, entry, r->origin, where, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int read_command(const struct reading *r, const json_t *value, struct brig_error *err)
{
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count == 0)
        return error_usage(err, STAGE, "%s: command: is not an array of strings", r->name);
    autofree const char **argv = calloc(count, sizeof *argv);
    if (!argv)
        return error_memory(err, STAGE);
    for (size_t i = 0; i < count; i++) {
        argv[i] = json_string_value(json_array_get(value, i));
        if (!argv[i])
            return error_usage(err, STAGE, "%s: command[%zu]: is not a string", r->name, i);
    }
    if (!*argv[0])
        return error_usage(err, STAGE, "%s: command: is empty", r->name);
    return brig_spec_set_command(r->spec, argv, count, err);
}

static int read_member(const struct reading *r, const char *name, json_t *value,
                       struct brig_error *err)
{
    char where[256], number[64];
    const char *text;
    snprintf(where, sizeof where, "%.120s: %s%.80s", r->name, r->prefix, name);
    if (!r->limits_only && strcmp(name, "command") == 0)
        return read_command(r, value, err);
    int index = key_find(name);
    if (index < 0)
        return error_usage(err, STAGE, "%s: is not a key", where);
    if (r->limits_only && !key_table[index].limit)
        return error_usage(err, STAGE, "%s: is not a limit", where);
    enum brig_key_type type = key_table[index].type;
    bool list = type == BRIG_TYPE_LIST || type == BRIG_TYPE_MAP;
    if (list && json_is_array(value))
        return read_list(r, index, value, where, err);
    if (type == BRIG_TYPE_MAP && json_is_object(value))
        return read_map(r, index, value, where, err);
    if (list)
        return error_usage(err, STAGE, "%s: is not an array%s", where,
                           type == BRIG_TYPE_MAP ? " or an object" : "");
    if (!scalar_text(value, &text, number))
        return error_usage(err, STAGE, "%s: is not a string or a number", where);
    return set_value(r->spec, index, text, r->origin, where, err);
}

static int read_members(const struct reading *r, json_t *object, struct brig_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        int ret = read_member(r, name, value, err);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* Try it on a spec that is thrown away first: a text that is refused half-way changes nothing. */
static int read_checked(struct reading r, json_t *object, struct brig_error *err)
{
    struct brig_spec *spec = r.spec;
    int ret = brig_spec_new(&r.spec, err);
    if (ret < 0)
        return ret;
    ret = read_members(&r, object, err);
    brig_spec_free(r.spec);
    r.spec = spec;
    return ret < 0 ? ret : read_members(&r, object, err);
}

int brig_spec_read_json(struct brig_spec *spec, const char *text, size_t len, const char *name,
                        struct brig_error *err)
{
    json_t *root = jsonr_object(text, len, BRIG_SPEC_MAX, name, STAGE, err);
    if (!root)
        return -EINVAL;
    struct reading r = {.spec = spec, .origin = BRIG_FROM_SPEC, .name = name, .prefix = ""};
    int ret = read_checked(r, root, err);
    json_decref(root);
    return ret;
}

int brig_spec_read_metadata(struct brig_spec *spec, const char *text, size_t len, const char *name,
                            struct brig_error *err)
{
    json_t *root = jsonr_object(text, len, BRIG_SPEC_MAX, name, STAGE, err);
    if (!root)
        return -EINVAL;
    struct reading r = {.spec = spec,
                        .origin = BRIG_FROM_METADATA,
                        .name = name,
                        .prefix = "limits.",
                        .limits_only = true};
    json_t *limits = json_object_get(root, "limits");
    int ret = 0;
    if (limits && !json_is_object(limits))
        ret = error_usage(err, STAGE, "%s: limits: is not an object", name);
    else if (limits)
        ret = read_checked(r, limits, err);
    json_decref(root);
    return ret;
}
