/* SPDX-License-Identifier: MIT */
/* base/jsonr.c: accepts and refuses the same texts as another library's parser, and reads the same
 * values. */
#include "base/jsonr.h"

#include <jansson.h>
#include <math.h>

#include "target.h"

static void compare(const struct jsonr *ours, json_t *theirs);

static void compare_object(const struct jsonr *ours, json_t *theirs)
{
    const char *key;
    json_t *value;
    const struct jsonr *member = ours->first;
    ensure(ours->count == json_object_size(theirs));
    json_object_foreach(theirs, key, value)
    {
        ensure(member && strcmp(member->key, key) == 0);
        ensure(jsonr_get(ours, key) == member);
        compare(member, value);
        member = member->next;
    }
    ensure(!member);
}

static void compare_number(const struct jsonr *ours, json_t *theirs)
{
    char number[JSONR_NUMBER_SIZE];
    const char *text;
    ensure(jsonr_scalar(ours, &text, number));
    if (json_is_integer(theirs)) {
        ensure(strtoll(text, NULL, 10) == json_integer_value(theirs));
        return;
    }
    double value = json_real_value(theirs), read = strtod(text, NULL);
    ensure(fabs(read - value) <= fabs(value) * 1e-14);
}

static void compare(const struct jsonr *ours, json_t *theirs)
{
    const struct jsonr *item = ours->first;
    switch (ours->type) {
    case JSONR_NULL:
        ensure(json_is_null(theirs));
        return;
    case JSONR_FALSE:
        ensure(json_is_false(theirs));
        return;
    case JSONR_TRUE:
        ensure(json_is_true(theirs));
        return;
    case JSONR_NUMBER:
        ensure(json_is_number(theirs));
        compare_number(ours, theirs);
        return;
    case JSONR_STRING:
        ensure(json_is_string(theirs) && ours->len == json_string_length(theirs));
        ensure(memcmp(ours->text, json_string_value(theirs), ours->len + 1) == 0);
        return;
    case JSONR_ARRAY:
        ensure(json_is_array(theirs) && ours->count == json_array_size(theirs));
        for (size_t i = 0; i < ours->count; i++, item = item->next)
            compare(item, json_array_get(theirs, i));
        ensure(!item);
        return;
    case JSONR_OBJECT:
        ensure(json_is_object(theirs));
        compare_object(ours, theirs);
        return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct brig_error err = {0};
    json_error_t where;
    char *text = malloc(size ? size : 1); /* without a NUL at the end */
    ensure(text);
    memcpy(text, data, size);
    struct jsonr *ours = jsonr_object(text, size, 1 << 20, "text", "fuzz", &err);
    json_t *theirs = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
    if (ours && theirs)
        compare(ours, theirs);
    else if (ours) /* parsers differ only for the last few numbers below infinity */
        ensure(json_error_code(&where) == json_error_numeric_overflow);
    else /* the other parser overlooks a NUL after a number */
        ensure(!theirs || !json_is_object(theirs) || strstr(err.text, "overflow") ||
               memchr(text, 0, size));
    ensure(ours || (is_printable(err.text) && err.fault == BRIG_FAULT_USAGE));
    jsonr_free(ours);
    json_decref(theirs);
    free(text);
    return 0;
}
