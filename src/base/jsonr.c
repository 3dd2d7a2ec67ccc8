/* Reading JSON. */
#include "jsonr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

json_t *jsonr_object(const char *text, size_t len, size_t max, const char *name, const char *stage,
                     struct brig_error *err)
{
    errno = EINVAL;
    if (len > max) {
        error_usage(err, stage, "%s: is larger than %zu bytes", name, max);
        return NULL;
    }
    json_error_t where;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
    /* jansson does not always say that it was memory; but what is wrong with a text it always says.
     */
    if (!root && (json_error_code(&where) == json_error_out_of_memory || !where.text[0])) {
        error_memory(err, stage);
        errno = ENOMEM;
        return NULL;
    }
    if (!root) {
        errno = EINVAL;
        error_usage(err, stage, "%s: line %d, column %d: %s", name, where.line, where.column,
                    where.text);
        return NULL;
    }
    if (!json_is_object(root)) {
        error_usage(err, stage, "%s: is not a JSON object", name);
        json_decref(root);
        errno = EINVAL;
        return NULL;
    }
    return root;
}

bool jsonr_scalar(const json_t *value, const char **text, char number[JSONR_NUMBER_SIZE])
{
    if (json_is_string(value)) {
        *text = json_string_value(value);
        return true;
    }
    if (!json_is_number(value))
        return false;
    size_t len =
        json_dumpb(value, number, JSONR_NUMBER_SIZE - 1, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    if (len == 0 || len >= JSONR_NUMBER_SIZE)
        return false;
    number[len] = 0;
    if (strchr(number, 'e') && json_real_value(value) < 1e18) {
        /* 5e-05: the same without an exponent, and with a point whatever the locale has for it. */
        len = (size_t)snprintf(number, JSONR_NUMBER_SIZE, "%.9f", json_real_value(value));
        number[strcspn(number, ".,")] = '.';
    }
    /* A whole number that was written as a real one: 8589934592.0 */
    if (len > 2 && strcmp(number + len - 2, ".0") == 0)
        number[len - 2] = 0;
    *text = number;
    return true;
}
