/* Hiding secrets in what brig says itself: messages, the recorded command line, labels. */
#include <stdio.h>
#include <string.h>

#include "redact.h"
#include "spec.h"

#define GROWS_TO 20 /* times its length, if all of it is secrets */

/* New memory, or NULL. */
static char *redact_with(const struct redact_rules *rules, const char *text, size_t len)
{
    struct buf shown;
    char *taken = NULL;
    buf_init(&shown, len * GROWS_TO + 64);
    if (redact_text(rules, text, len, &shown, NULL) == 0)
        taken = buf_take(&shown, NULL);
    buf_done(&shown);
    return taken;
}

char *brig_redact(const char *text, size_t len)
{
    struct redact_rules *rules = NULL;
    if (redact_rules_new(&rules, NULL, NULL, NULL) < 0)
        return NULL;
    char *shown = redact_with(rules, text, len);
    redact_rules_free(rules);
    return shown;
}

/* With the caller's own patterns, if those are well: a message may be about them. */
static struct redact_rules *rules_of(const struct brig_spec *spec)
{
    struct redact_rules *rules = NULL;
    const char *const *patterns = (const char *const *)spec->values[KEY_REDACT_PATTERN].list.items;
    if (redact_rules_new(&rules, spec->values[KEY_REDACT_SET].text, patterns, NULL) < 0 &&
        redact_rules_new(&rules, NULL, NULL, NULL) < 0)
        return NULL;
    return rules;
}

void redact_error(const struct brig_spec *spec, struct brig_error *err)
{
    if (!err || spec->values[KEY_REDACT].number == REDACT_OFF)
        return;
    struct redact_rules *rules = rules_of(spec);
    char *shown = rules ? redact_with(rules, err->text, strlen(err->text)) : NULL;
    /* What cannot be looked at is not shown. */
    snprintf(err->text, sizeof err->text, "%s", shown ? shown : "out of memory");
    brig_free(shown);
    redact_rules_free(rules);
}

int redact_strings(const struct redact_rules *rules, struct strings *list)
{
    for (size_t i = 0; rules && i < list->count; i++) {
        char *shown = redact_with(rules, list->items[i], strlen(list->items[i]));
        if (!shown)
            return -1;
        brig_free(list->items[i]);
        list->items[i] = shown;
    }
    return 0;
}
