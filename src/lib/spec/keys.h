/* SPDX-License-Identifier: MIT */
/* The table of keys: every setting of a spec, in one place. */
#ifndef LIB_KEYS_H
#define LIB_KEYS_H

#include "base/nearest.h"
#include "brig.h"

/* In the order of the table. */
enum key {
    KEY_MEMORY,
    KEY_CPUS,
    KEY_CPU_PRIORITY,
    KEY_PIDS,
    KEY_TIMEOUT,
    KEY_KILL_AFTER,
    KEY_CPU_TIME,
    KEY_OUTPUT,
    KEY_RESULT_SIZE,
    KEY_ON_OUTPUT_LIMIT,
    KEY_ON_PIDS_LIMIT,
    KEY_OPEN_FILES,
    KEY_FILE_SIZE,
    KEY_WORKDIR,
    KEY_RO,
    KEY_RW,
    KEY_TMPFS,
    KEY_VIEW,
    KEY_ENV,
    KEY_ENV_FILE,
    KEY_NETWORK,
    KEY_ISOLATION,
    KEY_STDIN,
    KEY_CHANNEL,
    KEY_REDACT,
    KEY_REDACT_SET,
    KEY_REDACT_PATTERN,
    KEY_LABELS,
    KEY_REQUIRE,
    KEY_COUNT,
};

enum { ON_LIMIT_KILL = 0, ON_OUTPUT_TRUNCATE = 1, ON_PIDS_FAIL = 1 };
enum { CPU_PRIORITY_NORMAL = 0, CPU_PRIORITY_LOW = 1 };
enum { VIEW_MINIMAL = 0, VIEW_HOST = 1 };
enum { NETWORK_NONE = 0, NETWORK_HOST = 1 };
enum { ISOLATION_CELL = 0, ISOLATION_AUTO = 1 };
enum { REDACT_ON = 0, REDACT_OFF = 1 };
enum { CHANNEL_KEY_OFF = 0, CHANNEL_KEY_ON = 1 };

extern const struct brig_key key_table[KEY_COUNT];

/* The index of the row, or -1. */
int key_find(const char *name);

/* A hint for a name that is not a key (or not a limit): " (did you mean memory?)", or an empty
 * text. */
const char *key_hint(const char *name, bool limits_only, char out[NEAREST_HINT_SIZE]);

/* Parse the value of a numeric key. Returns NULL, or the reason why the value is wrong. "unlimited"
 * becomes BRIG_UNLIMITED if the key accepts it; a choice becomes its index. */
const char *key_parse_number(const struct brig_key *key, const char *text, uint64_t *out);

/* Format a value as a person would write it. */
#define KEY_TEXT_SIZE 64
void key_format_number(const struct brig_key *key, uint64_t value, char out[KEY_TEXT_SIZE]);

/* True if the operator's file may bound the key, and brig_spec_lower() may lower it. */
bool key_is_bounded(const struct brig_key *key);

/* True if the values of the key are numbers (sizes, durations, counts, CPUs, choices). */
bool key_is_number(const struct brig_key *key);

#endif
