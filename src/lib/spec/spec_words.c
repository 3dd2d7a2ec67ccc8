/* SPDX-License-Identifier: MIT */
/* Hides secrets in messages about a spec, with the patterns of the spec itself. */
#include <stdio.h>

#include "base/fd.h"
#include "lib/redact/redact.h"
#include "spec.h"

/* Use the caller's patterns if they are valid; the message may be about an invalid one. */
static struct redact_rules *rules_of(const struct brig_spec *spec)
{
    struct redact_rules *rules = NULL;
    const struct spec_value *values = spec ? spec->values : NULL;
    if (values &&
        redact_rules_new(&rules, values[KEY_REDACT_SET].text,
                         (const char *const *)values[KEY_REDACT_PATTERN].list.items, NULL) == 0)
        return rules;
    return redact_rules_new(&rules, NULL, NULL, NULL) == 0 ? rules : NULL;
}

void spec_hide_error(const struct brig_spec *spec, struct brig_error *err)
{
    if (!err || (spec && !spec_hides_words(spec)))
        return;
    struct redact_rules *rules = rules_of(spec);
    autofree char *shown = rules ? redact_copy(rules, err->text) : NULL;
    /* A text that could not be checked is not shown. */
    snprintf(err->text, sizeof err->text, "%s", shown ? shown : "out of memory");
    redact_rules_free(rules);
}
