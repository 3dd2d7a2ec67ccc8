/* SPDX-License-Identifier: MIT */
/* The journal of a batch.
 *
 * A line is appended with a single write(), so a batch that is killed at any moment leaves complete
 * lines and at most one incomplete line, the last. After a power failure more lines may be missing,
 * but none that were synced. Reading takes one pass and fixed memory: only the beginning of each
 * line is parsed, and all of the last one. */
#include "batch_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/jsonscan.h"
#include "cli/target.h"

#define STAGE "journal"

#define MAGIC     "{\"schema\":\"brig.batch/1\","
#define HEAD      256                  /* bytes parsed of each line */
#define PIECE     65536                /* bytes per read */
#define LAST_MAX  (UINT64_C(64) << 20) /* the longest last line that is parsed as a whole */
#define LINES_MAX (UINT64_C(1) << 32)
#define LOCK_WAIT (2 * NS_PER_S) /* for processes of a killed batch that are about to die */

/* ---- lines --------------------------------------------------------------------------------- */

static bool take_text(const char **at, const char *end, const char *text)
{
    size_t len = strlen(text);
    if ((size_t)(end - *at) < len || memcmp(*at, text, len) != 0)
        return false;
    *at += len;
    return true;
}

static bool take_number(const char **at, const char *end, uint64_t *number)
{
    const char *start = *at;
    *number = 0;
    for (; *at < end && **at >= '0' && **at <= '9' && *at - start < 18; ++*at)
        *number = *number * 10 + (uint64_t)(**at - '0');
    return *at > start;
}

static bool take_hash(const char **at, const char *end, uint64_t *hash)
{
    *hash = 0;
    if (end - *at < 16)
        return false;
    for (int i = 0; i < 16; i++, ++*at) {
        char c = **at;
        bool digit = c >= '0' && c <= '9';
        if (!digit && !(c >= 'a' && c <= 'f'))
            return false;
        *hash = *hash << 4 | (uint64_t)(digit ? c - '0' : c - 'a' + 10);
    }
    return true;
}

bool journal_parse(const char *text, size_t len, struct journal_record *out)
{
    const char *at = text, *end = text + len;
    struct journal_record record = {0};
    if (!take_text(&at, end, "{\"line\":") || !take_number(&at, end, &record.line) ||
        !take_text(&at, end, ",\"hash\":\"") || !take_hash(&at, end, &record.hash) ||
        !take_text(&at, end, "\",\"ok\":"))
        return false;
    record.ok = take_text(&at, end, "true");
    if (!record.ok && !take_text(&at, end, "false"))
        return false;
    if (!take_text(&at, end, ",\"job\":\"") || record.line == 0 || record.line >= LINES_MAX)
        return false;
    *out = record;
    return true;
}

/* ---- finished jobs ------------------------------------------------------------------------- */

static uint32_t mark_of(uint64_t hash)
{
    uint32_t mark = (uint32_t)(hash ^ hash >> 32);
    return mark ? mark : 1;
}

static uint32_t mark_at(const struct journal *j, uint64_t line)
{
    return line < j->marks_size ? j->marks[line] : 0;
}

static enum journal_state is_other(struct journal *j, uint64_t line)
{
    j->other = line;
    return JOURNAL_OTHER;
}

enum journal_state journal_follow(struct journal *j, uint64_t line, uint64_t hash)
{
    while (++j->followed < line) {
        if (mark_at(j, j->followed))
            return is_other(j, j->followed);
    }
    if (!mark_at(j, line))
        return JOURNAL_TODO;
    return mark_at(j, line) == mark_of(hash) ? JOURNAL_DONE : is_other(j, line);
}

enum journal_state journal_follow_end(struct journal *j)
{
    return j->last_line > j->followed ? is_other(j, j->last_line) : JOURNAL_DONE;
}

void journal_rewind(struct journal *j)
{
    j->followed = 0;
}

int journal_refuse(const struct journal *j, const char *input, struct brig_error *err)
{
    return error_refused(err, STAGE,
                         "%.200s: line %" PRIu64 ": is not the job that --resume %.200s has a "
                         "result of: the file was edited, or the journal is of another batch",
                         input, j->other, j->path);
}

/* A mapping: a gap in the line numbers takes no memory. */
static int grow_marks(struct journal *j, uint64_t line)
{
    size_t size = j->marks_size ? j->marks_size : 16384;
    while (size <= line)
        size *= 2;
    void *marks = j->marks ? mremap(j->marks, j->marks_size * sizeof *j->marks,
                                    size * sizeof *j->marks, MREMAP_MAYMOVE)
                           : mmap(NULL, size * sizeof *j->marks, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (marks == MAP_FAILED)
        return -ENOMEM;
    j->marks = marks;
    j->marks_size = size;
    return 0;
}

/* ---- opening ------------------------------------------------------------------------------- */

static int failed(const struct journal *j, const char *what, int errnum, struct brig_error *err)
{
    return error_system(err, STAGE, errnum, "--resume: %.200s: %s: %s", j->path, what,
                        error_text(errnum));
}

/* One pass over the file. */
struct pass {
    struct journal *journal;
    char header[32];      /* the expected "setup" of the header */
    char head[HEAD];      /* the beginning of the current line */
    uint64_t at, len;     /* its offset, and its length so far */
    uint64_t number;      /* of the line */
    char last;            /* its last byte so far */
    uint64_t bad, bad_at; /* the first line that is not a record */
    uint64_t last_at, last_len;
    struct journal_record last_record;
};

static int check_header(struct pass *p, struct brig_error *err)
{
    const struct journal *j = p->journal;
    struct jsonscan scan;
    struct jsonscan_span setup;
    if (p->len > HEAD || strncmp(p->head, MAGIC, sizeof MAGIC - 1) != 0 ||
        !jsonscan(&scan, p->head, (size_t)p->len) || !jsonscan_get(&scan, "setup", &setup))
        return error_refused(err, STAGE, "--resume: %.200s: is not a journal of brig batch",
                             j->path);
    if (setup.len != strlen(p->header) || memcmp(setup.at, p->header, setup.len) != 0)
        return error_refused(err, STAGE,
                             "--resume: %.200s: was started with another --spec; use the same "
                             "--spec, or a new journal",
                             j->path);
    return 0;
}

static int damaged(const struct pass *p, uint64_t number, const char *why, struct brig_error *err)
{
    return error_refused(err, STAGE, "--resume: %.200s: line %" PRIu64 ": is damaged: %s",
                         p->journal->path, number, why);
}

static int add_record(struct pass *p, const struct journal_record *record, struct brig_error *err)
{
    struct journal *j = p->journal;
    if (p->bad)
        return damaged(p, p->bad, "is not a result, but results follow it", err);
    if (record->line >= j->marks_size && grow_marks(j, record->line) < 0)
        return error_memory(err, STAGE);
    if (j->marks[record->line])
        return damaged(p, p->number, "a second result of the same job", err);
    j->marks[record->line] = mark_of(record->hash);
    j->records++;
    j->failed += !record->ok;
    if (record->line > j->last_line)
        j->last_line = record->line;
    p->last_at = p->at;
    p->last_len = p->len;
    p->last_record = *record;
    return 0;
}

/* Handle a complete line at `at`, `len` bytes long. */
static int end_line(struct pass *p, struct brig_error *err)
{
    struct journal_record record;
    int ret = 0;
    size_t head = p->len < HEAD ? (size_t)p->len : HEAD;
    p->number++;
    if (p->number == 1)
        ret = check_header(p, err);
    else if (p->last == '}' && journal_parse(p->head, head, &record))
        ret = add_record(p, &record, err);
    else if (!p->bad) {
        p->bad = p->number;
        p->bad_at = p->at;
    }
    p->at += p->len + 1;
    if (p->number == 1)
        p->journal->begins_at = p->at;
    p->len = 0;
    return ret;
}

static int take_piece(struct pass *p, const char *bytes, size_t len, struct brig_error *err)
{
    while (len) {
        const char *end = memchr(bytes, '\n', len);
        size_t part = end ? (size_t)(end - bytes) : len;
        if (p->len < HEAD)
            memcpy(p->head + p->len, bytes, part < HEAD - p->len ? part : HEAD - (size_t)p->len);
        if (part)
            p->last = bytes[part - 1];
        p->len += part;
        int ret = end ? end_line(p, err) : 0;
        if (ret < 0)
            return ret;
        part += end ? 1 : 0;
        bytes += part;
        len -= part;
    }
    return 0;
}

/* Check that the last record is complete JSON; if not, drop it. */
static int check_last(struct pass *p, struct brig_error *err)
{
    struct journal *j = p->journal;
    struct jsonscan scan;
    if (!p->last_len || p->last_len > LAST_MAX)
        return 0;
    autofree char *text = malloc((size_t)p->last_len);
    if (!text)
        return error_memory(err, STAGE);
    ssize_t n;
    do
        n = pread(j->fd, text, (size_t)p->last_len, (off_t)p->last_at);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)p->last_len)
        return failed(j, "cannot be read", n < 0 ? errno : EIO, err);
    if (jsonscan(&scan, text, (size_t)n))
        return 0;
    p->bad_at = p->last_at;
    p->bad = p->number;
    j->marks[p->last_record.line] = 0;
    j->records--;
    j->failed -= !p->last_record.ok;
    return 0;
}

static int read_all(struct pass *p, struct brig_error *err)
{
    autofree char *piece = malloc(PIECE);
    uint64_t at = 0;
    if (!piece)
        return error_memory(err, STAGE);
    for (;;) {
        ssize_t n = pread(p->journal->fd, piece, PIECE, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed(p->journal, "cannot be read", errno, err);
        if (n == 0)
            return check_last(p, err);
        at += (uint64_t)n;
        int ret = take_piece(p, piece, (size_t)n, err);
        if (ret < 0)
            return ret;
    }
}

static int cut(struct journal *j, uint64_t size, struct brig_error *err)
{
    if (ftruncate(j->fd, (off_t)size) < 0)
        return failed(j, "cannot be cut", errno, err);
    j->size = size;
    j->unsynced = true;
    return 0;
}

/* True if there is nothing but an incomplete header, because the first batch was killed. */
static bool is_begun(const struct pass *p)
{
    size_t len = p->len < sizeof MAGIC - 1 ? (size_t)p->len : sizeof MAGIC - 1;
    return p->number == 0 && p->len <= HEAD && memcmp(p->head, MAGIC, len) == 0;
}

static int begin(struct journal *j, const char *setup, struct brig_error *err)
{
    char header[HEAD], now[CLOCK_TEXT_SIZE];
    clock_format(clock_calendar(), now);
    int n =
        snprintf(header, sizeof header, MAGIC "\"brig\":\"%s\",\"setup\":%s,\"begun_at\":\"%s\"}\n",
                 brig_version(), setup, now);
    int ret = cut(j, 0, err);
    if (ret == 0)
        ret = journal_add(j, header, (size_t)n, err);
    j->begins_at = j->size;
    return ret;
}

static int load(struct journal *j, uint64_t setup, struct brig_error *err)
{
    struct pass p = {.journal = j};
    snprintf(p.header, sizeof p.header, "\"%016" PRIx64 "\"", setup);
    int ret = read_all(&p, err);
    if (ret == 0 && is_begun(&p))
        ret = begin(j, p.header, err);
    else if (ret == 0 && p.number == 0)
        ret = check_header(&p, err);
    else if (ret == 0 && (p.bad || p.len))
        ret = cut(j, p.bad ? p.bad_at : p.at, err);
    else
        j->size = p.at;
    return ret == 0 ? journal_sync(j, err) : ret;
}

static int lock(struct journal *j, struct brig_error *err)
{
    uint64_t until = clock_now() + LOCK_WAIT;
    while (flock(j->fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return failed(j, "cannot be locked", errno, err);
        if (clock_now() > until)
            return error_refused(err, STAGE, "--resume: %.200s: another brig batch uses it",
                                 j->path);
        clock_sleep(20 * NS_PER_MS);
    }
    return 0;
}

int journal_open(struct journal *j, const char *path, uint64_t setup, struct brig_error *err)
{
    struct stat st;
    *j = JOURNAL_NONE;
    j->path = path;
    /* A job may also have replaced a directory of the path by a symlink. */
    j->fd = fd_open_no_links(
        path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    if (j->fd < 0 && errno == ELOOP)
        return error_refused(
            err, STAGE, "--resume: %.200s: is a symlink, or goes through one; name the file itself",
            path);
    if (j->fd < 0)
        return failed(j, "cannot be opened", errno, err);
    int ret = 0;
    if (fstat(j->fd, &st) < 0 || !S_ISREG(st.st_mode))
        ret = error_refused(err, STAGE, "--resume: %.200s: is not a file", path);
    if (ret == 0)
        ret = lock(j, err);
    if (ret == 0)
        ret = load(j, setup, err);
    if (ret < 0)
        journal_close(j);
    return ret;
}

void journal_close(struct journal *j)
{
    fd_close_at(&j->fd);
    if (j->marks)
        munmap(j->marks, j->marks_size * sizeof *j->marks);
    j->marks = NULL;
    j->marks_size = 0;
}

/* ---- writing and copying ------------------------------------------------------------------- */

int journal_add(struct journal *j, const char *line, size_t len, struct brig_error *err)
{
    int ret = target_write(j->fd, line, len, TARGET_PATIENCE);
    if (ret < 0) {
        /* The part of the line that was written is removed. If that fails too, the next start
         * removes it. */
        if (ftruncate(j->fd, (off_t)j->size) < 0)
            return failed(j, "cannot be written, and ends with an incomplete line", -ret, err);
        return failed(j, "cannot be written", -ret, err);
    }
    j->size += len;
    j->unsynced = true;
    return 0;
}

int journal_sync(struct journal *j, struct brig_error *err)
{
    if (!j->unsynced)
        return 0;
    if (fdatasync(j->fd) < 0)
        return failed(j, "cannot be written", errno, err);
    j->unsynced = false;
    return 0;
}

int journal_replay(const struct journal *j, int fd, struct brig_error *err)
{
    autofree char *piece = malloc(PIECE);
    if (!piece)
        return error_memory(err, STAGE);
    for (uint64_t at = j->begins_at; at < j->size;) {
        size_t want = j->size - at < PIECE ? (size_t)(j->size - at) : PIECE;
        ssize_t n = pread(j->fd, piece, want, (off_t)at);
        if (n <= 0)
            return failed(j, "cannot be read", n < 0 ? errno : EIO, err);
        int ret = target_write(fd, piece, (size_t)n, TARGET_PATIENCE);
        if (ret < 0)
            return error_system(err, STAGE, -ret, "stdout: cannot write the results: %s",
                                error_text(-ret));
        at += (uint64_t)n;
    }
    return 0;
}
