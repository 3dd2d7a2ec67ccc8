/* SPDX-License-Identifier: MIT */
/* The scan for the built-in rules.
 *
 * Each rule begins with a literal of three bytes or more, its trigger. Two pairs of bytes of each
 * trigger are in a bitmap of all pairs: the rarest one at an even and the rarest one at an odd
 * distance from its start. So it is enough to look up every second pair of the text. On a hit the
 * trigger is compared, then the bytes known to follow it, and only then the regex of the rule runs;
 * it is compiled on first use. The rest of a secret, of any length, is swallowed without a regex.
 */
#include "redact_stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TRIGGERS_MAX  64
#define RULES_MAX     64
#define PAIRS_MAX     255
#define TRIGGER_LEN   16    /* at most */
#define TRIGGERS_HERE 4     /* triggers that start at the same position: pass and password */
#define SHAPE_LEN     256   /* bytes examined without a regex */
#define TABLE_FROM    32768 /* bytes of text; for less, the table costs more than it saves */
/* Uses of a rule. Compiling to machine code takes some ten times as long as compiling the regex. */
#define JIT_FROM 16
/* Bytes appended to the held ones, to then continue in the input without a copy. */
#define JOIN 1024

struct trigger {
    const char *text;
    uint8_t len;
    bool fold;
    uint8_t next;   /* index + 1 of the next trigger with the same first byte */
    uint64_t rules; /* a bit mask */
};

/* A pair of bytes in a trigger. */
struct pair {
    uint16_t value;
    uint8_t trigger, distance; /* from the start of the trigger */
    uint8_t next;              /* index + 1 of the next pair with the same hash */
    char beside;               /* the byte after the pair, or before it if the pair is the last */
    bool last, fold;
};

/* The bytes that must follow the trigger of a rule: some of `skip`, one of `then`, some of `skip2`,
 * one of `then2`. */
struct shape {
    struct redact_set skip, then, skip2, then2;
};

struct redact_catalog {
    uint64_t rules;
    bool ready;
    size_t trigger_count;
    struct trigger triggers[TRIGGERS_MAX];
    uint8_t first[256]; /* index + 1 of the first trigger that starts with the byte */
    uint64_t shaped;    /* bit mask of the rules whose shape is prepared */
    struct shape shapes[RULES_MAX];
    pcre2_match_data *match;
    pcre2_code *codes[RULES_MAX];
    unsigned uses[RULES_MAX];
    size_t pair_count;
    struct pair pairs[PAIRS_MAX];
    uint8_t hashed[256]; /* index + 1 of the first pair with the hash */
    uint32_t bitmap[65536 / 32];
    uint8_t *table; /* the bitmap with one byte per pair; created once enough bytes were scanned */
    size_t scanned;
};

static char folded(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c & ~0x20) : c;
}

static unsigned pair_at(const char *text)
{
    uint16_t pair;
    memcpy(&pair, text, sizeof pair);
    return pair;
}

static unsigned has_pair(const struct redact_catalog *catalog, const char *text)
{
    unsigned pair = pair_at(text);
    return catalog->bitmap[pair / 32] >> (pair % 32) & 1;
}

static unsigned hash(unsigned pair)
{
    return (pair * 0x9e35u >> 8) & 0xff;
}

/* ---- making ready -------------------------------------------------------------------------- */

int redact_catalog_new(struct redact_catalog **out, uint64_t rules)
{
    struct redact_catalog *catalog = calloc(1, sizeof *catalog);
    if (!catalog)
        return -ENOMEM;
    catalog->rules = rules;
    *out = catalog;
    return 0;
}

void redact_catalog_free(struct redact_catalog *catalog)
{
    if (!catalog)
        return;
    for (size_t i = 0; i < RULES_MAX; i++)
        pcre2_code_free(catalog->codes[i]);
    pcre2_match_data_free(catalog->match);
    free(catalog->table);
    free(catalog);
}

/* How common a byte is, from 0: letters in the order of English text. */
static unsigned commonness(char c)
{
    static const char order[] = "zqjxkvbpygfwmculdrhsnioate";
    const char *at = strchr(order, c);
    return at ? (unsigned)(at - order) + 1 : 6;
}

static size_t rarest_pair(const struct trigger *trigger, size_t from)
{
    size_t best = from;
    /* Not the last pair of a long trigger, which may be the first pair of another. */
    size_t end = trigger->len > 4 ? trigger->len - 2u : trigger->len - 1u;
    for (size_t i = from; i < end; i += 2)
        if (commonness(trigger->text[i]) * commonness(trigger->text[i + 1]) <
            commonness(trigger->text[best]) * commonness(trigger->text[best + 1]))
            best = i;
    return best;
}

static void add_pair(struct redact_catalog *catalog, unsigned value, size_t trigger,
                     size_t distance)
{
    struct pair *pair = &catalog->pairs[catalog->pair_count++];
    uint8_t *first = &catalog->hashed[hash(value)];
    const struct trigger *t = &catalog->triggers[trigger];
    bool last = distance + 2 == t->len;
    *pair = (struct pair){(uint16_t)value,
                          (uint8_t)trigger,
                          (uint8_t)distance,
                          *first,
                          t->text[last ? distance - 1 : distance + 2],
                          last,
                          t->fold};
    *first = (uint8_t)catalog->pair_count;
    catalog->bitmap[value / 32] |= UINT32_C(1) << (value % 32);
}

static void add_pairs(struct redact_catalog *catalog, size_t number, size_t distance)
{
    const struct trigger *trigger = &catalog->triggers[number];
    const char *text = trigger->text + distance;
    for (unsigned which = 0; which < 4; which++) {
        char pair[2] = {which & 1 ? upper(text[0]) : text[0], which & 2 ? upper(text[1]) : text[1]};
        bool same = ((which & 1) && pair[0] == text[0]) || ((which & 2) && pair[1] == text[1]);
        if (!same && (which == 0 || trigger->fold))
            add_pair(catalog, pair_at(pair), number, distance);
    }
}

static void link_first(struct redact_catalog *catalog, char c, uint8_t number)
{
    uint8_t *at = &catalog->first[(unsigned char)c];
    while (*at && *at != number)
        at = &catalog->triggers[*at - 1].next;
    *at = number;
}

static struct trigger *add_trigger(struct redact_catalog *catalog, const char *text, size_t len,
                                   bool fold)
{
    for (size_t i = 0; i < catalog->trigger_count; i++) {
        struct trigger *known = &catalog->triggers[i];
        if (known->len == len && known->fold == fold && memcmp(known->text, text, len) == 0)
            return known;
    }
    struct trigger *trigger = &catalog->triggers[catalog->trigger_count++];
    *trigger = (struct trigger){.text = text, .len = (uint8_t)len, .fold = fold};
    add_pairs(catalog, catalog->trigger_count - 1, rarest_pair(trigger, 0));
    add_pairs(catalog, catalog->trigger_count - 1, rarest_pair(trigger, 1));
    link_first(catalog, text[0], (uint8_t)catalog->trigger_count);
    if (fold)
        link_first(catalog, upper(text[0]), (uint8_t)catalog->trigger_count);
    return trigger;
}

static void make_ready(struct redact_catalog *catalog)
{
    for (size_t i = 0; i < redact_table_len; i++) {
        const struct redact_rule *rule = &redact_table[i];
        if (!(catalog->rules >> i & 1))
            continue;
        for (const char *t = rule->triggers; *t;) {
            size_t len = strcspn(t, "|");
            add_trigger(catalog, t, len, rule->fold)->rules |= UINT64_C(1) << i;
            t += len + (t[len] == '|');
        }
    }
    catalog->ready = true;
}

static const struct shape *shape_of(struct redact_catalog *catalog, size_t i)
{
    struct shape *shape = &catalog->shapes[i];
    const char *const *bytes = redact_table[i].shape;
    if (!(catalog->shaped >> i & 1)) {
        redact_set_add(&shape->skip, bytes[0]);
        redact_set_add(&shape->then, bytes[1]);
        redact_set_add(&shape->skip2, bytes[2]);
        redact_set_add(&shape->then2, bytes[3]);
        catalog->shaped |= UINT64_C(1) << i;
    }
    return shape;
}

/* ---- is there a secret at this position? --------------------------------------------------- */

enum answer { NO, YES, WAIT /* for more of the text */ };

/* The text to scan. `final` means that no more follows. */
struct text {
    const char *bytes;
    size_t end;
    bool final;
};

struct found {
    const struct redact_rule *rule;
    size_t secret; /* offset of its first byte */
    size_t tail;   /* offset of its tail */
};

/* Compile a rule, and allocate the memory for its matches. */
static int prepare(struct redact_catalog *catalog, size_t i)
{
    int error;
    PCRE2_SIZE offset;
    if (!catalog->match)
        catalog->match = pcre2_match_data_create(2, NULL);
    if (!catalog->codes[i])
        catalog->codes[i] = pcre2_compile(
            (PCRE2_SPTR)redact_table[i].regex, PCRE2_ZERO_TERMINATED,
            PCRE2_ANCHORED | (redact_table[i].fold ? PCRE2_CASELESS : 0), &error, &offset, NULL);
    if (!catalog->match || !catalog->codes[i])
        return -ENOMEM;
    if (++catalog->uses[i] == JIT_FROM) /* best effort */
        pcre2_jit_compile(catalog->codes[i], PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    return 0;
}

static int ask_regex(struct redact_catalog *catalog, size_t i, const struct text *text, size_t at,
                     struct found *found)
{
    int ret = prepare(catalog, i);
    if (ret < 0)
        return ret;
    size_t first = at > REDACT_LOOK_BACK ? at - REDACT_LOOK_BACK : 0;
    size_t end = text->end - at > REDACT_DECIDES ? at + REDACT_DECIDES : text->end;
    uint32_t options = text->final && end == text->end ? 0 : PCRE2_PARTIAL_HARD;
    int rc = pcre2_match(catalog->codes[i], (PCRE2_SPTR)text->bytes + first, end - first,
                         at - first, options, catalog->match, NULL);
    if (rc == PCRE2_ERROR_PARTIAL)
        return end < text->end ? NO : WAIT;
    if (rc < 0)
        return rc == PCRE2_ERROR_NOMATCH ? NO : -ENOMEM;
    const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(catalog->match);
    found->rule = &redact_table[i];
    found->secret = first + (rc > 1 ? offsets[2] : offsets[0]);
    found->tail = first + offsets[1];
    return YES;
}

static size_t skip(const struct redact_set *set, const struct text *text, size_t at, size_t end)
{
    while (at < end && redact_set_has(set, text->bytes[at]))
        at++;
    return at;
}

/* A cheaper form of a necessary condition of the rule's regex. */
static bool may_match(struct redact_catalog *catalog, size_t i, const struct text *text, size_t at,
                      size_t behind)
{
    const struct redact_rule *rule = &redact_table[i];
    if (rule->word && at) {
        char before = folded(text->bytes[at - 1]);
        bool letter = before >= 'a' && before <= 'z';
        if ((letter && !(at > 1 && strchr("mnrt", before))) || before == '_' ||
            (before >= '0' && before <= '9'))
            return false;
    }
    const struct shape *shape = shape_of(catalog, i);
    size_t end = text->end - behind > SHAPE_LEN ? behind + SHAPE_LEN : text->end;
    bool open = end < text->end || !text->final; /* more text follows */
    if (!*rule->shape[1])
        return true;
    at = skip(&shape->skip, text, behind, end);
    if (at == end || !redact_set_has(&shape->then, text->bytes[at]))
        return at == end && open;
    if (!*rule->shape[3])
        return true;
    at = skip(&shape->skip2, text, at + 1, end);
    return at == end ? open : redact_set_has(&shape->then2, text->bytes[at]);
}

static enum answer compare(const struct trigger *trigger, const struct text *text, size_t at)
{
    size_t left = text->end - at, n = trigger->len < left ? trigger->len : left;
    for (size_t i = 0; i < n; i++) {
        char c = text->bytes[at + i];
        if (trigger->text[i] != (trigger->fold ? folded(c) : c))
            return NO;
    }
    return n == trigger->len ? YES : text->final ? NO : WAIT;
}

/* Returns YES, NO, WAIT or -errno. */
static int ask(struct redact_catalog *catalog, const struct text *text, size_t at,
               struct found *found)
{
    const struct trigger *there[TRIGGERS_HERE];
    size_t count = 0;
    uint64_t rules = 0;
    uint8_t number = catalog->first[(unsigned char)text->bytes[at]];
    while (number) {
        const struct trigger *trigger = &catalog->triggers[number - 1];
        enum answer answer = compare(trigger, text, at);
        if (answer == WAIT)
            return WAIT;
        if (answer == YES && count < TRIGGERS_HERE) {
            rules |= trigger->rules;
            there[count++] = trigger;
        }
        number = trigger->next;
    }
    for (; rules; rules &= rules - 1) {
        size_t i = (size_t)__builtin_ctzll(rules), n = 0;
        while (n < count &&
               !(there[n]->rules >> i & 1 && may_match(catalog, i, text, at, at + there[n]->len)))
            n++;
        if (n == count)
            continue;
        int answer = ask_regex(catalog, i, text, at, found);
        if (answer != NO)
            return answer;
    }
    return NO;
}

/* Test the triggers that contain the pair at `i`. No trigger starts inside another one before the
 * pair of that one, so the first trigger found is the leftmost. */
static int ask_pair(struct redact_catalog *catalog, const struct text *text, size_t from, size_t i,
                    size_t *at, struct found *found)
{
    unsigned value = pair_at(text->bytes + i);
    for (uint8_t n = catalog->hashed[hash(value)]; n; n = catalog->pairs[n - 1].next) {
        const struct pair *pair = &catalog->pairs[n - 1];
        if (pair->value != value || i < from + pair->distance)
            continue;
        *at = i - pair->distance;
        char beside = i + 2 < text->end && !pair->last ? text->bytes[i + 2]
                      : pair->last                     ? text->bytes[i - 1]
                                                       : 0;
        if (pair->beside != (pair->fold ? folded(beside) : beside))
            continue;
        if (compare(&catalog->triggers[pair->trigger], text, *at) != YES) /* cut off: see ask_end */
            continue;
        int answer = ask(catalog, text, *at, found);
        if (answer != NO)
            return answer;
    }
    return NO;
}

/* Find a trigger that the end of the text cuts off, so that its pairs may be missing. */
static enum answer ask_end(const struct redact_catalog *catalog, const struct text *text,
                           size_t from, size_t *at)
{
    size_t first = text->end - from > TRIGGER_LEN ? text->end - TRIGGER_LEN : from;
    for (*at = first; *at < text->end && !text->final; ++*at) {
        uint8_t n = catalog->first[(unsigned char)text->bytes[*at]];
        for (; n; n = catalog->triggers[n - 1].next)
            if (compare(&catalog->triggers[n - 1], text, *at) == WAIT)
                return WAIT;
    }
    *at = text->end;
    return NO;
}

static void make_table(struct redact_catalog *catalog)
{
    catalog->table = calloc(65536, 1); /* best effort */
    for (size_t i = 0; catalog->table && i < catalog->pair_count; i++)
        catalog->table[catalog->pairs[i].value] = 1;
}

/* Look up four pairs with one load of eight bytes instead of four loads of two. */
static unsigned in_table(const uint8_t *table, const char *bytes)
{
    uint64_t pairs;
    memcpy(&pairs, bytes, sizeof pairs);
    return table[pairs & 0xffff] | table[pairs >> 16 & 0xffff] | table[pairs >> 32 & 0xffff] |
           table[pairs >> 48];
}

/* Skip to the first sixteen bytes with a known pair, or to the last bytes of the text. */
static size_t skip_unknown(const struct redact_catalog *catalog, const char *bytes, size_t i,
                           size_t end)
{
    const uint8_t *table = catalog->table;
    while (table && i + 16 <= end && !(in_table(table, bytes + i) | in_table(table, bytes + i + 8)))
        i += 16;
    for (const char *b = bytes + i; !table && i + 16 <= end; i += 16, b += 16)
        if (has_pair(catalog, b) | has_pair(catalog, b + 2) | has_pair(catalog, b + 4) |
            has_pair(catalog, b + 6) | has_pair(catalog, b + 8) | has_pair(catalog, b + 10) |
            has_pair(catalog, b + 12) | has_pair(catalog, b + 14))
            break;
    return i;
}

/* The known ones among the pairs, as bits. */
static unsigned known_pairs(const struct redact_catalog *catalog, const char *bytes, size_t count)
{
    unsigned known = 0;
    for (size_t i = 0; i < count; i++)
        known |= has_pair(catalog, bytes + 2 * i) << i;
    return known;
}

/* Find the next secret from *at on. Sets *at to the position where the search stopped, which is the
 * end of the text with NO. */
static int find(struct redact_catalog *catalog, const struct text *text, size_t *at,
                struct found *found)
{
    size_t from = *at;
    for (size_t i = from; i + 2 <= text->end; i += 16) {
        i = skip_unknown(catalog, text->bytes, i, text->end);
        unsigned known = i + 16 <= text->end
                             ? known_pairs(catalog, text->bytes + i, 8)
                             : known_pairs(catalog, text->bytes + i, (text->end - i) / 2);
        for (; known; known &= known - 1) {
            size_t pair = i + 2 * (size_t)__builtin_ctz(known);
            int answer = ask_pair(catalog, text, from, pair, at, found);
            if (answer != NO)
                return answer;
        }
    }
    return (int)ask_end(catalog, text, from, at);
}

/* ---- the text -------------------------------------------------------------------------------- */

static void begin_secret(struct redact_scan *scan, const struct found *found, struct buf *out)
{
    buf_add(out, "[redacted:", 10);
    buf_text(out, found->rule->name);
    buf_add(out, "]", 1);
    scan->count++;
    redact_tail_begin(scan, found->rule);
}

/* Show all decided bytes of text[*at..end), and set *at to the first byte that has to wait. */
static int scan_text(struct redact_scan *scan, const struct text *text, size_t *at, struct buf *out)
{
    int answer = NO;
    while (*at < text->end && answer != WAIT) {
        struct found found = {0};
        if (scan->inside)
            *at = redact_tail_swallow(scan, text->bytes, *at, text->end, out);
        size_t from = *at;
        if (scan->inside)
            break;
        answer = find(scan->catalog, text, at, &found);
        if (answer < 0)
            return answer;
        if (answer == YES)
            *at = found.secret;
        buf_add(out, text->bytes + from, *at - from);
        if (answer == YES) {
            begin_secret(scan, &found, out);
            *at = found.tail;
        }
    }
    return buf_failed(out);
}

void redact_scan_done(struct redact_scan *scan)
{
    free(scan->window.data);
    scan->window = (struct redact_window){0};
}

int redact_scan_feed(struct redact_scan *scan, const char *bytes, size_t len, bool final,
                     struct buf *out)
{
    struct redact_window *window = &scan->window;
    size_t at = 0; /* offset in bytes: all before it is shown or in the window */
    int ret = 0;
    if (!scan->catalog) {
        buf_add(out, bytes, len);
        return buf_failed(out);
    }
    if (!scan->catalog->ready)
        make_ready(scan->catalog);
    if (scan->catalog->scanned < TABLE_FROM && (scan->catalog->scanned += len) >= TABLE_FROM)
        make_table(scan->catalog);
    /* Scan the held bytes together with some new ones, until the position is within the new bytes
     * and enough of them are before it to look back at. */
    while (window->len && (at < len || (final && window->start < window->len))) {
        size_t n = len - at < JOIN ? len - at : JOIN;
        ret = redact_window_add(window, bytes + at, n);
        if (ret < 0)
            return ret;
        at += n;
        struct text text = {window->data, window->len, final && at == len};
        size_t stop = window->start;
        ret = scan_text(scan, &text, &stop, out);
        if (ret < 0)
            return ret;
        size_t left = window->len - stop;
        redact_window_drop(window, stop, REDACT_LOOK_BACK);
        if (at < len && left + REDACT_LOOK_BACK <= at) {
            at -= left;
            window->len = window->start = 0;
        }
    }
    if (at == len)
        return 0;
    struct text text = {bytes, len, final};
    ret = scan_text(scan, &text, &at, out);
    if (ret < 0)
        return ret;
    size_t first = at > REDACT_LOOK_BACK ? at - REDACT_LOOK_BACK : 0;
    window->start = at - first;
    return redact_window_add(window, bytes + first, len - first);
}
