/* SPDX-License-Identifier: MIT */
/* lib/redact.c: what is a secret and what is not, in any pieces that the text may come in. */
#include "lib/redact/redact.h"

#include <strings.h>

#include "check.h"
#include "lib/redact/redact_table.h"
#include "random.h"

struct trigger {
    const char *text;
    size_t len;
    bool fold;
};

struct example {
    const char *name, *before, *secret, *after;
};

#define JWT "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
#define KEY64                                                                                      \
    "MIIEowIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF0B6Hxvx8dG2pQwHJ8s0d4z1Kx7a\n"                           \
    "b2F4Yj0Kq7fJ8sV1n5t0xPz3yQh6m9Wc4e2R8uT1i0o7p6a5s4d3f2g1h0jkLmNp\nQ2w=\n"

static const struct example positives[] = {
    {"openai-key", "key ", "sk-abcdefghijklmnop1234", ""},
    {"openai-key", "(", "sk-proj-Ab12_cdEF-ghIJ34klMNop", ")"},
    {"openai-key", "", "sk-ant-api03-Zz9yXx8w-Vv7uTt6s_Rr5q", "\n"},
    {"stripe-key", "using ", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "."},
    {"stripe-key", "", "rk_live_4eC39HqLyjWDarjtT1zdp7dc", ","},
    {"stripe-key", "", "sk_test_4eC39HqLyjWDarjtT1zdp7dc", " "},
    {"github-token", "remote: ", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "\n"},
    {"github-token", "", "gho_16C7e42F292c6912E7710c838347Ae178B4a", ""},
    {"github-token", "", "ghu_16C7e42F292c6912E7710c838347Ae178B4a", ""},
    {"github-token", "", "ghs_16C7e42F292c6912E7710c838347Ae178B4a", ""},
    {"github-token", "", "ghr_16C7e42F292c6912E7710c838347Ae178B4a", ""},
    {"github-token", "\"", "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz", "\""},
    {"gitlab-token", "", "glpat-xYz1234_-567890abcdE", ""},
    {"aws-key-id", "id ", "AKIAIOSFODNN7EXAMPLE", " used"},
    {"aws-key-id", "", "ASIAIOSFODNN7EXAMPLE", "\n"},
    {"slack-token", "", "xoxb-263594206564-FGqddMF8t08v8N7Oq4i57vs1", "\n"},
    {"slack-token", "", "xoxp-263594206564-FGqddMF8t08v8N7Oq4i57vs1", "\n"},

    {"key", "key=", "abc123", ""},
    {"key", "KEY=", "abc123", "\n"},
    {"key", "api_key=", "abc123", " next"},
    {"key", "API-KEY: ", "abc12345", "\n"},
    {"key", "apiKey=", "abc123", "&x=y"},
    {"key", "apikey=", "abc123", "&x=y"},
    {"key", "{\"api_key\": \"", "q7Rz81LmPw03XyT5", "\"}"},
    {"key", "{\"api_key\":\"", "abc123", "\",\"a\":1}"},
    {"key", "\"{\\\"api_key\\\": \\\"", "abc123", "\\\"}\""},
    {"key", "aws_secret_access_key = ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "\n"},
    {"key", "AWS_SECRET_ACCESS_KEY=", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "\n"},
    {"key", "export AWS_SECRET_ACCESS_KEY=\"", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "\""},
    {"key", "X-Api-Key: ", "0123456789abcdef0123456789abcdef", "\r\n"},
    {"token", "token=", "abc123", ""},
    {"token", "Token=", "abc123", "\n"},
    {"token", "?access_token=", JWT, "&state=1"},
    {"token", "level=info \x1b[36mtoken\x1b[0m=", "abc123", " user=bob"},
    {"github-token", "\x1b[32m", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "\x1b[0m"},
    {"github-token", "\"a\\n", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "\\n\""},
    {"token", "{'token': '", "a1b2c3d4e5f6a7b8", "'}"},
    {"token", "token=", "550e8400-e29b-41d4-a716-446655440000", "\n"},
    {"secret", "secret=", "s3cr3t", ""},
    {"secret", "SECRET=", "swordfish", "\n"},
    {"secret", "client_secret=", "8f7d-qq", "&grant=1"},
    {"secret", "\"client_secret\": \"", "GOCSPX-a1b2c3", "\""},
    {"password", "password=", "hunter2", ""},
    {"password", "PASSWORD=", "hunter2", "\n"},
    {"password", "Password: ", "hunter2", "\n"},
    {"password", "password = ", "hunter2", "\n"},
    {"password", "passwd=", "swordfish", " "},
    {"password", "Server=db;Pwd=", "hunter2", ";Database=x"},
    {"password", "password=", "Password123!", "\n"},
    {"password", "db_password=\"", "correct\\\"horse", "\" x"},
    {"password", "Login(user=bob, password=", "hunter2", ", host=x)"},
    {"token", "Login(user=bob, token=", "9f8a7b6c5d", ")"},
    {"password", "PGPASSWORD=", "swordfish", " psql"},
    {"password", "{\"password\":\"", "hunter2", "\"}"},
    {"password", "{'password': '", "hunter2", "'}"},
    {"password", "\"{\\\"password\\\":\\\"", "hunter2", "\\\"}\""},
    {"password", "mysql --password=", "hunter2", " -u root"},

    {"credential", "X-Auth-Token: ", "my-super-secret-token-value-here", "\n"},
    {"credential", "curl -H 'X-Auth-Token: ", "my-super-secret-token-value-here", "' https://x"},
    {"credential", "PRIVATE-TOKEN: ", "some-words-of-a-token", "\r\n"},
    {"credential", "x-api-key: ", "my-super-secret", "\n"},
    {"password", "password: ", "my_secure_pass!", "\n"},
    {"password", "pass: ", "correcthorse9", "\n"},
    {"password", "user: bob\n  pass: ", "correcthorse9", "\n"},
    {"password", "db_pass=", "correcthorse9", " x"},
    {"password", "auth: { user: 'bob', pass: '", "correcthorse9", "' }"},
    {"password", "{\"pass\":\"", "correcthorse9", "\"}"},
    {"key", "--key=", "abcdefgh", " x"},
    {"key", "?key=", "abcdefgh", "&x"},

    {"bearer-token", "curl with Bearer ", JWT, " failed"},
    {"bearer-token", "bearer ", "abcdef0123456789", ""},
    {"authorization", "Authorization: ", "Basic dXNlcjpwYXNz", "\r\n"},
    {"authorization", "authorization: ", "Bearer abcdef", "\n"},
    {"authorization", "AUTHORIZATION: ", "Bearer " JWT, ""},
    {"authorization", "Proxy-Authorization: ", "Basic dXNlcjpwYXNz", "\n"},
    {"authorization", "Authorization: ",
     "Digest username=\"bob\", realm=\"x\", response=\"6629fae49393a05397450978507c4ef1\"", "\n"},
    {"authorization", "curl -H 'Authorization: ", "token 0123456789abcdef", "' https://x"},
    {"authorization", "curl -H \"Authorization: ", "Bearer " JWT, "\" https://x"},
    {"authorization", "{\"Authorization\": \"", "Bearer " JWT, "\", \"a\": 1}"},
    {"authorization", "{'Authorization': '", "Basic dXNlcjpwYXNz", "'}"},
    {"authorization", "\"{\\\"Authorization\\\": \\\"", "Basic dXNlcjpwYXNz", "\\\"}\""},
    {"cookie", "Cookie: ", "session=abc123; theme=dark", "\n"},
    {"cookie", "set-cookie: ", "sid=31d4d96e407aad42; Path=/; HttpOnly", "\r\n"},
    {"cookie", "curl -H 'Cookie: ", "session=abc123", "' x"},

    {"url-password", "https://user:", "password", "@host/path"},
    {"url-password", "postgres://app:", "p-ss:w0rd", "@db:5432/x"},
    {"url-password", "redis://:", "hunter2", "@cache"},
    {"url-password", "https://oauth2:", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "@github.com"},

    {"private-key", "", "-----BEGIN RSA PRIVATE KEY-----\n" KEY64 "-----END RSA PRIVATE KEY-----",
     "\nrest\n"},
    {"private-key", "a\n", "-----BEGIN PRIVATE KEY-----\nMIIEow\n-----END PRIVATE KEY-----", "\n"},
    {"private-key", "", "-----BEGIN OPENSSH PRIVATE KEY-----\r\n" KEY64, ""},
    {"private-key", "",
     "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,1234\n\n" KEY64
     "-----END EC PRIVATE KEY-----",
     "\n"},
    {"private-key", "{\"k\": \"",
     "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\\nBKcw=="
     "\\n-----END PRIVATE KEY-----",
     "\\n\"}"},
    {"private-key", "", "-----BEGIN PRIVATE KEY-----\nMIIEow", ""},
};

static const char *const negatives[] = {
    "monkey=banana1 keyboard=qwerty12 turkey=abc123 hockey: puck1234\n",
    "commit 01a8e2a4c6e8f0b2d4f6a8c0e2f4a6b8c0d2e4f6\n",
    "550e8400-e29b-41d4-a716-446655440000",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhg",
    "the token is invalid, a secret: nobody knows the password\n",
    "error: unexpected token: expected ';' before 'x1'\n",
    "a.c:3: token: expected identifier\n",
    "sorted(x, key=lambda y: y[1])\nkey=None\npassword=None\nsecret=None)\n",
    "token = tokenizer.next()\n    token=token1)\n    key=key2,\n",
    "\"password\": null, \"token\": null\n",
    "def login(user: str, password: str, token: Optional[str] = None)\n",
    "password=$PASSWORD token=${TOKEN} secret=%s password=%(pw)s key={key1}\n",
    "password=**** password: ******** token=xxxxxxxx\n",
    "password=<your password> secret=\"...\"\n",
    "self.password = password\n    password=password,\n    secret = client_secret\n",
    "password = getpass.getpass('Password: ')\n",
    "PWD=/home/user OLDPWD=/tmp\n",
    "risk-abcdefgh12345678 task-force-1234567890 disk-ABCDEFGH123456\n",
    "sk-ssh-ed25519@openssh.com sk-ecdsa-sha2-nistp256@openssh.com\n",
    "XAKIAIOSFODNN7EXAMPLE foxoxb-1234567890 xghp_16C7e42F292c6912E7710c838347Ae178B4a\n",
    "https://host:8080/path http://a.b:80 mailto:user@host ssh://git@github.com/x\n",
    "http://host/a:b@c https://{user}:{password}@host\n",
    "the bearer of this letter, Bearer tokens and bearer authentication\n",
    "headers['Authorization'] = 'Bearer ' + token; Authorization: required\n",
    "-H \"Authorization: Bearer $TOKEN\" 'Authorization': 'Bearer %s' % x\n",
    "cookie: chocolate chip; Cookie recipes\n",
    "if '-----BEGIN PRIVATE KEY-----' in text: # -----BEGIN RSA PRIVATE KEY----- is a header\n",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA0Z3VS5JJ\n",
    "max_tokens=4096 num_keys=12345678 tokens: 123456 key=12 token: 17\n",
    "const int key = 42; let token: string; key: KeyType\n",
    "--sort-key=COLUMN sort_key=column2 --primary-key=id_12345 partition-key=region17\n",
    "PASS: test_foo1 PASS: tests/foo12.sh\nPASS: testcase9\npass: 12 pass=2 bypass: abcdefg9\n",
    "pass: test_case_12\nok, 3 passed: abcdefgh1\ncompass=northwest9 pass=firstpass\n",
    "X-Auth-Token: required\nX-Auth-Token: $TOKEN\nX-Auth-Token: <token>\nx-api-key: "
    "your-key-here\n",
    "password: this.password!\npassword: user_password\n",
};

static struct redact_rules *all_rules(void)
{
    struct redact_rules *rules = NULL;
    assert_int_equal(redact_rules_new(&rules, NULL, NULL, NULL), 0);
    return rules;
}

static struct redact_rules *user_rules(const char *const *patterns)
{
    struct redact_rules *rules = NULL;
    struct brig_error err = {0};
    if (redact_rules_new(&rules, "", patterns, &err) < 0)
        fail_msg("%s", err.text);
    return rules;
}

static void check_output(const struct buf *out, const char *expected, const char *text)
{
    assert_int_equal(buf_failed(out), 0);
    if (out->len != strlen(expected) || memcmp(out->data, expected, out->len) != 0)
        fail_msg("of:  %s\ncame: %.*s\nnot: %s", text, (int)out->len, out->data, expected);
}

/* The text in pieces that end at these places. */
static void check_pieces(const struct redact_rules *rules, const char *text, const char *expected,
                         const size_t *ends, size_t count)
{
    struct redactor *r;
    struct buf out;
    size_t at = 0, len = strlen(text);
    buf_init(&out, 1 << 20);
    assert_int_equal(redactor_new(&r, rules), 0);
    for (size_t i = 0; i <= count; i++) {
        size_t end = i < count ? ends[i] : len;
        assert_int_equal(redactor_feed(r, text + at, end - at, &out), 0);
        at = end;
    }
    assert_int_equal(redactor_end(r, &out), 0);
    check_output(&out, expected, text);
    assert_int_equal(redactor_held(r), 0);
    redactor_free(r);
    buf_done(&out);
}

static void check_whole(const struct redact_rules *rules, const char *text, const char *expected)
{
    check_pieces(rules, text, expected, NULL, 0);
}

static void check_every_split(const struct redact_rules *rules, const char *text,
                              const char *expected, bool three)
{
    size_t len = strlen(text), ends[2048];
    for (size_t i = 0; i <= len; i++)
        check_pieces(rules, text, expected, (size_t[]){i}, 1);
    for (size_t i = 0; three && i <= len; i++)
        for (size_t j = i; j <= len; j++)
            check_pieces(rules, text, expected, (size_t[]){i, j}, 2);
    for (size_t i = 0; i < len; i++)
        ends[i] = i + 1;
    check_pieces(rules, text, expected, ends, len);
}

static void example_text(const struct example *example, char text[2048], char expected[2048])
{
    snprintf(text, 2048, "%s%s%s", example->before, example->secret, example->after);
    snprintf(expected, 2048, "%s[redacted:%s]%s", example->before, example->name, example->after);
}

static void test_each_secret_is_replaced(void **state)
{
    struct redact_rules *rules = all_rules();
    char text[2048], expected[2048];
    for (size_t i = 0; i < COUNT(positives); i++) {
        example_text(&positives[i], text, expected);
        check_whole(rules, text, expected);
    }
    redact_rules_free(rules);
}

static void test_what_is_no_secret_stays(void **state)
{
    struct redact_rules *rules = all_rules();
    for (size_t i = 0; i < COUNT(negatives); i++)
        check_every_split(rules, negatives[i], negatives[i], false);
    redact_rules_free(rules);
}

static void test_a_secret_is_replaced_in_any_two_or_three_pieces_and_in_single_bytes(void **state)
{
    struct redact_rules *rules = all_rules();
    char text[2048], expected[2048];
    for (size_t i = 0; i < COUNT(positives); i++) {
        example_text(&positives[i], text, expected);
        check_every_split(rules, text, expected, strlen(text) < 120);
    }
    redact_rules_free(rules);
}

/* ---- many and long ------------------------------------------------------------------------- */

#define ALPHABET "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* 24 letters and digits that are no word; the first ones see to it. */
static void random_secret(struct random *random, char out[25])
{
    memcpy(out, "a1B2", 4);
    for (size_t i = 4; i < 24; i++)
        out[i] = ALPHABET[random_below(random, 62)];
    out[24] = 0;
}

static void feed_randomly(struct redactor *r, struct random *random, const char *text, size_t len,
                          size_t most, struct buf *out)
{
    while (len) {
        size_t n = 1 + random_below(random, most);
        n = n < len ? n : len;
        assert_int_equal(redactor_feed(r, text, n, out), 0);
        assert_true(redactor_held(r) <= REDACT_HOLD);
        text += n;
        len -= n;
    }
}

static void test_of_a_hundred_thousand_secrets_at_random_places_none_is_shown(void **state)
{
    static const char *const forms[][2] = {
        {"token=", "\n"},
        {"ghp_", " "},
        {"\"api_key\": \"", "\""},
        {"password: ", "\n"},
        {"https://u:", "@h/"},
        {"Authorization: Bearer ", "\n"},
        {"Cookie: sid=", "\r\n"},
        {"bearer ", ","},
        {"sk-", "\n"},
        {"\\\"secret\\\":\\\"", "\\\""},
        {"xoxb-", ";"},
        {"client_secret='", "'"},
    };
    static const char *const filler[] = {"2026-11-16 INFO ", "GET /a/b?c=d ",  "x",  "\n", "key",
                                         "monkey=banana ",   "https://host/ ", "\"", " - "};
    struct redact_rules *rules = all_rules();
    struct random random = {33};
    for (int round = 0; round < 1000; round++) {
        struct buf text, out;
        struct redactor *r;
        char secrets[100][25];
        buf_init(&text, 1 << 20);
        buf_init(&out, 1 << 20);
        for (size_t i = 0; i < 100; i++) {
            const char *const *form = forms[random_below(&random, COUNT(forms))];
            random_secret(&random, secrets[i]);
            for (size_t n = random_below(&random, 6); n; n--)
                buf_text(&text, filler[random_below(&random, COUNT(filler))]);
            buf_text(&text, "\n");
            buf_text(&text, form[0]);
            buf_text(&text, secrets[i]);
            buf_text(&text, form[1]);
        }
        assert_int_equal(redactor_new(&r, rules), 0);
        feed_randomly(r, &random, text.data, text.len, 1 + random_below(&random, 200), &out);
        assert_int_equal(redactor_end(r, &out), 0);
        assert_int_equal(redactor_count(r), 100);
        buf_add(&out, "", 1);
        for (size_t i = 0; i < 100; i++)
            assert_null(strstr(out.data, secrets[i] + 4));
        redactor_free(r);
        buf_done(&text);
        buf_done(&out);
    }
    redact_rules_free(rules);
}

static void test_a_secret_of_a_megabyte_is_swallowed_whole(void **state)
{
    static const struct example forms[] = {
        {"password", "password=", "", " end"},
        {"password", "\"password\": \"", "", "\" end"},
        {"password", "\\\"password\\\": \\\"", "", "\\\" end"},
        {"token", "token=", "", "\nend"},
        {"key", "api_key: ", "", "\nend"},
        {"github-token", "ghp_", "", " end"},
        {"openai-key", "sk-ant-", "", " end"},
        {"bearer-token", "bearer ", "", "\nend"},
        {"authorization", "Authorization: Basic ", "", "\nend"},
        {"cookie", "cookie: a=", "", "\nend"},
        {"url-password", "https://user:", "", "@end"},
        {"private-key", "-----BEGIN PRIVATE KEY-----\n", "", "\n-----END PRIVATE KEY-----"},
    };
    struct redact_rules *rules = all_rules();
    struct random random = {34};
    for (size_t i = 0; i < COUNT(forms); i++) {
        struct buf text, out;
        struct redactor *r;
        buf_init(&text, 4 << 20);
        buf_init(&out, 4 << 20);
        buf_text(&text, forms[i].before);
        buf_text(&text, "a1B2");
        for (size_t n = 0; n < 1 << 20; n++)
            buf_add(&text, &ALPHABET[random_below(&random, 62)], 1);
        buf_text(&text, forms[i].after);
        assert_int_equal(redactor_new(&r, rules), 0);
        feed_randomly(r, &random, text.data, text.len, 1000, &out);
        assert_int_equal(redactor_end(r, &out), 0);
        assert_int_equal(redactor_count(r), 1);
        assert_true(out.len < 100);
        buf_add(&out, "", 1);
        assert_contains(out.data, forms[i].name);
        redactor_free(r);
        buf_done(&text);
        buf_done(&out);
    }
    redact_rules_free(rules);
}

/* ---- sets and patterns --------------------------------------------------------------------- */

static void test_only_the_sets_that_were_asked_for_are_used(void **state)
{
    struct redact_rules *rules;
    const char *text = "password=hunter2 https://a:secret1@b ghp_16C7e42F292c6912E7710c838347Ae\n";
    assert_int_equal(redact_rules_new(&rules, "urls,tokens", NULL, NULL), 0);
    check_whole(rules, text,
                "password=hunter2 https://a:[redacted:url-password]@b [redacted:github-token]\n");
    redact_rules_free(rules);
    assert_int_equal(redact_rules_new(&rules, "", NULL, NULL), 0);
    check_whole(rules, text, text);
    redact_rules_free(rules);
}

static void refused(const char *sets, const char *pattern, const char *why)
{
    struct redact_rules *rules = (struct redact_rules *)1;
    struct brig_error err = {0};
    assert_true(redact_rules_new(&rules, sets, (const char *const[]){pattern, NULL}, &err) < 0);
    assert_int_equal(err.fault, BRIG_FAULT_USAGE);
    assert_contains(err.text, why);
    assert_ptr_equal(rules, (struct redact_rules *)1);
}

static void test_what_cannot_work_is_refused_with_its_reason(void **state)
{
    refused("tokens,nonsense", NULL, "nonsense");
    refused(NULL, "a(b", "offset 3");
    refused(NULL, "a(b", "redact_pattern: number 1");
    refused(NULL, "a*", "empty");
    refused(NULL, "\\b", "empty");
    refused(NULL, "x\\Gy", "\\G");
    refused(NULL, "x\\Z", "\\Z");
    refused(NULL, "(*COMMIT)x", "(*");
    refused(NULL, "(*UTF)x", "(*");
}

static void test_a_pattern_shows_its_number_or_the_name_of_its_group(void **state)
{
    const char *const patterns[] = {"JIRA-[0-9]+", "id: (?<badge>[0-9]{4})", "[(*]\\(*x1", NULL};
    struct redact_rules *rules = user_rules(patterns);
    check_every_split(rules, "JIRA-17, id: 1234. (x1 id: 12 password=hunter2\n",
                      "[redacted:pattern-1], id: [redacted:badge]. [redacted:pattern-3] id: 12 "
                      "password=hunter2\n",
                      true);
    redact_rules_free(rules);
}

static void test_patterns_with_context_give_the_same_in_any_pieces(void **state)
{
    static const struct {
        const char *pattern, *text, *expected;
    } cases[] = {
        {"(?<=pin )[0-9]{4}", "pin 1234 pan 1234", "pin [redacted:pattern-1] pan 1234"},
        {"^ab$", "ab\nabc\nab", "[redacted:pattern-1]\nabc\n[redacted:pattern-1]"},
        {"\\Aab", "ababab", "[redacted:pattern-1]abab"},
        {"\\bcat\\b", "cat concat cat", "[redacted:pattern-1] concat [redacted:pattern-1]"},
        {"a.*b", "xaxbxbx\nab", "x[redacted:pattern-1]x\n[redacted:pattern-1]"},
        {"a(?=b)", "abaab", "[redacted:pattern-1]ba[redacted:pattern-1]b"},
        {"a(?!b)", "abaa", "ab[redacted:pattern-1][redacted:pattern-1]"},
        {"key=\\K\\w+", "key=abc key=", "key=[redacted:pattern-1] key="},
        {"(?s)<.*?>", "a<b\nc>d>", "a[redacted:pattern-1]d>"},
        {"(?<x>q)?z", "qzz", "[redacted:x]z[redacted:x]"},
        {"foo\\z", "foofoo", "foo[redacted:pattern-1]"},
        {"(?<=(?<!x)a)b", "xab yab", "xab ya[redacted:pattern-1]"},
        {"(?i)abc", "xABCx", "x[redacted:pattern-1]x"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct redact_rules *rules = user_rules((const char *const[]){cases[i].pattern, NULL});
        check_every_split(rules, cases[i].text, cases[i].expected, true);
        redact_rules_free(rules);
    }
}

static void test_a_pattern_that_needs_more_than_is_held_redacts_what_is_held(void **state)
{
    struct redact_rules *rules = user_rules((const char *const[]){"BEGIN(?s:.)*END", NULL});
    struct random random = {35};
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_text(&text, "x BEGIN");
    for (size_t i = 0; i < 150000; i++)
        buf_add(&text, "y", 1);
    for (int round = 0; round < 4; round++) {
        struct buf out;
        struct redactor *r;
        buf_init(&out, 1 << 20);
        assert_int_equal(redactor_new(&r, rules), 0);
        feed_randomly(r, &random, text.data, text.len, round ? 5000 : text.len, &out);
        assert_int_equal(redactor_end(r, &out), 0);
        assert_int_equal(redactor_count(r), 1);
        assert_null(redactor_failure(r));
        assert_int_equal(out.len, text.len - REDACT_HOLD + strlen("[redacted:pattern-1]"));
        redactor_free(r);
        buf_done(&out);
    }
    buf_done(&text);
    redact_rules_free(rules);
}

static void check_stopped(const char *pattern, const char *unit, size_t times)
{
    struct redact_rules *rules = user_rules((const char *const[]){pattern, NULL});
    struct redactor *r;
    struct buf out;
    buf_init(&out, 1 << 20);
    assert_int_equal(redactor_new(&r, rules), 0);
    assert_int_equal(redactor_feed(r, "before\n", 7, &out), 0);
    for (size_t i = 0; i < times && !redactor_failure(r); i++)
        assert_int_equal(redactor_feed(r, unit, strlen(unit), &out), 0);
    assert_int_equal(redactor_feed(r, "after\n", 6, &out), 0);
    assert_int_equal(redactor_end(r, &out), 0);
    assert_string_equal(redactor_failure(r), "slow");
    buf_add(&out, "", 1);
    assert_contains(out.data, "[redacted: slow took too long]");
    assert_null(strstr(out.data, "after"));
    assert_int_equal(redactor_held(r), 0);
    redactor_free(r);
    redact_rules_free(rules);
    buf_done(&out);
}

static void test_a_pattern_that_backtracks_for_ever_is_stopped(void **state)
{
    check_stopped("(?<slow>(a+)+b)", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac\n", 1);
    check_stopped("(?<slow>(?:x+x+)+y)", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxc\n", 1);
    /* Not for ever at any place, but at each. */
    check_stopped("(?<slow>(?:a|aa)+b)", "aaaaaaaaaaaaaaaaaaaaaac", 10000);
}

static void test_a_pattern_comes_behind_the_rules(void **state)
{
    struct redact_rules *rules;
    const char *const patterns[] = {"hunter2", "bob", NULL};
    assert_int_equal(redact_rules_new(&rules, NULL, patterns, NULL), 0);
    check_every_split(rules, "bob password=hunter2 hunter2",
                      "[redacted:pattern-2] password=[redacted:password] [redacted:pattern-1]",
                      true);
    redact_rules_free(rules);
}

static void test_a_buffer_that_is_full_is_an_error(void **state)
{
    struct redact_rules *rules = all_rules();
    struct buf out;
    uint64_t count = 7;
    buf_init(&out, 10);
    assert_true(redact_text(rules, "more than ten bytes", 19, &out, &count) < 0);
    assert_int_equal(count, 7);
    buf_done(&out);
    redact_rules_free(rules);
}

static size_t split_triggers(struct trigger *out)
{
    size_t count = 0;
    for (size_t i = 0; i < redact_table_len; i++)
        for (const char *t = redact_table[i].triggers; *t;) {
            size_t len = strcspn(t, "|");
            out[count++] = (struct trigger){t, len, redact_table[i].fold};
            t += len + (t[len] == '|');
        }
    return count;
}

static bool begins_inside(const struct trigger *a, const struct trigger *b, size_t at)
{
    for (size_t i = 0; i < b->len && at + i < a->len; i++)
        if (a->text[at + i] != b->text[i] &&
            !((a->fold || b->fold) && (a->text[at + i] | 0x20) == (b->text[i] | 0x20)))
            return false;
    /* The last bytes, of which the scan uses none to find a trigger, may be those of another. */
    return a->len - at > (a->len > 4 ? 2 : 1);
}

/* Of those that are in the table more than once. */
static bool is_first(const struct trigger *triggers, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (triggers[j].len == triggers[i].len &&
            strncasecmp(triggers[j].text, triggers[i].text, triggers[i].len) == 0)
            return false;
    return true;
}

static void test_the_table_keeps_what_the_scan_relies_on(void **state)
{
    struct trigger triggers[256];
    size_t count = split_triggers(triggers);
    assert_true(redact_table_len < 64);
    for (size_t i = 0; i < count; i++) {
        size_t here = 0; /* that begin as it does, it among them */
        assert_in_range(triggers[i].len, 3, 16);
        for (size_t j = 0; j < count; j++)
            here += triggers[j].len <= triggers[i].len &&
                    strncasecmp(triggers[j].text, triggers[i].text, triggers[j].len) == 0 &&
                    is_first(triggers, j);
        assert_in_range(here, 1, 4);
        for (size_t j = 0; triggers[i].fold && j < triggers[i].len; j++)
            assert_false(triggers[i].text[j] >= 'A' && triggers[i].text[j] <= 'Z');
        for (size_t j = 0; j < count; j++)
            for (size_t at = 1; at < triggers[i].len; at++)
                assert_false(begins_inside(&triggers[i], &triggers[j], at));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_secret_is_replaced),
        cmocka_unit_test(test_what_is_no_secret_stays),
        cmocka_unit_test(test_a_secret_is_replaced_in_any_two_or_three_pieces_and_in_single_bytes),
        cmocka_unit_test(test_of_a_hundred_thousand_secrets_at_random_places_none_is_shown),
        cmocka_unit_test(test_a_secret_of_a_megabyte_is_swallowed_whole),
        cmocka_unit_test(test_only_the_sets_that_were_asked_for_are_used),
        cmocka_unit_test(test_what_cannot_work_is_refused_with_its_reason),
        cmocka_unit_test(test_a_pattern_shows_its_number_or_the_name_of_its_group),
        cmocka_unit_test(test_patterns_with_context_give_the_same_in_any_pieces),
        cmocka_unit_test(test_a_pattern_that_needs_more_than_is_held_redacts_what_is_held),
        cmocka_unit_test(test_a_pattern_that_backtracks_for_ever_is_stopped),
        cmocka_unit_test(test_a_pattern_comes_behind_the_rules),
        cmocka_unit_test(test_a_buffer_that_is_full_is_an_error),
        cmocka_unit_test(test_the_table_keeps_what_the_scan_relies_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
