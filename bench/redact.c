/* What redaction costs, and what it takes for a secret that is none.
 *
 *     bench_redact                   speed, against one big expression and a plain copy
 *     bench_redact --corpus DIR...   what it finds in the source code below DIR, with the lines
 *
 * The figures are of rounds that take turns, the best of each: the machine may be busy. */
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
#include "lib/redact.h"
#include "lib/redact_table.h"

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

/* ---- what it finds in source code ----------------------------------------------------------- */

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

static int run_corpus(char **folders)
{
    ok(redact_rules_new(&corpus.rules, NULL, NULL, NULL), "no rules");
    for (; *folders; folders++)
        nftw(*folders, visit, 32, FTW_PHYS);
    printf("%llu files, %llu lines, %llu bytes: %llu hits, %.2f in a million lines\n",
           (unsigned long long)corpus.files, (unsigned long long)corpus.lines,
           (unsigned long long)corpus.bytes, (unsigned long long)corpus.hits,
           corpus.lines ? (double)corpus.hits * 1e6 / (double)corpus.lines : 0);
    redact_rules_free(corpus.rules);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "--corpus") == 0)
        return run_corpus(argv + 2);
    return 1;
}
