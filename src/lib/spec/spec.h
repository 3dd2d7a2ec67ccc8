/* A spec: the values of all keys with where they came from, the command, and where streams go.
 * Filled by the programs through brig.h, read by plan.c. */
#ifndef LIB_SPEC_H
#define LIB_SPEC_H

#include "base/strings.h"
#include "brig.h"
#include "keys.h"

struct spec_value {
    enum brig_origin origin;
    bool set;            /* has a value, a default counts */
    uint64_t number;     /* of numeric keys */
    char *text;          /* of paths and texts */
    struct strings list; /* of lists and maps, in the order given */
};

struct spec_sink {
    enum brig_sink kind;
    int fd;
};

struct brig_spec {
    uint64_t state; /* of values and template: two specs that differ in these have two of them */
    struct spec_value values[KEY_COUNT];
    struct strings command;
    struct spec_sink sinks[3]; /* by enum brig_stream; [0] is not used */
    int stdin_fd;              /* -1: none */
    bool gives_stdin;          /* the guest gets it, and is not fed from it */
    const void *input;         /* the caller's; NULL: none */
    size_t input_len;
    char *home;                     /* the caller's HOME, if it is not to be looked up; NULL */
    struct brig_template *template; /* a call of this one; NULL */
    struct brig_template *serves;   /* what is run is to be this one; NULL */
};

/* To be called before values or template are changed: only here, and in template.c. */
void spec_changes(struct brig_spec *spec);

/* As an option would. */
void spec_set_number(struct brig_spec *spec, enum key key, uint64_t number);

/* Was it asked for, by whatever origin, or is it brig's own default? */
static inline bool spec_asked(const struct brig_spec *spec, enum key key)
{
    return spec->values[key].origin != BRIG_FROM_DEFAULT;
}

/* Set what one member of a JSON object says: a key of the table, or "command". */
struct jsonr;
int spec_read_member(struct brig_spec *spec, const struct jsonr *member, const char *name,
                     struct brig_error *err);

/* NULL without memory. */
struct brig_spec *spec_copy(const struct brig_spec *spec);

#endif
