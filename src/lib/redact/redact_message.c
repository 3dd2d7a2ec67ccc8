/* SPDX-License-Identifier: MIT */
/* Redacts the text that brig itself produces: messages, the recorded command line, labels. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/strings.h"
#include "redact.h"

#define GROWS_TO 64 /* times its length, if all of it is secrets with long names */

static char *copy(const struct redact_rules *rules, const char *text, size_t len)
{
    struct buf shown;
    buf_init(&shown, len * GROWS_TO + 64);
    int ret = redact_text(rules, text, len, &shown, NULL);
    char *taken = ret == 0 ? buf_take(&shown, NULL) : NULL;
    buf_done(&shown);
    return taken || ret == -ENOMEM ? taken : strdup("[withheld]");
}

char *redact_copy(const struct redact_rules *rules, const char *text)
{
    return copy(rules, text, strlen(text));
}

char *brig_redact(const char *text, size_t len)
{
    struct redact_rules *rules = NULL;
    if (redact_rules_new(&rules, NULL, NULL, NULL) < 0)
        return NULL;
    char *shown = copy(rules, text, len);
    redact_rules_free(rules);
    return shown;
}

/* Redact the whole entry, because the name tells what kind of value follows. If the '=' is lost,
 * show only the redacted name.
 */
static char *redact_entry(const struct redact_rules *rules, const char *entry)
{
    char *shown = redact_copy(rules, entry);
    size_t name = strcspn(entry, "=");
    if (!shown || strncmp(shown, entry, name + 1) == 0)
        return shown;
    free(shown);
    autofree char *text = strndup(entry, name);
    autofree char *safe = text ? redact_copy(rules, text) : NULL;
    if (!safe || asprintf(&shown, "%.*s=[redacted]", (int)strcspn(safe, "="), safe) < 0)
        return NULL;
    return shown;
}

int redact_strings(const struct redact_rules *rules, struct strings *list)
{
    for (size_t i = 0; rules && i < list->count; i++) {
        char *shown = redact_entry(rules, list->items[i]);
        if (!shown)
            return -ENOMEM;
        free(list->items[i]);
        list->items[i] = shown;
    }
    return 0;
}
