/* SPDX-License-Identifier: MIT */
/* Fills a spec: from single values, from JSON, from the metadata of a job. */
#include "spec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/jsonr.h"
#include "base/text.h"
#include "shown.h"
#include "template_ref.h"
#include "way.h"

#define STAGE "spec"

/* The beginning of a text, for a message: two arguments of "%.*s". */
#define SHOWN(text) (int)text_cut(text, 80), text

#define TEXT_MAX 131072 /* bytes: the kernel's maximum for an argument or a variable */

void spec_changes(struct brig_spec *spec)
{
    static uint64_t last; /* shared by all specs of the process, since it only tells states apart */
    spec->state = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

int brig_spec_new(struct brig_spec **out, struct brig_error *err)
{
    struct brig_spec *spec = calloc(1, sizeof *spec);
    if (!spec)
        return error_memory(err, STAGE);
    spec_changes(spec);
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
    strings_done(&spec->guards);
    template_drop(spec->template);
    template_drop(spec->serves);
    free(spec);
}

static int bad_value(struct brig_error *err, const struct brig_key *key, const char *where,
                     const char *text, const char *why)
{
    if (key->type == BRIG_TYPE_CHOICE)
        return error_usage(err, STAGE, "%s: \"%.*s\" is not one of %s", where, SHOWN(text),
                           key->choices);
    return error_usage(err, STAGE, "%s: \"%.*s\" %s", where, SHOWN(text), why);
}

/* Check the name of a variable or label, which is the part before '='. */
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

static int add_entry(struct brig_spec *spec, int index, const char *entry, enum brig_origin origin,
                     const char *where, struct brig_error *err)
{
    struct spec_value *value = &spec->values[index];
    spec_changes(spec);
    int ret = strings_add_text(&value->list, entry);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "%s: %s", where, error_text(-ret));
    value->set = true;
    if (origin > value->origin)
        value->origin = origin;
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
    else if (key->second && shown_is_joined(text))
        why = "begins with a newline; write ./ before it";
    if (why)
        return bad_value(err, key, where, text, why);
    if (list)
        return add_entry(spec, index, text, origin, where, err);
    if (origin < value->origin)
        return 0;
    spec_changes(spec);
    int ret = 0;
    if (key_is_number(key))
        value->number = number;
    else
        ret = set_text(value, text);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "%s: %s", where, error_text(-ret));
    value->set = true;
    value->origin = origin;
    return 0;
}

static int set_pair(struct brig_spec *spec, int index, const char *path, const char *second,
                    enum brig_origin origin, const char *where, struct brig_error *err)
{
    const char *name = key_table[index].second;
    if (!name)
        return error_usage(err, STAGE, "%s: its entries have no second part", where);
    if (!*path || (second && !*second))
        return error_usage(err, STAGE, "%s: %s: is empty", where, *path ? name : "path");
    if (strlen(path) + (second ? strlen(second) : 0) > TEXT_MAX)
        return error_usage(err, STAGE, "%s: is longer than %d bytes", where, TEXT_MAX);
    autofree char *entry = shown_join(path, second);
    if (!entry)
        return error_memory(err, STAGE);
    return add_entry(spec, index, entry, origin, where, err);
}

void spec_set_number(struct brig_spec *spec, enum key key, uint64_t number)
{
    struct spec_value *value = &spec->values[key];
    spec_changes(spec);
    value->number = number;
    value->set = true;
    value->origin = BRIG_FROM_OPTION;
}

int brig_spec_set(struct brig_spec *spec, const char *name, const char *text,
                  enum brig_origin origin, const char *where, struct brig_error *err)
{
    char hint[NEAREST_HINT_SIZE];
    int index = key_find(name);
    if (index < 0)
        return error_usage(err, STAGE, "%s: unknown key \"%.*s\"%s", where ? where : STAGE,
                           SHOWN(name), key_hint(name, false, hint));
    return set_value(spec, index, text, origin, where ? where : name, err);
}

int brig_spec_set_pair(struct brig_spec *spec, const char *name, const char *path,
                       const char *second, enum brig_origin origin, const char *where,
                       struct brig_error *err)
{
    int index = key_find(name);
    if (index < 0)
        return error_usage(err, STAGE, "%s: unknown key \"%.*s\"", where ? where : STAGE,
                           SHOWN(name));
    return set_pair(spec, index, path, second, origin, where ? where : name, err);
}

int spec_add_guards(struct brig_spec *spec, const struct strings *paths)
{
    int ret = 0;
    for (size_t i = 0; i < paths->count && ret == 0; i++) {
        bool known = false;
        for (size_t j = 0; j < spec->guards.count && !known; j++)
            known = strcmp(spec->guards.items[j], paths->items[i]) == 0;
        if (known)
            continue;
        spec_changes(spec);
        ret = strings_add_text(&spec->guards, paths->items[i]);
    }
    return ret;
}

static int guard_path(struct brig_spec *spec, const char *path, bool may_miss,
                      struct brig_error *err)
{
    struct strings paths = {0};
    struct way way;
    int ret = way_find(&paths, NULL, path, &way);
    if (ret == 0 && !may_miss)
        ret = -way.missing;
    if (ret == 0)
        ret = spec_add_guards(spec, &paths);
    strings_done(&paths);
    return ret < 0 ? error_system(err, STAGE, -ret, "%.200s: %s", path, error_text(-ret)) : 0;
}

int brig_spec_guard(struct brig_spec *spec, const char *path, struct brig_error *err)
{
    const struct strings *files = &spec->values[KEY_ENV_FILE].list;
    int ret = path ? guard_path(spec, path, false, err) : 0;
    for (size_t i = 0; !path && i < files->count && ret == 0; i++)
        ret = guard_path(spec, files->items[i], true, err);
    return ret;
}

void brig_spec_share(struct brig_spec *spec)
{
    for (int i = 0; i < KEY_COUNT; i++) {
        if (!key_table[i].shared || spec_asked(spec, (enum key)i))
            continue;
        spec_changes(spec);
        key_parse_number(&key_table[i], key_table[i].shared, &spec->values[i].number);
    }
}

bool spec_redacts(const struct brig_spec *spec)
{
    if (spec_asked(spec, KEY_REDACT) || spec->values[KEY_REDACT].number == REDACT_ON)
        return spec->values[KEY_REDACT].number == REDACT_ON;
    return spec_asked(spec, KEY_REDACT_PATTERN) || spec_asked(spec, KEY_REDACT_SET);
}

bool spec_hides_words(const struct brig_spec *spec)
{
    return spec_redacts(spec) || !spec_asked(spec, KEY_REDACT);
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
            return error_system(err, STAGE, -ret, "command: %s", error_text(-ret));
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
    if (fd < -1)
        return error_usage(err, STAGE, "stdin: %d is not a file descriptor", fd);
    spec->stdin_fd = fd;
    spec->gives_stdin = false;
    return 0;
}

int brig_spec_give_stdin(struct brig_spec *spec, int fd, struct brig_error *err)
{
    if (fcntl(fd, F_GET_SEALS) < 0)
        return error_usage(err, STAGE, "stdin: %d is not a memory file", fd);
    spec->stdin_fd = fd;
    spec->gives_stdin = true;
    return 0;
}

int brig_spec_give_input(struct brig_spec *spec, const void *bytes, size_t len,
                         struct brig_error *err)
{
    if (bytes && (len == 0 || len > BRIG_INPUT_MAX))
        return error_usage(err, STAGE, "input: %zu bytes; it has at least 1 and at most %d", len,
                           BRIG_INPUT_MAX);
    spec->input = bytes;
    spec->input_len = bytes ? len : 0;
    return 0;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

/* The context of the text being read, for messages and for the one rule that differs. */
struct reading {
    struct brig_spec *spec;
    enum brig_origin origin;
    const char *name;   /* name of the text */
    const char *prefix; /* "" or "limits." */
    bool limits_only;
};

/* Read {"path": P} with "dest" or "size", depending on the key. */
static int read_pair(const struct reading *r, int index, const struct jsonr *item,
                     const char *where, struct brig_error *err)
{
    const char *name = key_table[index].second, *path = NULL, *second = NULL;
    char number[JSONR_NUMBER_SIZE];
    for (const struct jsonr *m = item->first; m; m = m->next) {
        bool is_path = strcmp(m->key, "path") == 0;
        if (!is_path && strcmp(m->key, name) != 0)
            return error_usage(err, STAGE, "%s.%.*s: is not a key; there are path and %s", where,
                               SHOWN(m->key), name);
        if (is_path && m->type == JSONR_STRING)
            path = m->text;
        else if (is_path || !jsonr_scalar(m, &second, number))
            return error_usage(err, STAGE, "%s.%s: is not a string", where, m->key);
    }
    if (!path)
        return error_usage(err, STAGE, "%s.path: is missing", where);
    return set_pair(r->spec, index, path, second, r->origin, where, err);
}

static int read_list(const struct reading *r, int index, const struct jsonr *value,
                     const char *where, struct brig_error *err)
{
    size_t i = 0;
    for (const struct jsonr *item = value->first; item; item = item->next, i++) {
        char place[416];
        int ret = 0;
        snprintf(place, sizeof place, "%s[%zu]", where, i);
        if (item->type == JSONR_OBJECT && key_table[index].second)
            ret = read_pair(r, index, item, place, err);
        else if (item->type == JSONR_STRING)
            ret = set_value(r->spec, index, item->text, r->origin, where, err);
        else
            ret = error_usage(err, STAGE, "%s: is not a string%s", place,
                              key_table[index].second ? " or an object" : "");
        if (ret < 0)
            return ret;
    }
    return 0;
}

static int read_map(const struct reading *r, int index, const struct jsonr *value,
                    const char *where, struct brig_error *err)
{
    for (const struct jsonr *item = value->first; item; item = item->next) {
        const char *name = item->key, *text = NULL;
        char number[JSONR_NUMBER_SIZE];
        if (!jsonr_scalar(item, &text, number))
            return error_usage(err, STAGE, "%s.%.*s: is not a string or a number", where,
                               SHOWN(name));
        if (!*name || strchr(name, '='))
            return error_usage(err, STAGE, "%s: \"%.*s\" is not a name", where, SHOWN(name));
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

static int read_command(const struct reading *r, const struct jsonr *value, struct brig_error *err)
{
    size_t count = 0;
    if (value->type != JSONR_ARRAY || value->count == 0)
        return error_usage(err, STAGE, "%s: command: is not an array of strings", r->name);
    autofree const char **argv = calloc(value->count, sizeof *argv);
    if (!argv)
        return error_memory(err, STAGE);
    for (const struct jsonr *item = value->first; item; item = item->next) {
        if (item->type != JSONR_STRING)
            return error_usage(err, STAGE, "%s: command[%zu]: is not a string", r->name, count);
        argv[count++] = item->text;
    }
    if (count == 0 || !*argv[0])
        return error_usage(err, STAGE, "%s: command: is empty", r->name);
    return brig_spec_set_command(r->spec, argv, count, err);
}

static int read_member(const struct reading *r, const struct jsonr *value, struct brig_error *err)
{
    char where[384], number[JSONR_NUMBER_SIZE], hint[NEAREST_HINT_SIZE];
    const char *name = value->key, *text;
    snprintf(where, sizeof where, "%.*s: %s%.*s", (int)text_cut(r->name, 240), r->name, r->prefix,
             SHOWN(name));
    if (!r->limits_only && strcmp(name, "command") == 0)
        return read_command(r, value, err);
    int index = key_find(name);
    if (index < 0)
        return error_usage(err, STAGE, "%s: is not a key%s", where,
                           key_hint(name, r->limits_only, hint));
    if (r->limits_only && !key_table[index].limit)
        return error_usage(err, STAGE, "%s: is not a limit", where);
    enum brig_key_type type = key_table[index].type;
    bool list = type == BRIG_TYPE_LIST || type == BRIG_TYPE_MAP;
    if (list && value->type == JSONR_ARRAY)
        return read_list(r, index, value, where, err);
    if (type == BRIG_TYPE_MAP && value->type == JSONR_OBJECT)
        return read_map(r, index, value, where, err);
    if (list)
        return error_usage(err, STAGE, "%s: is not an array%s", where,
                           type == BRIG_TYPE_MAP ? " or an object" : "");
    if (!jsonr_scalar(value, &text, number))
        return error_usage(err, STAGE, "%s: is not a string or a number", where);
    return set_value(r->spec, index, text, r->origin, where, err);
}

static int read_members(const struct reading *r, const struct jsonr *object, struct brig_error *err)
{
    int ret = 0;
    for (const struct jsonr *value = object->first; value && ret == 0; value = value->next)
        ret = read_member(r, value, err);
    return ret;
}

struct brig_spec *spec_copy(const struct brig_spec *spec)
{
    struct brig_spec *copy = calloc(1, sizeof *copy);
    if (!copy)
        return NULL;
    bool failed = strings_copy(&copy->command, &spec->command) < 0 ||
                  strings_copy(&copy->guards, &spec->guards) < 0;
    copy->state = spec->state;
    memcpy(copy->sinks, spec->sinks, sizeof copy->sinks);
    copy->stdin_fd = spec->stdin_fd;
    copy->gives_stdin = spec->gives_stdin;
    copy->hides_host = spec->hides_host;
    copy->input = spec->input;
    copy->input_len = spec->input_len;
    copy->template = template_hold(spec->template);
    copy->serves = template_hold(spec->serves);
    for (int i = 0; i < KEY_COUNT; i++) {
        const struct spec_value *from = &spec->values[i];
        struct spec_value *to = &copy->values[i];
        *to = (struct spec_value){.origin = from->origin, .set = from->set, .number = from->number};
        if (from->text && !(to->text = strdup(from->text)))
            failed = true;
        failed = failed || strings_copy(&to->list, &from->list) < 0;
    }
    if (failed) {
        brig_spec_free(copy);
        return NULL;
    }
    return copy;
}

int brig_spec_copy(const struct brig_spec *spec, struct brig_spec **out, struct brig_error *err)
{
    struct brig_spec *copy = spec_copy(spec);
    if (!copy)
        return error_memory(err, STAGE);
    *out = copy;
    return 0;
}

void brig_spec_hide_host(struct brig_spec *spec)
{
    spec->hides_host = true;
}

char *brig_spec_get(const struct brig_spec *spec, const char *name)
{
    char number[KEY_TEXT_SIZE];
    int index = key_find(name);
    const struct spec_value *value = index < 0 ? NULL : &spec->values[index];
    if (!value || !value->set)
        return NULL;
    if (!key_is_number(&key_table[index]))
        return value->text ? strdup(value->text) : NULL;
    key_format_number(&key_table[index], value->number, number);
    return strdup(number);
}

int brig_spec_lower(struct brig_spec *spec, const char *name, const char *text, const char *where,
                    struct brig_error *err)
{
    int index = key_find(name);
    uint64_t number = 0;
    if (index < 0 || !key_is_bounded(&key_table[index]))
        return error_usage(err, STAGE, "%s: is not a limit", where);
    const char *why = key_parse_number(&key_table[index], text, &number);
    if (why)
        return bad_value(err, &key_table[index], where, text, why);
    if (spec->values[index].set && number > spec->values[index].number) {
        char want[KEY_TEXT_SIZE], most[KEY_TEXT_SIZE];
        key_format_number(&key_table[index], number, want);
        key_format_number(&key_table[index], spec->values[index].number, most);
        return error_refused(err, STAGE, "%s: %s is over the maximum of %s", where, want, most);
    }
    return set_value(spec, index, text, BRIG_FROM_OPTION, where, err);
}

/* Read into a copy, which replaces the spec only on success: a text that is refused half-way, or a
 * lack of memory, changes nothing. */
static int read_checked(struct reading r, const struct jsonr *object, struct brig_error *err)
{
    struct brig_spec *spec = r.spec;
    r.spec = spec_copy(spec);
    if (!r.spec)
        return error_memory(err, STAGE);
    int ret = read_members(&r, object, err);
    if (ret == 0) {
        struct brig_spec old = *spec;
        *spec = *r.spec;
        *r.spec = old;
    }
    brig_spec_free(r.spec);
    return ret;
}

int spec_read_member(struct brig_spec *spec, const struct jsonr *member, const char *name,
                     struct brig_error *err)
{
    struct reading r = {.spec = spec, .origin = BRIG_FROM_SPEC, .name = name, .prefix = ""};
    return read_member(&r, member, err);
}

int brig_spec_read_json(struct brig_spec *spec, const char *text, size_t len, const char *name,
                        struct brig_error *err)
{
    struct jsonr *root = jsonr_object(text, len, BRIG_SPEC_MAX, name, STAGE, err);
    if (!root)
        return -errno;
    struct reading r = {.spec = spec, .origin = BRIG_FROM_SPEC, .name = name, .prefix = ""};
    int ret = read_checked(r, root, err);
    jsonr_free(root);
    return ret;
}

int brig_spec_read_metadata(struct brig_spec *spec, const char *text, size_t len, const char *name,
                            struct brig_error *err)
{
    struct jsonr *root = jsonr_object(text, len, BRIG_SPEC_MAX, name, STAGE, err);
    if (!root)
        return -errno;
    struct reading r = {.spec = spec,
                        .origin = BRIG_FROM_METADATA,
                        .name = name,
                        .prefix = "limits.",
                        .limits_only = true};
    const struct jsonr *limits = jsonr_get(root, "limits");
    int ret = 0;
    if (limits && limits->type != JSONR_OBJECT)
        ret = error_usage(err, STAGE, "%s: limits: is not an object", name);
    else if (limits)
        ret = read_checked(r, limits, err);
    jsonr_free(root);
    return ret;
}

void brig_spec_set_template(struct brig_spec *spec, struct brig_template *template)
{
    spec_changes(spec);
    template_hold(template);
    template_drop(spec->template);
    spec->template = template;
}
