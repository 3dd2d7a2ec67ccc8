/* The scan for the built-in rules.
 *
 * Each rule begins with a literal, its trigger, of three bytes or more. Whatever its place, a pair
 * of its first three bytes lies at an even distance from where the scan began: so only every second
 * pair of the text is looked up, in a bitmap of all pairs of bytes. Where that says yes the
 * triggers are compared, then what is known to follow them, and only then is the rule's regex
 * asked; it is compiled when that happens first. The rest of a secret, of any length, is swallowed
 * without one. */
#include "redact_stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TRIGGERS_MAX 64
#define RULES_MAX    64
#define JIT_FROM     16 /* uses of a rule; compiling to machine code takes some ten times as long */
#define JOIN         1024 /* bytes that are copied behind what is held, to go on without a copy */

struct set {
    uint32_t bits[8];
};

struct trigger {
    const char *text;
    uint8_t len;
    bool fold;
    uint8_t next;   /* the next one with the same first byte, + 1 */
    uint64_t rules; /* bits */
};

struct redact_catalog {
    uint64_t rules;
    bool ready;
    size_t trigger_count;
    struct trigger triggers[TRIGGERS_MAX];
    uint8_t first[256]; /* the first trigger that begins with a byte, + 1 */
    struct set skip[RULES_MAX], then[RULES_MAX];
    struct set tails[REDACT_TAILS]; /* what stops a tail */
    pcre2_match_data *match;
    pcre2_code *codes[RULES_MAX];
    unsigned uses[RULES_MAX];
    uint32_t pairs[65536 / 32];
};

static bool set_has(const struct set *set, char c)
{
    return set->bits[(unsigned char)c / 32] >> ((unsigned char)c % 32) & 1;
}

static void set_add(struct set *set, const char *bytes)
{
    for (; *bytes; bytes++)
        set->bits[(unsigned char)*bytes / 32] |= UINT32_C(1) << ((unsigned char)*bytes % 32);
}

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
    return catalog->pairs[pair / 32] >> (pair % 32) & 1;
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
    free(catalog);
}

static void add_pairs(struct redact_catalog *catalog, const struct trigger *trigger, size_t at)
{
    for (unsigned which = 0; which < (trigger->fold ? 4 : 1); which++) {
        char pair[2] = {trigger->text[at], trigger->text[at + 1]};
        pair[0] = which & 1 ? upper(pair[0]) : pair[0];
        pair[1] = which & 2 ? upper(pair[1]) : pair[1];
        catalog->pairs[pair_at(pair) / 32] |= UINT32_C(1) << (pair_at(pair) % 32);
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
    add_pairs(catalog, trigger, 0);
    add_pairs(catalog, trigger, 1);
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
        if (rule->then) {
            set_add(&catalog->skip[i], rule->skip);
            set_add(&catalog->then[i], rule->then);
        }
    }
    for (size_t i = 0; i < REDACT_TAILS; i++) {
        const struct redact_tail_info *tail = &redact_tails[i];
        if (tail->only)
            set_add(&catalog->tails[i], tail->only);
        for (size_t j = 0; tail->only && j < 8; j++)
            catalog->tails[i].bits[j] = ~catalog->tails[i].bits[j];
        if (tail->stop)
            set_add(&catalog->tails[i], tail->stop);
    }
    catalog->ready = true;
}

/* ---- is there a secret at this place? ------------------------------------------------------ */

enum answer { NO, YES, WAIT /* for more of the text */ };

/* What is scanned: text[start..end), with `back` bytes to look back at before `start`; `final`: no
 * more comes. */
struct text {
    const char *bytes;
    size_t end;
    bool final;
};

struct found {
    const struct redact_rule *rule;
    size_t secret; /* where it begins */
    size_t tail;   /* where its tail begins */
};

/* The code of a rule, and the memory for its matches. */
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
    if (++catalog->uses[i] == JIT_FROM) /* may fail: then it goes without */
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

/* What the rule's regex would say as well, for less. */
static bool may_match(const struct redact_catalog *catalog, size_t i, const struct text *text,
                      size_t at, size_t behind)
{
    const struct redact_rule *rule = &redact_table[i];
    if (rule->word && at) {
        char before = folded(text->bytes[at - 1]);
        bool letter = before >= 'a' && before <= 'z';
        if ((letter && !(at > 1 && strchr("mnrt", before))) || before == '_' ||
            (before >= '0' && before <= '9'))
            return false;
    }
    if (!rule->then)
        return true;
    while (behind < text->end && set_has(&catalog->skip[i], text->bytes[behind]))
        behind++;
    return behind == text->end ? !text->final : set_has(&catalog->then[i], text->bytes[behind]);
}

static enum answer compare(const struct trigger *trigger, const struct text *text, size_t at)
{
    size_t left = text->end - at, n = trigger->len < left ? trigger->len : left;
    for (size_t i = 1; i < n; i++) {
        char c = text->bytes[at + i];
        if (trigger->text[i] != (trigger->fold ? folded(c) : c))
            return NO;
    }
    return n == trigger->len ? YES : text->final ? NO : WAIT;
}

/* YES, NO, WAIT or -errno. */
static int ask(struct redact_catalog *catalog, const struct text *text, size_t at,
               struct found *found)
{
    uint64_t rules = 0;
    size_t behind = at;
    uint8_t number = catalog->first[(unsigned char)text->bytes[at]];
    while (number) {
        const struct trigger *trigger = &catalog->triggers[number - 1];
        enum answer answer = compare(trigger, text, at);
        if (answer == WAIT)
            return WAIT;
        if (answer == YES) {
            rules |= trigger->rules;
            behind = at + trigger->len;
        }
        number = trigger->next;
    }
    for (; rules; rules &= rules - 1) {
        size_t i = (size_t)__builtin_ctzll(rules);
        if (!may_match(catalog, i, text, at, behind))
            continue;
        int answer = ask_regex(catalog, i, text, at, found);
        if (answer != NO)
            return answer;
    }
    return NO;
}

/* Looks for the next secret from *at on, and sets it to where it stopped: the end with NO. */
static int find(struct redact_catalog *catalog, const struct text *text, size_t *at,
                struct found *found)
{
    const char *bytes = text->bytes;
    size_t next = *at; /* all before it was asked */
    int answer = NO;
    for (size_t i = *at; i < text->end;) {
        while (i + 17 <= text->end &&
               !(has_pair(catalog, bytes + i) | has_pair(catalog, bytes + i + 2) |
                 has_pair(catalog, bytes + i + 4) | has_pair(catalog, bytes + i + 6) |
                 has_pair(catalog, bytes + i + 8) | has_pair(catalog, bytes + i + 10) |
                 has_pair(catalog, bytes + i + 12) | has_pair(catalog, bytes + i + 14)))
            i += 16;
        /* A trigger may begin with this pair or one byte before it; near the end it may be cut. */
        bool near = text->end - i < 3;
        if (near || has_pair(catalog, bytes + i)) {
            size_t last = near ? text->end - 1 : i;
            for (size_t p = i > next ? i - 1 : next; p <= last; p++) {
                answer = ask(catalog, text, p, found);
                if (answer != NO) {
                    *at = p;
                    return answer;
                }
            }
            next = last + 1;
        }
        i += 2;
    }
    *at = text->end;
    return NO;
}

/* ---- what follows -------------------------------------------------------------------------- */

static bool is_base64(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/' || c == '=';
}

/* Does the private key go on with this byte? It ends with its END line; or, if that does not come,
 * before the end of the third line in a row that has nothing of a key in it. */
static bool key_takes(struct redact_scan *scan, char c)
{
    static const char word[] = "END";
    if (scan->key.ending) {
        if (c == '\r' || c == '\n' || scan->key.dashes == 5)
            return false;
        scan->key.dashes = c == '-' ? scan->key.dashes + 1 : 0;
        return true;
    }
    if (c == '-') {
        scan->key.dashes++;
        scan->key.letters = 0;
    } else {
        bool in_word = (scan->key.letters || scan->key.dashes >= 5) && c == word[scan->key.letters];
        scan->key.letters = in_word ? scan->key.letters + 1 : 0;
        scan->key.dashes = 0;
        if (scan->key.letters == 3) {
            scan->key.ending = true;
            return true;
        }
    }
    if (c == '\n') {
        if (scan->key.longest >= 16)
            scan->key.misses = 0;
        else if (!scan->key.blank && ++scan->key.misses == 3)
            return false;
        scan->key.run = scan->key.longest = 0;
        scan->key.blank = true;
        return true;
    }
    scan->key.run = is_base64(c) ? scan->key.run + 1 : 0;
    if (scan->key.run > scan->key.longest)
        scan->key.longest = scan->key.run;
    scan->key.blank = scan->key.blank && (c == ' ' || c == '\t' || c == '\r');
    return true;
}

static bool string_takes(struct redact_scan *scan, const struct set *stop, char c)
{
    if (scan->backslashes) {
        scan->backslashes = 0;
        return c != '\r' && c != '\n';
    }
    scan->backslashes = c == '\\';
    return !set_has(stop, c);
}

/* A string in a string: \" is its end, while more than one backslash belongs to it. */
static bool escaped_takes(struct redact_scan *scan, const struct set *stop, char c, struct buf *out)
{
    unsigned before = scan->backslashes;
    scan->backslashes = c == '\\' ? before + 1 : 0;
    if (c != '"' || before == 0)
        return !set_has(stop, c);
    if (before == 1)
        buf_add(out, "\\", 1);
    return before > 1;
}

/* From `at` on as far as the secret goes; scan->inside is NULL where it ended. */
static size_t swallow(struct redact_scan *scan, const char *bytes, size_t at, size_t end,
                      struct buf *out)
{
    enum redact_tail tail = scan->inside->tail;
    const struct set *stop = &scan->catalog->tails[tail];
    for (; at < end; at++) {
        bool takes = tail == REDACT_TAIL_KEY ? key_takes(scan, bytes[at])
                     : tail == REDACT_TAIL_DOUBLE || tail == REDACT_TAIL_SINGLE
                         ? string_takes(scan, stop, bytes[at])
                     : tail == REDACT_TAIL_ESCAPED ? escaped_takes(scan, stop, bytes[at], out)
                                                   : !set_has(stop, bytes[at]);
        if (!takes) {
            scan->inside = NULL;
            break;
        }
    }
    return at;
}

static void begin_secret(struct redact_scan *scan, const struct found *found, struct buf *out)
{
    buf_add(out, "[redacted:", 10);
    buf_text(out, found->rule->name);
    buf_add(out, "]", 1);
    scan->count++;
    scan->inside = found->rule;
    scan->backslashes = 0;
    memset(&scan->key, 0, sizeof scan->key);
    scan->key.blank = true;
}

/* Shows what may be shown of text[*at..end) and sets *at to the first byte that must wait. */
static int scan_text(struct redact_scan *scan, const struct text *text, size_t *at, struct buf *out)
{
    int answer = NO;
    while (*at < text->end && answer != WAIT) {
        struct found found;
        if (scan->inside)
            *at = swallow(scan, text->bytes, *at, text->end, out);
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
    size_t at = 0; /* in bytes: all before it is shown or in the window */
    int ret = 0;
    if (!scan->catalog) {
        buf_add(out, bytes, len);
        return buf_failed(out);
    }
    if (!scan->catalog->ready)
        make_ready(scan->catalog);
    /* What is at hand already, with some of what is new: until the place is in the new bytes, and
     * there are enough of them before it to look back at. */
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
