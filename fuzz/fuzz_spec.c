/* SPDX-License-Identifier: MIT */
/* lib/spec.c: a spec and a job's metadata of unknown origin. A refused text changes nothing and has
 * a printable message; accepted values are in range and, for metadata, limits. */
#include "lib/spec/spec.h"

#include "same_spec.h"
#include "target.h"

static struct brig_spec *new_spec(void)
{
    static const char *const command[] = {"old"};
    struct brig_spec *spec;
    ensure(brig_spec_new(&spec, NULL) == 0);
    ensure(brig_spec_set_command(spec, command, 1, NULL) == 0);
    ensure(brig_spec_set(spec, "env", "OLD=1", BRIG_FROM_SPEC, NULL, NULL) == 0);
    ensure(brig_spec_set(spec, "pids", "7", BRIG_FROM_OPTION, NULL, NULL) == 0);
    return spec;
}

static void check_number(const struct brig_key *key, const struct spec_value *value)
{
    uint64_t again = 0;
    char text[KEY_TEXT_SIZE];
    ensure(value->number > 0 || key->type == BRIG_TYPE_CHOICE);
    ensure(value->number != BRIG_UNLIMITED || key->unlimited);
    key_format_number(key, value->number, text);
    ensure(strlen(text) > 0);
    if (key->type == BRIG_TYPE_CHOICE)
        ensure(!key_parse_number(key, text, &again) && again == value->number);
}

static void check_entry(const struct brig_key *key, const char *entry)
{
    ensure(*entry && *entry != '=');
    if (strcmp(key->name, "labels") == 0)
        ensure(strchr(entry, '='));
}

static void check_value(const struct brig_spec *spec, int index, enum brig_origin origin)
{
    const struct brig_key *key = &key_table[index];
    const struct spec_value *value = &spec->values[index];
    ensure(value->origin == BRIG_FROM_DEFAULT || value->set);
    ensure(value->origin == BRIG_FROM_DEFAULT || value->origin == BRIG_FROM_OPTION ||
           value->origin <= origin);
    if (value->set && key_is_number(key))
        check_number(key, value);
    if (key->type == BRIG_TYPE_PATH || key->type == BRIG_TYPE_TEXT)
        ensure(!value->set || (value->text && *value->text));
    for (size_t i = 0; i < value->list.count; i++) {
        if (key->type == BRIG_TYPE_MAP)
            check_entry(key, value->list.items[i]);
    }
}

static void check_error(const struct brig_error *err)
{
    ensure(err->fault == BRIG_FAULT_USAGE);
    ensure(strlen(err->text) < sizeof err->text && err->text[0] && is_printable(err->text));
}

/* Reading the same text again sets the same values; only lists grow. */
static void check_again(const struct brig_spec *spec, const char *text, size_t size)
{
    struct brig_spec *again = new_spec();
    ensure(brig_spec_read_json(again, text, size, "again", NULL) == 0);
    ensure(same_spec(spec, again));
    ensure(brig_spec_read_json(again, text, size, "again", NULL) == 0);
    ensure(same_list(&spec->command, &again->command));
    for (int i = 0; i < KEY_COUNT; i++)
        ensure(spec->values[i].number == again->values[i].number &&
               same_text(spec->values[i].text, again->values[i].text));
    brig_spec_free(again);
}

static void check_json(const char *text, size_t size, const struct brig_spec *twin)
{
    struct brig_error err = {0};
    struct brig_spec *spec = new_spec();
    if (brig_spec_read_json(spec, text, size, "job.json", &err) < 0) {
        check_error(&err);
        ensure(same_spec(spec, twin));
    } else {
        ensure(spec->command.count > 0 && *spec->command.items[0]);
        ensure(spec->values[KEY_PIDS].number == 7); /* the option wins */
        for (int i = 0; i < KEY_COUNT; i++)
            check_value(spec, i, BRIG_FROM_SPEC);
        check_again(spec, text, size);
    }
    brig_spec_free(spec);
}

static void check_metadata(const char *text, size_t size, struct brig_spec *twin)
{
    struct brig_error err = {0};
    struct brig_spec *spec = new_spec();
    int ret = brig_spec_read_metadata(spec, text, size, "meta.json", &err);
    if (ret < 0)
        check_error(&err);
    for (int i = 0; i < KEY_COUNT; i++) {
        check_value(spec, i, BRIG_FROM_METADATA);
        if (ret == 0 && key_table[i].limit) /* only limits may differ */
            twin->values[i] = spec->values[i];
    }
    ensure(same_spec(spec, twin));
    brig_spec_free(spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = target_text(data, size);
    struct brig_spec *twin = new_spec();
    check_json(text, size, twin);
    check_metadata(text, size, twin);
    brig_spec_free(twin);
    free(text);
    return 0;
}
