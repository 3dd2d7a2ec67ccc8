/* SPDX-License-Identifier: MIT */
/* lib/schema.c: any schema and any value. The input is an object with both, {"schema": ...,
 * "value": ...}. Either the schema is refused with a printable message, or the value is valid or
 * not; a valid value is not valid for {"not": the schema}. */
#include "lib/tools/schema.h"

#include <errno.h>
#include <time.h>

#include "target.h"

#define INPUT_MAX (1u << 16)

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int check(const struct jsonr *source, const struct jsonr *value, struct brig_error *err)
{
    struct schema *schema = NULL;
    int ret = schema_new(&schema, source, "schema", err);
    if (ret < 0) {
        ensure(ret == -EINVAL && err->fault == BRIG_FAULT_USAGE && is_printable(err->text));
        ensure(!schema && strncmp(err->text, "schema: ", 8) == 0);
        return ret;
    }
    ret = schema_check(schema, value, "value", err);
    int again = schema_check(schema, value, "value", NULL);
    ensure(ret == again);
    if (ret < 0) {
        ensure(ret == -EINVAL && err->fault == BRIG_FAULT_USAGE && is_printable(err->text));
        ensure(strncmp(err->text, "value: ", 7) == 0 && strlen(err->text) > 7);
    }
    schema_free(schema);
    return ret < 0;
}

/* Check {"not": the schema}. References may be broken there, and a schema that was too much work is
 * so again. */
static void check_inverse(struct jsonr *source, const struct jsonr *value, int result,
                          const struct brig_error *before)
{
    char name[] = "not";
    struct jsonr root = {.type = JSONR_OBJECT, .count = 1, .first = source, .last = source};
    struct jsonr *parent = source->parent, *next = source->next;
    char *key = source->key;
    struct brig_error err = {0};
    source->key = name;
    source->next = NULL;
    source->parent = &root;
    int inverse = check(&root, value, &err);
    source->key = key;
    source->next = next;
    source->parent = parent;
    bool unsure = inverse < 0 || strstr(err.text, "too much") || strstr(err.text, "nested") ||
                  strstr(before->text, "too much") || strstr(before->text, "nested");
    ensure(unsure || inverse == !result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct brig_error err = {0};
    char *text = target_text(data, size);
    struct jsonr *root = jsonr_object(text, size, INPUT_MAX, "input", "fuzz", &err);
    struct jsonr *source = root ? (struct jsonr *)jsonr_get(root, "schema") : NULL;
    const struct jsonr *value = root ? jsonr_get(root, "value") : NULL;
    if (source && value) {
        double start = now();
        err = (struct brig_error){0};
        int result = check(source, value, &err);
        if (result >= 0 && !strstr(text, "$ref"))
            check_inverse(source, value, result, &err);
        ensure(now() - start < 60); /* with sanitizers, and for five checks */
    }
    jsonr_free(root);
    free(text);
    return 0;
}
