/* SPDX-License-Identifier: MIT */
/* brig doctor: find out with test runs which layers this host can enforce, and print a fix for each
 * gap. A layer is ok only if the result of the run lists it as applied *and* the guest confirms it
 * from inside. */
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/jsonw.h"
#include "brig.h"
#include "commands.h"
#include "cli/target.h"
#include "cli/term.h"

/* The script of the test run. Each line that it prints is compared with the layers in the
 * result. */
static const char question[] =
    "grep -E '^(NoNewPrivs|Seccomp|CapEff|CapPrm):' /proc/self/status | tr -d '\\t'; "
    "echo pid:$$; cat /proc/self/uid_map | tr -s ' ' | sed 's/^/uid_map:/'; "
    "echo host:$(cat /proc/sys/kernel/hostname); "
    "echo net:$(grep -c : /proc/net/dev); [ -e /sys/class ] && echo sys:seen; "
    "(: > /etc/brig-doctor) 2>/dev/null && echo etc:written; echo end:";

/* The argument with which this program is called inside the second test run. */
#define INSIDE        "--inside"
#define LANDLOCK_MOST 16

enum verdict { DOCTOR_OK, DOCTOR_DEGRADED, DOCTOR_MISSING };

struct finding {
    const char *layer;
    enum verdict verdict;
    const char *why; /* NULL if the layer is ok and there is nothing to add */
    const char *fix; /* NULL if there is none */
};

#define FINDINGS_MAX 32

struct report {
    struct buf seen; /* the output of the test runs */
    struct finding findings[FINDINGS_MAX];
    size_t count;
    const char *tier;
};

/* systemd gives an ordinary user a delegated cgroup, but most containers do not run systemd. */
static const char *fix_groups(void)
{
    if (geteuid() == 0)
        return "mount the cgroup file system writable at /sys/fs/cgroup";
    if (access("/run/systemd/system", F_OK) == 0)
        return "systemd-run --user --scope -p Delegate=yes brig ...";
    return "start brig in a cgroup that this user may write; in a container, give the container "
           "such a cgroup";
}

static const char *fix_of(const struct brig_layer *layer)
{
    static const char *const groups[] = {"cgroup", "memory", "pids", "cpus"};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        if (strcmp(layer->name, groups[i]) == 0)
            return fix_groups();
    }
    if (strcmp(layer->name, "landlock") == 0)
        return "boot a kernel with CONFIG_SECURITY_LANDLOCK, and with landlock in lsm=";
    return brig_cell_fix(layer->how);
}

/* The reason why the output of the guest contradicts an applied layer; NULL if it does not. */
static const char *contradiction(const char *layer, const struct report *report)
{
    const char *seen = report->seen.data;
    static const struct {
        const char *layer, *must, *must_not, *why;
    } rows[] = {
        {"no_new_privs", "NoNewPrivs:1\n", NULL, "the guest does not have no_new_privs"},
        {"seccomp", "Seccomp:2\n", NULL, "the guest has no seccomp filter"},
        {"capabilities", "CapEff:0000000000000000\n", NULL, "the guest has capabilities"},
        {"capabilities", "CapPrm:0000000000000000\n", NULL, "the guest has capabilities"},
        {"pid", "pid:2\n", NULL, "the guest is not alone in its PID namespace"},
        {"uts", "host:brig\n", NULL, "the guest sees the host's name"},
        {"net", "net:1\n", NULL, "the guest sees network devices of the host"},
        {"landlock", "end:\n", "rules:none\n", "the guest has no landlock rules"},
        {"view", "end:\n", "sys:seen\n", "the guest sees files of the host"},
        {"mount", "end:\n", "etc:written\n", "the guest can write to /etc"},
        {"user", "uid_map:", "uid_map: 0 0 4294967295\n", "the guest is in no user namespace"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].layer, layer) != 0)
            continue;
        /* Without a network namespace the devices are visible, but no socket can use them. */
        if (strcmp(layer, "net") == 0 && strcmp(report->tier, "cell") != 0)
            continue;
        if (!strstr(seen, rows[i].must) || (rows[i].must_not && strstr(seen, rows[i].must_not)))
            return rows[i].why;
    }
    return NULL;
}

static void judge(struct report *report, const struct brig_layer *layer)
{
    struct finding finding = {.layer = layer->name};
    const char *lie = contradiction(layer->name, report);
    if (layer->state == BRIG_LAYER_OFF || report->count == FINDINGS_MAX)
        return;
    if (layer->state == BRIG_LAYER_MISSING) {
        finding.verdict = DOCTOR_MISSING;
        finding.why = layer->how;
        finding.fix = fix_of(layer);
    } else if (lie) {
        finding.verdict = DOCTOR_MISSING;
        finding.why = lie;
        finding.fix = "none: this is a bug in brig, please report it";
    } else if (strstr(layer->how, "; older than ")) {
        finding.why = layer->how; /* applied as far as this kernel can, and says so */
    } else if (strncmp(layer->how, "sampling", 8) == 0) {
        finding.verdict = DOCTOR_DEGRADED;
        finding.why = layer->how;
        finding.fix = fix_of(layer);
    }
    report->findings[report->count++] = finding;
}

static bool is_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* True if an earlier layer has the same reason and, with `fix`, the same fix. */
static bool is_told(const struct report *report, size_t at, bool fix)
{
    const struct finding *finding = &report->findings[at];
    for (size_t i = 0; i < at; i++) {
        const struct finding *other = &report->findings[i];
        if (finding->why && is_same(other->why, finding->why) &&
            (!fix || is_same(other->fix, finding->fix)))
            return true;
    }
    return false;
}

static void print_text(const struct report *report)
{
    static const char *const words[] = {"ok", "degraded", "missing"};
    printf("tier: %s\n", report->tier);
    for (size_t i = 0; i < report->count; i++) {
        const struct finding *f = &report->findings[i];
        printf("%-9s %s", words[f->verdict], f->layer);
        if (f->why)
            printf(": %s", is_told(report, i, false) ? "as above" : f->why);
        putchar('\n');
        if (f->fix && !is_told(report, i, true))
            printf("          fix: %s\n", f->fix);
    }
}

static void print_json(const struct report *report)
{
    static const char *const words[] = {"ok", "degraded", "missing"};
    struct buf buf;
    struct jsonw w;
    buf_init(&buf, 1u << 20);
    jsonw_init(&w, &buf);
    jsonw_open(&w, NULL, '{');
    jsonw_text(&w, "schema", "brig.doctor/1");
    jsonw_text(&w, "tier", report->tier);
    jsonw_open(&w, "layers", '[');
    for (size_t i = 0; i < report->count; i++) {
        const struct finding *f = &report->findings[i];
        jsonw_open(&w, NULL, '{');
        jsonw_text(&w, "name", f->layer);
        jsonw_text(&w, "state", words[f->verdict]);
        jsonw_text(&w, "why", f->why);
        jsonw_text(&w, "fix", f->fix);
        jsonw_close(&w, '}');
    }
    jsonw_close(&w, ']');
    jsonw_close(&w, '}');
    buf_text(&buf, "\n");
    target_write(STDOUT_FILENO, buf.data, buf.len, TARGET_PATIENCE);
    buf_done(&buf);
}

/* Run a command and add its output to report->seen. The caller owns *run. */
static int ask(struct brig *brig, struct brig_spec *spec, const char *const *argv, size_t argc,
               struct report *report, struct brig_run **run, struct brig_error *err)
{
    int ret = brig_spec_set(spec, "timeout", "10s", BRIG_FROM_OPTION, NULL, err);
    if (ret == 0)
        ret = brig_spec_set_command(spec, argv, argc, err);
    if (ret == 0)
        ret = brig_start(brig, spec, run, err);
    if (ret < 0)
        return ret;
    brig_run_wait(*run, -1);
    const struct brig_output *out = &brig_run_result(*run)->out;
    if (out->data)
        buf_add(&report->seen, out->data, out->len);
    return 0;
}

/* Run the script with the default settings. */
static int ask_shell(struct brig *brig, struct report *report, struct brig_run **run,
                     struct brig_error *err)
{
    const char *const argv[] = {"/bin/sh", "-c", question};
    struct brig_spec *spec = NULL;
    int ret = brig_spec_new(&spec, err);
    if (ret == 0)
        ret = brig_spec_set(spec, "workdir", "/tmp", BRIG_FROM_OPTION, NULL, err);
    if (ret == 0) /* shows the remaining layers if no cell can be built */
        ret = brig_spec_set(spec, "isolation", "auto", BRIG_FROM_OPTION, NULL, err);
    if (ret == 0)
        ret = ask(brig, spec, argv, 3, report, run, err);
    if (ret < 0 && err->fault == BRIG_FAULT_REFUSED && strcmp(err->stage, "operator") == 0 &&
        brig_spec_set(spec, "isolation", "cell", BRIG_FROM_OPTION, NULL, err) == 0)
        ret = ask(brig, spec, argv, 3, report, run, err); /* the operator forbids isolation auto */
    brig_spec_free(spec);
    return ret;
}

/* Run this program as a guest, to check layers that a shell cannot. If the guest cannot see the
 * program, these layers are not checked. */
static void ask_ourselves(struct brig *brig, struct report *report)
{
    char self[PATH_MAX];
    const char *const argv[] = {self, "doctor", INSIDE};
    struct brig_spec *spec = NULL;
    struct brig_run *run = NULL;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0 || brig_spec_new(&spec, NULL) < 0)
        return;
    self[len] = 0;
    if (brig_spec_set(spec, "workdir", "/tmp", BRIG_FROM_OPTION, NULL, NULL) == 0 &&
        brig_spec_set(spec, "ro", self, BRIG_FROM_OPTION, NULL, NULL) == 0)
        ask(brig, spec, argv, 3, report, &run, NULL);
    brig_run_free(run);
    brig_spec_free(spec);
}

/* The guest's part: count the landlock rulesets that it can add to itself. The kernel allows 16, so
 * there are fewer if brig has applied one. */
static int look_around(void)
{
    struct landlock_ruleset_attr attr = {.handled_access_fs = LANDLOCK_ACCESS_FS_READ_DIR};
    int count = 0,
        rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0);
    while (rules >= 0 && count < LANDLOCK_MOST &&
           syscall(SYS_landlock_restrict_self, rules, 0) == 0)
        count++;
    printf("rules:%s\n", count == LANDLOCK_MOST ? "none" : "some");
    return 0;
}

/* If no run can be started, every layer is missing for the same reason. The names of the layers are
 * the choices of the key "require". */
static void judge_nothing(struct report *report, struct brig_error *err)
{
    static char names[1024];
    size_t count;
    const struct brig_key *keys = brig_keys(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i].name, "require") == 0)
            snprintf(names, sizeof names, "%s", keys[i].choices);
    }
    report->tier = "none";
    char *here = strstr(err->text, "; brig doctor"), *rest = NULL;
    if (here) /* the reader is already running brig doctor */
        *here = 0;
    for (char *name = strtok_r(names, "|", &rest); name && report->count < FINDINGS_MAX;
         name = strtok_r(NULL, "|", &rest))
        report->findings[report->count++] =
            (struct finding){name, DOCTOR_MISSING, err->text,
                             fix_of(&(struct brig_layer){name, BRIG_LAYER_MISSING, err->text})};
}

static int print_report(const struct report *report, bool json)
{
    int code = report->count ? 0 : 1;
    if (json)
        print_json(report);
    else
        print_text(report);
    for (size_t i = 0; i < report->count; i++)
        code = report->findings[i].verdict == DOCTOR_OK ? code : 1;
    return code;
}

static int examine(bool json, struct brig_error *err)
{
    struct report report = {.count = 0};
    struct brig *brig = NULL;
    struct brig_run *run = NULL;
    buf_init(&report.seen, 65536);
    int ret = brig_open(&brig, err);
    if (ret == 0)
        ret = ask_shell(brig, &report, &run, err);
    bool refused = ret < 0 && brig && err->fault == BRIG_FAULT_REFUSED;
    if (refused) {
        judge_nothing(&report, err);
        ret = 0;
    } else if (ret == 0) {
        const struct brig_result *result = brig_run_result(run);
        report.tier = result->isolation.tier;
        ask_ourselves(brig, &report);
        buf_add(&report.seen, "", 1);
        bool known = buf_failed(&report.seen) == 0;
        for (size_t i = 0; known && i < result->isolation.count; i++)
            judge(&report, &result->isolation.layers[i]);
    }
    if (ret == 0)
        ret = print_report(&report, json);
    buf_done(&report.seen);
    brig_run_free(run);
    brig_close(brig);
    return ret;
}

int cmd_doctor(int argc, char **argv)
{
    struct brig_error err;
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    if (help) {
        puts("usage: brig doctor [--json]\n"
             "\n"
             "Test each layer in a run, and print the missing ones with the reason and the fix.\n"
             "Exit code: 0 if all layers can be applied, 1 if not.");
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], INSIDE) == 0)
        return look_around();
    if (argc != 1 && !json) {
        term_message("doctor: takes only --json");
        return 2;
    }
    int ret = examine(json, &err);
    if (ret < 0) {
        term_error(&err);
        return brig_error_exit_code(&err);
    }
    return ret;
}
