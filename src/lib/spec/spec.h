/* SPDX-License-Identifier: MIT */
/* A spec: the values of all keys with their origin, the command, and the destinations of its
 * streams. Programs fill it through brig.h; plan.c reads it. */
#ifndef LIB_SPEC_H
#define LIB_SPEC_H

#include "base/strings.h"
#include "brig.h"
#include "keys.h"

struct spec_value {
    enum brig_origin origin;
    bool set;            /* has a value, which may be the default */
    uint64_t number;     /* of numeric keys */
    char *text;          /* of paths and texts */
    struct strings list; /* of lists and maps, in the order given */
};

struct spec_sink {
    enum brig_sink kind;
    int fd;
};

struct toolchain;

struct brig_spec {
    uint64_t state; /* version of values and template: different contents have different numbers */
    struct spec_value values[KEY_COUNT];
    struct strings command;
    struct strings guards;     /* paths that the guest must not change, in the form of way_find() */
    struct spec_sink sinks[3]; /* by enum brig_stream; [0] is not used */
    int stdin_fd;              /* -1 if there is none */
    bool gives_stdin;          /* the guest gets stdin_fd itself, without the stdin relay */
    const void *input;         /* owned by the caller; NULL if there is none */
    size_t input_len;
    const struct toolchain *toolchain; /* tool chain of the command, to skip the lookup; or NULL */
    bool hides_host;                   /* the reader of the result is not the caller: see brig.h */
    const char *home;                  /* the caller's HOME, to skip the lookup; or NULL */
    struct brig_template *template;    /* the run is a call of this template; or NULL */
    struct brig_template *serves;      /* the run becomes this template; or NULL */
};

/* Must be called before every change of values or template. Only spec.c changes them. */
void spec_changes(struct brig_spec *spec);

/* Add paths found by way_find(). Returns 0 or -errno. */
int spec_add_guards(struct brig_spec *spec, const struct strings *paths);

/* Set a number, with the origin of an option. */
void spec_set_number(struct brig_spec *spec, enum key key, uint64_t number);

/* True if the value was requested, from any origin; false if it is brig's own default. */
static inline bool spec_asked(const struct brig_spec *spec, enum key key)
{
    return spec->values[key].origin != BRIG_FROM_DEFAULT;
}

/* spec_redacts(): secrets are hidden in the output of the guest. spec_hides_words(): secrets are
 * hidden in brig's own messages, unless redaction is explicitly off. */
bool spec_redacts(const struct brig_spec *spec);
bool spec_hides_words(const struct brig_spec *spec);
/* Hide the secrets in a message about this spec, which may be NULL. Defined in spec_words.c. */
void spec_hide_error(const struct brig_spec *spec, struct brig_error *err);

/* Apply one member of a JSON object: a key of the table, or "command". */
struct jsonr;
int spec_read_member(struct brig_spec *spec, const struct jsonr *member, const char *name,
                     struct brig_error *err);

/* Returns NULL without memory. */
struct brig_spec *spec_copy(const struct brig_spec *spec);

#endif
