/* SPDX-License-Identifier: MIT */
/* brig batch: run many jobs from a file or a pipe, some in parallel, and print each result as its
 * job ends. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/units.h"
#include "batch/batch.h"
#include "commands.h"
#include "cli/options.h"
#include "cli/term.h"
#include "cli/words.h"

#define COPY_PIECE (1 << 26)
#define STAGE      "command line"

#define JOBS_DEFAULT  4
#define JOBS_MOST     1024
#define COUNT_MOST    (INT64_C(1) << 30) /* the largest file whose lines are counted beforehand */
#define FILES_OF_RUN  19                 /* file descriptors of one run, at most */
#define FILES_OF_OWN  64                 /* file descriptors of brig itself */
#define FILES_OF_WARM 512 /* file descriptors of warm cells, and of runs being removed */

static const char usage[] =
    "usage: brig batch [options] JOBS.ndjson|-\n"
    "\n"
    "Run many jobs, --jobs of them in parallel. Each line of the input is a JSON object: a\n"
    "spec as in brig run --spec, with an optional \"id\". Each line of the output is the result\n"
    "of a job, with \"line\", \"ok\" and \"job\" (its id), in the order in which the jobs end.\n"
    "\n";

static const char notes[] =
    "\n"
    "A line that is not a valid job gets a result with status \"error\"; the other jobs continue.\n"
    "SIGINT, SIGTERM and SIGHUP cancel the running jobs and start no more; a second signal kills\n"
    "them at once. The number of parallel jobs cannot be changed while they run: end the batch\n"
    "and start it again with --resume.\n"
    "Exit code: 0 if every job exited with 0; 1 if some did not; 2 bad usage; 125 brig could not\n"
    "continue; 128+N ended by signal N.\n";

enum own {
    JOBS,
    SPEC,
    RESUME,
    REPLAY,
    FAIL_FAST,
    DIE_WITH_PARENT,
    QUIET,
    VERBOSE,
    HELP,
    OWN_COUNT
};

const struct own_option batch_options[] = {
    [JOBS] = {"jobs", 'j', "N", "number of parallel jobs, 1 to 1024 (default 4)"},
    [SPEC] = {"spec", 0, "FILE", "default settings of all jobs, a JSON spec"},
    [RESUME] = {"resume", 0, "JOURNAL", "record the results there, run only jobs without a result"},
    [REPLAY] = {"replay", 0, NULL, "also print the results that are already in the journal"},
    [FAIL_FAST] = {"fail-fast", 0, NULL, "cancel all jobs when one does not exit with 0"},
    [DIE_WITH_PARENT] = {"die-with-parent", 0, NULL,
                         "cancel all jobs when the process that started brig is gone"},
    [QUIET] = {"quiet", 'q', NULL, "print no progress and no summary"},
    [VERBOSE] = {"verbose", 'v', NULL, "print how many jobs ran in cells that were built ahead"},
    [HELP] = {"help", 'h', NULL, "show this help"},
};
const size_t batch_option_count = sizeof batch_options / sizeof *batch_options;

/* The parsed command line. */
struct request {
    const char *values[OWN_COUNT], *input;
    bool flags[OWN_COUNT];
};

static int read_options(struct request *r, int argc, char **argv, struct brig_error *err)
{
    struct word words[OWN_COUNT];
    for (size_t i = 0; i < OWN_COUNT; i++) {
        const struct own_option *o = &batch_options[i];
        words[i] =
            (struct word){o->option, o->letter, o->argument, o->help, &r->values[i], &r->flags[i]};
    }
    int found = words_read(words, OWN_COUNT, argc, argv, &r->input, 1, err);
    if (found < 0)
        return found;
    if (r->flags[HELP]) {
        words_help(stdout, usage, words, OWN_COUNT);
        fputs(notes, stdout);
        return 0;
    }
    if (found == 0)
        return error_usage(err, STAGE,
                           "no jobs: name a file, or - for stdin; see brig batch --help");
    if (r->flags[REPLAY] && !r->flags[RESUME])
        return error_usage(err, STAGE, "--replay: only with --resume");
    return 0;
}

/* Each run needs file descriptors: a limit that is too low is reported now, not by a part of the
 * jobs. */
static int read_jobs(struct batch *b, const char *text, struct brig_error *err)
{
    uint64_t jobs = JOBS_DEFAULT;
    struct rlimit files;
    const char *why = text ? units_parse_count(text, &jobs) : NULL;
    if (why || jobs > JOBS_MOST)
        return error_usage(err, STAGE, "--jobs: \"%.80s\" is not a number from 1 to %d", text,
                           JOBS_MOST);
    uint64_t needed = jobs * FILES_OF_RUN + FILES_OF_OWN;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return error_system(err, STAGE, errno, "getrlimit: %s", error_text(errno));
    if (files.rlim_cur < needed)
        return error_refused(err, STAGE,
                             "--jobs: %u parallel jobs need %u open files, and the limit is %llu; "
                             "raise it (ulimit -n), or use fewer --jobs",
                             (unsigned)jobs, (unsigned)needed, (unsigned long long)files.rlim_cur);
    b->warm_fails = files.rlim_cur < needed + FILES_OF_WARM;
    b->jobs = (unsigned)jobs;
    return 0;
}

static int read_defaults(struct batch *b, const struct request *r, struct brig_error *err)
{
    const char *path = r->values[SPEC];
    struct job_source *source = &b->source;
    struct brig_spec *spec = NULL;
    if (!path)
        return 0;
    bool own = strcmp(path, "-") == 0;
    if (own && strcmp(r->input, "-") == 0)
        return error_usage(
            err, STAGE, "--spec: stdin cannot be read for both the spec and the jobs; name a file");
    source->defaults_name = own ? "stdin" : path;
    int ret =
        words_file(path, "--spec", BRIG_SPEC_MAX, &source->defaults, &source->defaults_len, err);
    if (ret == 0)
        ret = brig_spec_new(&spec, err);
    if (ret == 0)
        ret = brig_spec_read_json(spec, source->defaults, source->defaults_len,
                                  source->defaults_name, err);
    brig_spec_free(spec);
    return ret;
}

/* Replace the input by a copy without a name, which is freed with this process: a job that can
 * write to the file of jobs must not be able to add a job with another view. */
static int freeze(int *fd, off_t size, const char *path, struct brig_error *err)
{
    const char *dir = getenv("TMPDIR");
    autofd copy = open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    if (copy < 0)
        copy = memfd_create("brig-jobs", MFD_CLOEXEC);
    off_t left = copy < 0 ? 0 : size - lseek(*fd, 0, SEEK_CUR);
    ssize_t n = copy < 0 ? -1 : 1;
    while (left > 0 && (n > 0 || (n < 0 && errno == EINTR))) {
        n = sendfile(copy, *fd, NULL, left < COPY_PIECE ? (size_t)left : COPY_PIECE);
        left -= n > 0 ? n : 0;
    }
    if (n < 0 || lseek(copy, 0, SEEK_SET) < 0)
        return error_system(err, STAGE, errno, "%.200s: cannot be copied: %s", path,
                            error_text(errno));
    close(*fd);
    *fd = take_fd(&copy);
    return 0;
}

/* Our stdin becomes /dev/null: jobs must not read it. */
static int open_input(struct batch *b, const char *path, int *fd, struct brig_error *err)
{
    bool own = strcmp(path, "-") == 0;
    struct stat st;
    b->source.name = own ? "stdin" : path;
    *fd = own ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0 || fstat(*fd, &st) < 0)
        return error_usage(err, STAGE, "%.200s: %s", path, error_text(errno));
    if (S_ISDIR(st.st_mode))
        return error_usage(err, STAGE, "%.200s: is a directory", path);
    int ret = S_ISREG(st.st_mode) ? freeze(fd, st.st_size, path, err) : 0;
    if (ret < 0)
        return ret;
    autofd nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0)
        return error_system(err, STAGE, errno, "/dev/null: %s", error_text(errno));
    if (lines_init(&b->lines, *fd) < 0)
        return error_memory(err, STAGE);
    return 0;
}

/* Read the file once before anything runs, to count its jobs and to compare them with the
 * journal. */
static int survey(struct batch *b, struct brig_error *err)
{
    off_t from = lseek(b->lines.fd, 0, SEEK_CUR);
    enum lines_found found = LINES_WAIT;
    uint64_t jobs = 0;
    while (found != LINES_END) {
        const char *line;
        size_t len;
        found = lines_next(&b->lines, &line, &len);
        int ret = found == LINES_WAIT ? lines_fill(&b->lines) : 0;
        if (ret < 0)
            return error_system(err, STAGE, -ret, "%.200s: cannot be read: %s", b->source.name,
                                error_text(-ret));
        if (found == LINES_WAIT || found == LINES_END)
            continue;
        jobs++;
        if (journal_follow(&b->journal, b->lines.number, b->lines.hash) == JOURNAL_OTHER)
            return journal_refuse(&b->journal, b->source.name, err);
    }
    if (journal_follow_end(&b->journal) == JOURNAL_OTHER)
        return journal_refuse(&b->journal, b->source.name, err);
    journal_rewind(&b->journal);
    b->progress.total = jobs;
    int fd = b->lines.fd;
    lines_done(&b->lines);
    if (lseek(fd, from, SEEK_SET) < 0)
        return error_system(err, STAGE, errno, "%.200s: %s", b->source.name, error_text(errno));
    return lines_init(&b->lines, fd) < 0 ? error_memory(err, STAGE) : 0;
}

static int survey_if_useful(struct batch *b, struct brig_error *err)
{
    struct stat st;
    if (fstat(b->lines.fd, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    if (b->journal.records == 0 && (b->quiet || st.st_size > COUNT_MOST))
        return 0;
    return survey(b, err);
}

static int check_output(const struct journal *journal, struct brig_error *err)
{
    struct stat ours, out;
    if (fstat(journal->fd, &ours) == 0 && fstat(STDOUT_FILENO, &out) == 0 &&
        ours.st_dev == out.st_dev && ours.st_ino == out.st_ino)
        return error_usage(err, STAGE,
                           "--resume: %.200s: is also the stdout of brig; use another file",
                           journal->path);
    return 0;
}

static int open_all(struct batch *b, const struct request *r, int *input, struct brig_error *err)
{
    const char *journal = r->values[RESUME];
    int ret = read_jobs(b, r->values[JOBS], err);
    if (ret == 0)
        ret = read_defaults(b, r, err);
    if (ret == 0)
        ret = open_input(b, r->input, input, err);
    if (ret == 0 && journal)
        ret = journal_open(&b->journal, journal,
                           lines_hash(LINES_HASH, b->source.defaults, b->source.defaults_len), err);
    if (ret == 0 && journal)
        ret = check_output(&b->journal, err);
    if (ret == 0)
        ret = survey_if_useful(b, err);
    if (ret == 0 && r->flags[REPLAY])
        ret = journal_replay(&b->journal, STDOUT_FILENO, err);
    int opened = ret == 0 ? output_open(&b->output, STDOUT_FILENO) : 0;
    if (opened < 0)
        ret = error_system(err, STAGE, -opened, "stdout: %s", error_text(-opened));
    return ret;
}

static int run_request(struct batch *b, const struct request *r)
{
    struct brig_error err;
    autofd input = -1;
    b->fail_fast = r->flags[FAIL_FAST];
    b->die_with_parent = r->flags[DIE_WITH_PARENT];
    b->quiet = r->flags[QUIET];
    b->verbose = r->flags[VERBOSE];
    int code = 0;
    if (open_all(b, r, &input, &err) < 0) {
        term_error(&err);
        code = brig_error_exit_code(&err);
    } else {
        b->progress.failed = b->journal.failed;
        b->progress.ok = b->journal.records - b->journal.failed;
        b->progress.before = b->journal.records;
        /* If stdout is a terminal, the results themselves show the progress. */
        b->progress.shown = !b->quiet && term_can_redraw() && !isatty(STDOUT_FILENO);
        code = batch_run(b);
    }
    batch_done(b);
    return code;
}

int cmd_batch(int argc, char **argv)
{
    struct request request = {0};
    struct batch batch = BATCH_NONE;
    struct brig_error err;
    if (read_options(&request, argc, argv, &err) < 0) {
        term_error(&err);
        return brig_error_exit_code(&err);
    }
    if (request.flags[HELP])
        return ferror(stdout) || fflush(stdout) ? 125 : 0;
    return run_request(&batch, &request);
}
