/* Reading JSON. */
#include "jsonr.h"

#include "error.h"

json_t *jsonr_object(const char *text, size_t len, size_t max, const char *name, const char *stage,
                     struct brig_error *err)
{
    if (len > max) {
        error_usage(err, stage, "%s: is larger than %zu bytes", name, max);
        return NULL;
    }
    json_error_t where;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
    if (!root) {
        error_usage(err, stage, "%s: line %d, column %d: %s", name, where.line, where.column,
                    where.text);
        return NULL;
    }
    if (!json_is_object(root)) {
        error_usage(err, stage, "%s: is not a JSON object", name);
        json_decref(root);
        return NULL;
    }
    return root;
}
