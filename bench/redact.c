/* SPDX-License-Identifier: MIT */
/* The cost of redaction, and its false positives.
 *
 *     bench_redact                   speed, compared with one big expression and a plain copy
 *     bench_redact --corpus DIR...   matches in the source code below DIR, with the lines
 *
 * The ways are measured in turns, and the best round of each is printed, because the machine may be
 * busy. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../tests/unit/random.h"
#include "base/buf.h"
#include "lib/redact/redact.h"
#include "lib/redact/redact_table.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench_redact: %s\n", what);
    exit(1);
}

static void ok(int ret, const char *what)
{
    if (ret < 0)
        die(what);
}

/* ---- matches in source code ----------------------------------------------------------------- */

static struct {
    struct redact_rules *rules;
    uint64_t files, lines, bytes, hits;
} corpus;

static void show_hits(const char *path, const char *text, size_t len)
{
    size_t number = 1;
    for (const char *line = text, *end; line < text + len; line = end, number++) {
        struct buf out;
        uint64_t count = 0;
        end = memchr(line, '\n', len - (size_t)(line - text));
        end = end ? end + 1 : text + len;
        buf_init(&out, 64u << 20);
        ok(redact_text(corpus.rules, line, (size_t)(end - line), &out, &count), "no memory");
        if (count)
            printf("%s:%zu\n  + %.*s", path, number, out.len < 300 ? (int)out.len : 300, out.data);
        if (count)
            printf("  - %.*s", end - line < 300 ? (int)(end - line) : 300, line);
        buf_done(&out);
    }
}

static void read_source(const char *path, size_t size)
{
    struct buf out;
    uint64_t count = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = malloc(size + 1);
    ssize_t len = fd >= 0 && text ? read(fd, text, size) : -1;
    if (fd >= 0)
        close(fd);
    buf_init(&out, 256u << 20);
    if (len > 0) {
        ok(redact_text(corpus.rules, text, (size_t)len, &out, &count), "no memory");
        corpus.files++;
        corpus.bytes += (uint64_t)len;
        for (ssize_t i = 0; i < len; i++)
            corpus.lines += text[i] == '\n';
        corpus.hits += count;
        if (count)
            show_hits(path, text, (size_t)len);
    }
    buf_done(&out);
    free(text);
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    static const char *const endings[] = {".c",  ".h",  ".cc", ".cpp", ".hpp", ".py",
                                          ".js", ".ts", ".sh", ".pl",  ".pm",  ".vim",
                                          ".go", ".rb", ".rs", ".java"};
    const char *ending = strrchr(path + ftw->base, '.');
    if (type != FTW_F || !S_ISREG(st->st_mode) || !ending || st->st_size > (32 << 20))
        return 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strcmp(ending, endings[i]) == 0)
            read_source(path, (size_t)st->st_size);
    return 0;
}

static int run_corpus(char **dirs)
{
    ok(redact_rules_new(&corpus.rules, NULL, NULL, NULL), "no rules");
    for (; *dirs; dirs++)
        nftw(*dirs, visit, 32, FTW_PHYS);
    printf("%llu files, %llu lines, %llu bytes: %llu hits, %.2f in a million lines\n",
           (unsigned long long)corpus.files, (unsigned long long)corpus.lines,
           (unsigned long long)corpus.bytes, (unsigned long long)corpus.hits,
           corpus.lines ? (double)corpus.hits * 1e6 / (double)corpus.lines : 0);
    redact_rules_free(corpus.rules);
    return 0;
}

/* ---- speed ---------------------------------------------------------------------------------- */

#define TEXT_SIZE (32u << 20)
#define CHUNK     65536u
#define ROUNDS    7

static double now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Add a line of a web service's log; one in a hundred has a secret. */
static void add_line(struct buf *text, struct random *random)
{
    static const char *const levels[] = {"INFO", "DEBUG", "WARN", "ERROR"};
    static const char *const paths[] = {"/srv/app/handlers/user.py", "/usr/lib/python3.11/ssl.py",
                                        "src/server/request.go", "/var/log/nginx/access.log"};
    unsigned n = (unsigned)random_next(random) % 100000;
    buf_printf(text, "2026-11-16T07:%02u:%02u.%03uZ %s ", n % 60, n / 7 % 60, n % 1000,
               levels[n % 4]);
    switch (random_below(random, 7)) {
    case 0:
        buf_printf(text, "request id=%08x user=%u method=GET path=%s status=200 took=%ums\n",
                   n * 7919, n, paths[n % 4], n % 900);
        break;
    case 1:
        buf_printf(text, "{\"event\":\"order\",\"id\":%u,\"ok\":true,\"items\":[%u,%u]}\n", n,
                   n % 7, n % 31);
        break;
    case 2:
        buf_printf(text, "fetching https://api.example.com/v2/items/%u?page=%u&sort=asc\n", n,
                   n % 50);
        break;
    case 3:
        buf_printf(text, "%s:%u: the cache was not warm, so that the request had to wait\n",
                   paths[n % 4], n % 500);
        break;
    case 4:
        buf_printf(text, "worker %u finished task %u, checking the next one in the queue\n", n % 16,
                   n);
        break;
    case 5:
        buf_printf(text, "commit %08x%08x%08x%08x%08x by alice\n", n, n * 31, n * 17, n * 13,
                   n * 7);
        break;
    default:
        if (n % 14 == 0)
            buf_printf(text, "login user=bob password=hunter%u token=ghp_%08xabcdefABCDEF%08x\n", n,
                       n, n * 31);
        else
            buf_printf(text, "session started for user %u, keyboard layout us, 3 keys loaded\n", n);
    }
}

/* All rules as one JIT-compiled expression over the whole text, like a filter that uses PCRE2 for
 * everything. It has only the last row of each name, because all rows are too much for PCRE2; so it
 * finds less, and costs less than it would. */
static pcre2_code *one_expression(void)
{
    struct buf regex;
    int error;
    PCRE2_SIZE offset;
    buf_init(&regex, 1 << 20);
    for (size_t i = 0; i < redact_table_len; i++) {
        const char *tail = redact_tails[redact_table[i].tail].regex;
        if (i + 1 < redact_table_len && strcmp(redact_table[i].name, redact_table[i + 1].name) == 0)
            continue;
        buf_printf(&regex, "%s(?%s:%s(?:%s)*+)", regex.len ? "|" : "",
                   redact_table[i].fold ? "i" : "", redact_table[i].regex,
                   tail ? tail : "(?s:.)*?-----END");
    }
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)regex.data, regex.len, 0, &error, &offset, NULL);
    if (!code || pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) < 0)
        die("the one expression does not compile");
    buf_done(&regex);
    return code;
}

static size_t run_expression(const pcre2_code *code, const struct buf *text, struct buf *out)
{
    static pcre2_match_data *match;
    size_t count = 0;
    if (!match)
        match = pcre2_match_data_create_from_pattern(code, NULL);
    out->len = 0;
    for (size_t first = 0; first < text->len; first += CHUNK) {
        size_t len = text->len - first < CHUNK ? text->len - first : CHUNK, at = 0;
        PCRE2_SPTR subject = (PCRE2_SPTR)text->data + first;
        while (pcre2_match(code, subject, len, at, 0, match, NULL) > 0) {
            const PCRE2_SIZE *found = pcre2_get_ovector_pointer(match);
            buf_add(out, subject + at, found[0] - at);
            at = found[1];
            count++;
        }
        buf_add(out, subject + at, len - at);
    }
    return count;
}

static size_t run_engine(const struct redact_rules *rules, const struct buf *text, struct buf *out)
{
    struct redactor *r;
    ok(redactor_new(&r, rules), "no memory");
    out->len = 0;
    for (size_t at = 0; at < text->len; at += CHUNK)
        ok(redactor_feed(r, text->data + at, text->len - at < CHUNK ? text->len - at : CHUNK, out),
           "feed");
    ok(redactor_end(r, out), "end");
    size_t count = redactor_count(r);
    redactor_free(r);
    return count;
}

static size_t run_copy(const struct buf *text, struct buf *out)
{
    out->len = 0;
    for (size_t at = 0; at < text->len; at += CHUNK)
        buf_add(out, text->data + at, text->len - at < CHUNK ? text->len - at : CHUNK);
    return 0;
}

static void keep_best(double *best, double start)
{
    double took = now() - start;
    if (*best == 0 || took < *best)
        *best = took;
}

static void report(const char *what, double took, size_t len, size_t count)
{
    printf("%-28s %7.3f GB/s %7.3f GiB/s %8zu secrets\n", what, (double)len / took / 1e9,
           (double)len / took / (double)(1 << 30), count);
}

static void run_speed(void)
{
    struct random random = {1};
    struct redact_rules *rules, *with_pattern;
    struct buf text, out;
    double best[4] = {0};
    size_t count[4] = {0};
    pcre2_code *code = one_expression();
    buf_init(&text, 2 * TEXT_SIZE);
    buf_init(&out, 4 * TEXT_SIZE);
    while (text.len < TEXT_SIZE)
        add_line(&text, &random);
    ok(redact_rules_new(&rules, NULL, NULL, NULL), "no rules");
    ok(redact_rules_new(&with_pattern, NULL, (const char *const[]){"ACME-[0-9]{4}", NULL}, NULL),
       "no rules");
    for (int i = 0; i < ROUNDS; i++) {
        double start = now();
        count[1] = run_engine(rules, &text, &out);
        keep_best(&best[1], start);
        start = now();
        run_copy(&text, &out);
        keep_best(&best[2], start);
        start = now();
        count[3] = run_engine(with_pattern, &text, &out);
        keep_best(&best[3], start);
        if (i % 3)
            continue;
        start = now();
        count[0] = run_expression(code, &text, &out);
        keep_best(&best[0], start);
    }
    report("one expression, PCRE2 JIT", best[0], text.len, count[0]);
    report("the engine", best[1], text.len, count[1]);
    report("the engine and one pattern", best[3], text.len, count[3]);
    report("a copy", best[2], text.len, 0);
    redact_rules_free(rules);
    redact_rules_free(with_pattern);
    pcre2_code_free(code);
    buf_done(&text);
    buf_done(&out);
}

/* The cost for a run that prints one line of 100 bytes: create, use and free the rules and a
 * stream. */
static void run_first_line(const char *what, const char *line)
{
    double best = 0;
    for (int i = 0; i < 200; i++) {
        struct redact_rules *rules;
        struct redactor *r;
        struct buf out;
        double start = now();
        buf_init(&out, 4096);
        ok(redact_rules_new(&rules, NULL, NULL, NULL), "no rules");
        ok(redactor_new(&r, rules), "no memory");
        ok(redactor_feed(r, line, strlen(line), &out), "feed");
        ok(redactor_end(r, &out), "end");
        redactor_free(r);
        redact_rules_free(rules);
        buf_done(&out);
        keep_best(&best, start);
    }
    printf("%-28s %7.1f µs\n", what, best * 1e6);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--corpus") == 0)
        return run_corpus(argv + 2);
    if (argc > 1)
        die("usage: bench_redact [--corpus DIR...]");
    run_speed();
    run_first_line("a first line", "2026-11-16T07:16:51Z INFO request id=4711 path=/srv/app/x.py "
                                   "status=200 took=17ms from 10.0.0.1 ok\n");
    run_first_line("a first line with a secret",
                   "2026-11-16T07:16:51Z INFO login user=bob from=10.0.0.1 "
                   "token=ghp_16C7e42F292c6912E7710c838347Ae\n");
    return 0;
}
