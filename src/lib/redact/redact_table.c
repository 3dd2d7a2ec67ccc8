/* SPDX-License-Identifier: MIT */
/* The built-in rules of redaction. Data only; redact_scan.c and redact_tail.c use it.
 *
 * Each regex checks the byte before its trigger itself; `word` and `shape` only repeat a part of
 * the regex in a cheaper form. The definition of a value is a compromise: bench/redact.c --corpus
 * shows the false matches of the rules in source code that contains no secrets.
 */
#include "redact_table.h"

#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

const struct redact_tail_info redact_tails[REDACT_TAILS] = {
    [REDACT_TAIL_WORD] = {"[A-Za-z0-9_-]", "^" ALNUM "_-"},
    [REDACT_TAIL_BASE64] = {"[A-Za-z0-9._~+/=-]", "^" ALNUM "._~+/=-"},
    [REDACT_TAIL_BARE] = {"[^\\x00\\s\"'`&,;<>)\\]}\\\\]", " \t\n\v\f\r\"'`&,;<>)]}\\"},
    [REDACT_TAIL_DOUBLE] = {"(?:[^\\x00\"\\\\\\r\\n]|\\\\[^\\x00\\r\\n]?)", "\"\r\n"},
    [REDACT_TAIL_SINGLE] = {"(?:[^\\x00'\\\\\\r\\n]|\\\\[^\\x00\\r\\n]?)", "'\r\n"},
    [REDACT_TAIL_ESCAPED] = {"(?:[^\\x00\"\\\\\\r\\n]|\\\\{2,}+\"?|\\\\(?![\"\\\\]))", "\"\r\n"},
    [REDACT_TAIL_USER] = {"[^\\x00\\s/@\"'<>`]", " \t\n\v\f\r/@\"'<>`"},
    [REDACT_TAIL_LINE] = {"[^\\x00\\r\\n]", "\r\n"},
    [REDACT_TAIL_KEY] = {NULL, ""},
};

/* ---- pieces ------------------------------------------------------------------------------- */

/* A letter that ends an escape sequence, of a terminal or of a string, does not belong to a word.
 */
#define ESCAPED     "(?<=\\\\[nrt]|\\x1b\\[m|\\x1b\\[[0-9]m|\\x1b\\[[0-9]{2}m|\\x1b\\[[0-9];[0-9]{2}m)"
#define NOT_IN_WORD "(?:(?<![A-Za-z0-9_])|" ESCAPED ")"

/* The start of a word within a name: api_key, apiKey, API-KEY, apikey; but not monkey. */
#define WORD_BEGINS                                                                                \
    "(?:(?<![A-Za-z])|" ESCAPED                                                                    \
    "|(?-i:(?<=[a-z])(?=[A-Z]))|(?<=api|app|auth|access|secret|private|"                           \
    "client|master|bot|session))"

/* The text between a name and its value, including an escape sequence that sets a colour. */
#define COLOUR "(?:\\x1b\\[[0-9;]{0,8}m)?"
#define BEHIND COLOUR "(?:\\\\?[\"'])?\\]?"
#define GAP    "[ \\t]{0,8}"
#define TIGHT  BEHIND "=" COLOUR
#define LOOSE  BEHIND GAP COLOUR "(?:=>?|:)" GAP COLOUR
#define COLON  BEHIND ":" GAP COLOUR
#define SPACED BEHIND GAP "=" GAP

#define COLOURS      "\x1b[0123456789;m"
#define TO_SEPARATOR " \t\"'\\]" COLOURS

/* Placeholders and descriptions in place of a value. */
#define NO_VALUE                                                                                   \
    "(?!\\$|%[({sd]|[{<#@&!=]|:?\\*|\\\\|\\[|x{3}|\\.\\.\\.|[-_]+(?:[\\s\"']|\\z)|https?:|0x[0-"   \
    "9a-f]{1,16}(?![A-Za-z0-9])|"                                                                  \
    "(?:null|nil|none|true|false|undef(?:ined)?|void|self|this|new|int|str|string|bytes?|char|"    \
    "bool|boolean|any|optional|object|unknown|never|required|redacted|hidden|masked|empty|todo|"   \
    "changeme|example|lambda|function|async|await|return|not|if|your|default|define|dynamic|"      \
    "value[0-9]?|text|"                                                                            \
    "varchar)(?![A-Za-z0-9]))"

/* Names of variables that hold a secret: user_password, dbSecret, credentials. */
#define NOUN                                                                                       \
    "(?:pass(?:w(?:or)?d|phrase)?|pwd|pw|secret|key|token|cred|credential|auth|user|username|"     \
    "name|prompt|input|param|params|config|option|args?|field|value|data|string|buf|ptr|type|"     \
    "hash)s?"
#define NO_NAME                                                                                    \
    "(?!(?:(?:[A-Za-z]{1,8}[0-9](?=(?-i:[A-Z_])))?[A-Za-z_.:-]{0,60}?"                             \
    "(?:(?<=[_.:-])|(?-i:(?<=[a-z0-9])(?=[A-Z]))))?" NOUN                                          \
    "(?:(?=[_.:-]|(?-i:[A-Z]))[A-Za-z_.:-]{1,80}+)?(?!\\.?[A-Za-z0-9_:-]|[!@#$%^&*~]))"
/* some_words, a-few-words2, SOME_WORDS_2; a path of words */
#define LOWER "(?:[0-9]{0,2}[a-z]{1,40}[0-9]{0,2}|[0-9]{1,2})"
#define UPPER "(?:[0-9]{0,2}[A-Z]{1,40}[0-9]{0,2}|[0-9]{1,2})"
#define NO_SNAKE                                                                                   \
    "(?!(?-i:_?" LOWER "(?:[_-]" LOWER "){1,8}|" UPPER "(?:[_-]" UPPER "){1,8})_?"                 \
    "(?![A-Za-z0-9_+/=-]))"
#define NO_PATH      "(?!(?-i:[a-z]{2,40}/[A-Za-z0-9-]{1,60})(?:/[a-z]|(?![A-Za-z0-9_+/=-])))"
#define NO_LONG_PATH "(?!(?-i:[a-z]{2,40}/[A-Za-z0-9-]{1,60}/[a-z]))"
#define NO_LABEL     "(?![A-Za-z]{1,60}[0-9]{1,2}(?![A-Za-z0-9_+/=-]))"
#define MEMBER       "[A-Za-z_]{1,40}[0-9]{0,2}[A-Za-z_]{0,20}"
#define NO_MEMBER    "(?!" MEMBER "(?:\\.|->|::)" MEMBER "(?![A-Za-z0-9]))"

#define BARE      "[^\\x00\\s\"'`&,;<>()\\[\\]{}\\\\|]"
#define BARE_ENDS "(?=[\\x00\\s\"'&\\\\]|\\z|[;,](?=[A-Za-z]))"
#define ANY_ENDS  "(?=[\\x00\\s\"'&\\\\;,)\\]}|]|\\z)"
#define LINE_ENDS "(?=[ \\t]{0,8}(?:[\\x00\\r\\n]|\\z))"

/* A letter and a digit among the first bytes. */
#define IN_VALUE "[^\\s\"'`&,;<>()\\[\\]{}\\\\|]{0,60}"
#define MIXED    "(?=" IN_VALUE "[0-9])(?=" IN_VALUE "[A-Za-z])"

/* ---- the rules ---------------------------------------------------------------------------- */

#define ROW(name, triggers, then, skip2, then2, regex, tail)                                       \
    {                                                                                              \
        name, "assignments", triggers, true, false, {TO_SEPARATOR, then, skip2, then2}, regex,     \
            tail                                                                                   \
    }

#define WHOLE(class, least, ends) "(?=" class "{128}|" class "{" least ",127}+" ends ")"

/* The three forms of a value: JSON in a string; in quotes; bare. `what` is a further condition on
 * the value, `least` its minimum length. */
#define ESCAPED_ROW(name, triggers, word, what, least)                                             \
    ROW(name, triggers, ":=", " \t", "\\",                                                         \
        word "\\\\\"" GAP "[:=]" GAP                                                               \
             "\\\\\"()" NO_VALUE what WHOLE("[^\\s\"\\\\]", least, "\\\\"),                        \
        REDACT_TAIL_ESCAPED)
#define DOUBLE_ROW(name, triggers, word, what, least)                                              \
    ROW(name, triggers, ":=", "> \t" COLOURS, "\"",                                                \
        word LOOSE "\"()" NO_VALUE what WHOLE("[^\\s\"]", least, "\""), REDACT_TAIL_DOUBLE)
#define SINGLE_ROW(name, triggers, word, what, least)                                              \
    ROW(name, triggers, ":=", "> \t" COLOURS, "'",                                                 \
        word LOOSE "'()" NO_VALUE what WHOLE("[^\\s']", least, "'"), REDACT_TAIL_SINGLE)
#define BARE_ROW(name, triggers, then, before, what, least, ends)                                  \
    ROW(name, triggers, then, " \t", "^\"'\r\n",                                                   \
        before "()" NO_VALUE NO_MEMBER what WHOLE(BARE, least, ends), REDACT_TAIL_BARE)

/* A password may be any word. It counts after `=` without a space, as in logs and URLs, and after
 * `: ` at the end of a line. With spaces around `=`, as in programs, it counts only if it is not
 * the name of a variable. */
#define PASSWORD_ROWS(name, triggers, word, what)                                                  \
    ESCAPED_ROW(name, triggers, word, what, "4"),                                                  \
        DOUBLE_ROW(name, triggers, word, NO_NAME NO_LONG_PATH what, "4"),                          \
        SINGLE_ROW(name, triggers, word, NO_NAME NO_LONG_PATH what, "4"),                          \
        BARE_ROW(name, triggers, "=", word TIGHT, NO_NAME NO_LONG_PATH what, "4", BARE_ENDS),      \
        BARE_ROW(name, triggers, "=", word TIGHT, NO_NAME NO_LONG_PATH NO_SNAKE what MIXED, "6",   \
                 ANY_ENDS),                                                                        \
        BARE_ROW(name, triggers, ":", word COLON, NO_NAME what, "6", LINE_ENDS),                   \
        BARE_ROW(name, triggers, "=", word SPACED, NO_NAME what MIXED, "6", LINE_ENDS)

/* Keys and tokens take many forms; only values with letters and digits count. */
#define NO_WORDS NO_LABEL NO_SNAKE NO_PATH NO_NAME
#define KEY_ROWS(name, triggers, word, least)                                                      \
    ESCAPED_ROW(name, triggers, word, MIXED, "6"),                                                 \
        DOUBLE_ROW(name, triggers, word, NO_WORDS MIXED, least),                                   \
        SINGLE_ROW(name, triggers, word, NO_WORDS MIXED, least),                                   \
        BARE_ROW(name, triggers, "=", word TIGHT, NO_PATH MIXED, "6", BARE_ENDS),                  \
        BARE_ROW(name, triggers, "=", word TIGHT, NO_WORDS MIXED, "6", ANY_ENDS),                  \
        BARE_ROW(name, triggers, ":", word COLON, NO_SNAKE NO_PATH MIXED, "8", LINE_ENDS),         \
        BARE_ROW(name, triggers, "=", word SPACED, NO_WORDS MIXED, "16", LINE_ENDS)

/* A key that does not sort or look up something. */
#define PLAIN_KEY                                                                                  \
    "(?<!sort[-_]|order[-_]|group[-_]|primary[-_]|foreign[-_]|partition[-_]|shard[-_]|range[-_]|"  \
    "row[-_]|column[-_]|index[-_]|lookup[-_]|cache[-_]|dict[-_]|map[-_]|public[-_])" WORD_BEGINS   \
    "key"

/* A key whose name says that it grants access. */
#define SECRET_KEY                                                                                 \
    "(?<=api|api[-_ ]|access|access[-_ ]|secret|secret[-_ ]|private|private[-_ ]|auth|auth[-_ ]|"  \
    "account[-_ ]|master[-_ ]|encryption[-_ ]|signing[-_ ]|session[-_ ]|app[-_ ]|client[-_ ])key"

/* "pass" has other meanings, so its value has to look like a password. Test programs print PASS:
 * and the name of a test. */
#define PASS                                                                                       \
    WORD_BEGINS "(?-i:pass|Pass|PASS(?!:))(?=[\\\\\"'\\] \\t]{0,6}[:=]>?[ \\t]{0,8}[\\\\\"']{0,2}" \
                "(?=" IN_VALUE "[0-9])(?=" IN_VALUE "[A-Za-z])" NO_SNAKE "[^\\s\"'`&,;<>]{8})"

/* A header specific to a service, whose value may consist of words. */
#define OWN_HEADER                                                                                 \
    "(?<=x-auth-|x-access-|x-api-|x-app-|x-user-|x-csrf-|x-xsrf-|x-vault-|x-session-|x-refresh-|"  \
    "x-amz-security-|private-|x-functions-|x-goog-api-)(?:token|key)"
#define WORDS "(?=" IN_VALUE "[0-9_.-]|" BARE "{16})"

/* The value of a header is the rest of the line, or of the quotes around it or around the whole
 * header. */
#define HEADER(name, trigger, then2, regex, tail)                                                  \
    {                                                                                              \
        name, "headers", trigger, true, false, {"\"'\\ \t]", ":=", " \t", then2}, regex, tail      \
    }
#define HEADER_ROWS(name, trigger, before, value)                                                  \
    HEADER(name, trigger, "\\", trigger "\\\\\"" GAP ":" GAP "\\\\\"()" value,                     \
           REDACT_TAIL_ESCAPED),                                                                   \
        HEADER(name, trigger, "\"", trigger "[\"']\\]?" GAP "[:=]" GAP "\"()" value,               \
               REDACT_TAIL_DOUBLE),                                                                \
        HEADER(name, trigger, "'", trigger "[\"']\\]?" GAP "[:=]" GAP "'()" value,                 \
               REDACT_TAIL_SINGLE),                                                                \
        HEADER(name, trigger, "", "(?<=\"|\"" before ")" trigger ":" GAP "()" value,               \
               REDACT_TAIL_DOUBLE),                                                                \
        HEADER(name, trigger, "", "(?<='|'" before ")" trigger ":" GAP "()" value,                 \
               REDACT_TAIL_SINGLE),                                                                \
        HEADER(name, trigger, "", "(?:(?<![A-Za-z])|" ESCAPED ")" trigger ":" GAP "()" value,      \
               REDACT_TAIL_LINE)

#define ENDS_HEADER "(?=[ \\t]{0,8}(?:[\\r\\n\"'\\\\]|\\z))"
#define CREDENTIALS                                                                                \
    "(?:(?:basic|bearer|token|negotiate|ntlm|apikey|key|jwt)[ \\t]{1,8}" NO_VALUE NO_NAME          \
    "(?!(?-i:[A-Z_]{4,40}(?![A-Za-z0-9])))" WHOLE(                                                 \
        "[^\\s\"'\\\\]", "4",                                                                      \
        ENDS_HEADER) "|[a-z][a-z0-9-]{1,24}[ \\t]{1,8}(?!profile=)(?=[A-Za-z_]{1,40}=\"?" NO_VALUE \
                     "[^\\s\"'\\\\])"                                                              \
                     "|(?:[a-z][a-z0-9-]{1,24}[ \\t]{1,8})?" NO_VALUE NO_SNAKE NO_PATH MIXED       \
                         WHOLE("[^\\s\"'\\\\]", "8", ENDS_HEADER) ")"
#define COOKIES "(?=[^\\s=;,\"'\\\\(){}<>]{1,128}=" NO_VALUE "[^\\s\"'\\\\]{4})"

#define BASE64 "[A-Za-z0-9+/=]"

const struct redact_rule redact_table[] = {
    /* tokens that are recognizable by their prefix */
    {"openai-key",
     "tokens",
     "sk-",
     false,
     true,
     {"", ALNUM, "", ""},
     NOT_IN_WORD "sk-(?!ecdsa-sha2|ssh-ed25519)(?=[A-Za-z0-9_-]{0,64}[0-9])"
                 "(?:(?:proj|ant|svcacct|admin|or)-[A-Za-z0-9_-]{12}|[A-Za-z0-9]{12})",
     REDACT_TAIL_WORD},
    {"stripe-key",
     "tokens",
     "sk_live_|rk_live_|sk_test_|rk_test_",
     false,
     true,
     {"", ALNUM, "", ""},
     NOT_IN_WORD "[sr]k_(?:live|test)_[A-Za-z0-9]{8}",
     REDACT_TAIL_WORD},
    {"github-token",
     "tokens",
     "ghp_|gho_|ghu_|ghs_|ghr_",
     false,
     true,
     {"", ALNUM, "", ""},
     NOT_IN_WORD "gh[pousr]_[A-Za-z0-9]{16}",
     REDACT_TAIL_WORD},
    {"github-token",
     "tokens",
     "github_pat_",
     false,
     true,
     {"", ALNUM "_", "", ""},
     NOT_IN_WORD "github_pat_[A-Za-z0-9_]{16}",
     REDACT_TAIL_WORD},
    {"gitlab-token",
     "tokens",
     "glpat-",
     false,
     true,
     {"", ALNUM "_-", "", ""},
     NOT_IN_WORD "glpat-[A-Za-z0-9_-]{16}",
     REDACT_TAIL_WORD},
    {"aws-key-id",
     "tokens",
     "AKIA|ASIA",
     false,
     true,
     {"", ALNUM, "", ""},
     NOT_IN_WORD "A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9_])",
     REDACT_TAIL_WORD},
    {"slack-token",
     "tokens",
     "xox",
     false,
     true,
     {"", "abeoprs", "-", ""},
     NOT_IN_WORD "xox[abeoprs]-[A-Za-z0-9-]{8}",
     REDACT_TAIL_WORD},

    HEADER_ROWS("authorization", "authorization", "proxy-", CREDENTIALS),
    HEADER_ROWS("cookie", "cookie", "set-", COOKIES),
    {"bearer-token",
     "headers",
     "bearer",
     true,
     true,
     {" \t", ALNUM "._~+/-", "", ""},
     NOT_IN_WORD "bearer[ \\t]{1,8}()(?:(?=[A-Za-z0-9._~+/-]{0,128}[0-9])[A-Za-z0-9._~+/-]{8}|"
                 "[A-Za-z0-9._~+/-]{24})",
     REDACT_TAIL_BASE64},

    PASSWORD_ROWS("password", "password|passwd|passphrase", "(?:passw(?:or)?d|passphrase)", ""),
    PASSWORD_ROWS("password", "pwd|pass", "(?:" WORD_BEGINS "pwd|" PASS ")", "(?![/~.])"),
    PASSWORD_ROWS("secret", "secret", WORD_BEGINS "secret", ""),
    DOUBLE_ROW("key", "key", SECRET_KEY, NO_WORDS MIXED, "6"),
    SINGLE_ROW("key", "key", SECRET_KEY, NO_WORDS MIXED, "6"),
    KEY_ROWS("key", "key", PLAIN_KEY, "16"),
    KEY_ROWS("token", "token", WORD_BEGINS "token", "6"),
    BARE_ROW("token", "token", "=", WORD_BEGINS "token=", NO_WORDS, "4", BARE_ENDS),
    BARE_ROW("key", "key", "=", SECRET_KEY "=", NO_WORDS, "4", BARE_ENDS),
    BARE_ROW("key", "key", "=", "(?<![A-Za-z0-9_]|[A-Za-z0-9_][-.])key=", NO_WORDS, "6", BARE_ENDS),
    BARE_ROW("credential", "token|key", ":", OWN_HEADER COLON, WORDS, "8", ANY_ENDS),

    {"url-password",
     "urls",
     "://",
     false,
     false,
     {"^ \t\n\v\f\r/@\"'<>`", "@", "", ""},
     "://[^\\s/:@\"'<>`\\[(]{0,256}:()(?![$%{<*(\\[\\\\])"
     "(?:[^\\s/@\"'<>`{}\\\\]{1,1024}(?=@)|[^\\s/@\"'<>`]{1024})",
     REDACT_TAIL_USER},

    {"private-key",
     "private-keys",
     "-----BEGIN ",
     false,
     false,
     {"", "", "", ""},
     "-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?=(?:\\\\[rn]|[\\s\"'+,;]){1,40}+"
     "(?:" BASE64 "{24}|Proc-Type:|" BASE64 "{1,23}\\z|" BASE64
     "{1,1000}(?:\\\\[rn]|[\\s\"'+,;]){0,40}+-----END|[A-Za-z0-9+/=.:,\\s\\\\]{1,4096}-----END))",
     REDACT_TAIL_KEY},
};
const size_t redact_table_len = sizeof redact_table / sizeof *redact_table;
_Static_assert(sizeof redact_table / sizeof *redact_table <= 64, "rules are bits of 64");
