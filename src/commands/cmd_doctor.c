/* brig doctor: what this host can enforce, tried for real in throw-away runs, with the fix for each
 * gap. A layer counts only if the run says that it was applied *and* the guest, asked from inside,
 * shows it. */
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

/* What the guest is asked. Each line it prints is checked against what the result claims. */
static const char question[] =
    "grep -E '^(NoNewPrivs|Seccomp|CapEff|CapPrm):' /proc/self/status | tr -d '\\t'; "
    "echo pid:$$; cat /proc/self/uid_map | tr -s ' ' | sed 's/^/uid_map:/'; "
    "echo host:$(cat /proc/sys/kernel/hostname); "
    "echo net:$(grep -c : /proc/net/dev); [ -e /sys/class ] && echo sys:seen; "
    "(: > /etc/brig-doctor) 2>/dev/null && echo etc:written; echo end:";

/* How this program calls itself in a throw-away cell. */
#define INSIDE        "--inside"
#define LANDLOCK_MOST 16

enum verdict { DOCTOR_OK, DOCTOR_DEGRADED, DOCTOR_MISSING };

struct finding {
    const char *layer;
    enum verdict verdict;
    const char *why; /* NULL if it is ok */
    const char *fix; /* NULL if there is none */
};

#define FINDINGS_MAX 32

struct report {
    struct buf seen; /* what the guests printed */
    struct finding findings[FINDINGS_MAX];
    size_t count;
    const char *tier;
};

/* The first number in a file, or -1. */
static long read_setting(const char *path)
{
    char text[64];
    return fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 ? strtol(text, NULL, 10) : -1;
}

/* Why namespaces were refused, by what the kernel's settings say. */
static const char *fix_namespaces(const char *why)
{
    if (read_setting("/proc/sys/user/max_user_namespaces") == 0)
        return "sysctl -w user.max_user_namespaces=15000";
    if (read_setting("/proc/sys/kernel/unprivileged_userns_clone") == 0)
        return "sysctl -w kernel.unprivileged_userns_clone=1";
    if (read_setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1)
        return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile "
               "for "
               "brig with \"userns,\"";
    if (strstr(why, "/proc"))
        return "the host hides parts of /proc: start the container with --security-opt "
               "systempaths=unconfined";
    return "a container's seccomp or AppArmor profile forbids it: start the container with "
           "--security-opt seccomp=unconfined --security-opt apparmor=unconfined, or run brig on "
           "the "
           "host";
}

static const char *fix_of(const struct brig_layer *layer)
{
    static const char *const groups[] = {"cgroup", "memory", "pids", "cpus"};
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        if (strcmp(layer->name, groups[i]) == 0)
            return geteuid() == 0 ? "mount the cgroup file system writable at /sys/fs/cgroup"
                                  : "systemd-run --user --scope -p Delegate=yes brig ...";
    }
    if (strcmp(layer->name, "landlock") == 0)
        return "a kernel with CONFIG_SECURITY_LANDLOCK, booted with landlock in lsm=";
    return fix_namespaces(layer->how);
}

/* Does what the guest saw contradict the claim that a layer is applied? */
static const char *contradiction(const char *layer, const struct report *report)
{
    const char *seen = report->seen.data;
    static const struct {
        const char *layer, *must, *must_not, *why;
    } rows[] = {
        {"no_new_privs", "NoNewPrivs:1\n", NULL, "the guest does not have no_new_privs"},
        {"seccomp", "Seccomp:2\n", NULL, "the guest has no filter"},
        {"capabilities", "CapEff:0000000000000000\n", NULL, "the guest has capabilities"},
        {"capabilities", "CapPrm:0000000000000000\n", NULL, "the guest has capabilities"},
        {"pid", "pid:2\n", NULL, "the guest is not alone in its pid namespace"},
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
        /* Without a namespace the devices are there, and no sockets to use them. */
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
        finding.fix = "this is a fault of brig: please report it";
    } else if (strncmp(layer->how, "sampling", 8) == 0) {
        finding.verdict = DOCTOR_DEGRADED;
        finding.why = layer->how;
        finding.fix = fix_of(layer);
    }
    report->findings[report->count++] = finding;
}

/* Was the same reason given for a layer before? */
static bool is_told(const struct report *report, size_t at)
{
    const char *why = report->findings[at].why;
    for (size_t i = 0; i < at; i++) {
        if (why && report->findings[i].why && strcmp(report->findings[i].why, why) == 0)
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
        bool told = is_told(report, i);
        printf("%-9s %s", words[f->verdict], f->layer);
        if (f->why)
            printf(": %s", told ? "as above" : f->why);
        putchar('\n');
        if (f->fix && !told)
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
    target_write(STDOUT_FILENO, buf.data, buf.len);
    buf_done(&buf);
}

/* One run that tells what it sees. */
/* Run a command and add what it prints to what was seen. *run is the caller's. */
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

/* What is on this host, where a run of no options would be. */
static int ask_shell(struct brig *brig, struct report *report, struct brig_run **run,
                     struct brig_error *err)
{
    const char *const argv[] = {"/bin/sh", "-c", question};
    struct brig_spec *spec = NULL;
    int ret = brig_spec_new(&spec, err);
    if (ret == 0)
        ret = brig_spec_set(spec, "workdir", "/tmp", BRIG_FROM_OPTION, NULL, err);
    if (ret == 0)
        ret = ask(brig, spec, argv, 3, report, run, err);
    brig_spec_free(spec);
    return ret;
}

/* What a shell cannot find out is looked at by this program itself. Where it cannot be shown to a
 * guest, what it would see stays unknown. */
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

/* The guest's side of that: how many landlock rulesets it can put on itself. The kernel takes 16,
 * so one less if it has one already. */
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

static int examine(bool json, struct brig_error *err)
{
    struct report report = {.count = 0};
    struct brig *brig = NULL;
    struct brig_run *run = NULL;
    buf_init(&report.seen, 65536);
    int ret = brig_open(&brig, err);
    if (ret == 0)
        ret = ask_shell(brig, &report, &run, err);
    if (ret < 0) {
        buf_done(&report.seen);
        brig_close(brig);
        return ret;
    }
    const struct brig_result *result = brig_run_result(run);
    report.tier = result->isolation.tier;
    ask_ourselves(brig, &report);
    buf_add(&report.seen, "", 1);
    bool known = buf_failed(&report.seen) == 0;
    for (size_t i = 0; known && i < result->isolation.count; i++)
        judge(&report, &result->isolation.layers[i]);
    if (json)
        print_json(&report);
    else
        print_text(&report);
    int code = known ? 0 : 1;
    for (size_t i = 0; i < report.count; i++)
        code = report.findings[i].verdict == DOCTOR_OK ? code : 1;
    buf_done(&report.seen);
    brig_run_free(run);
    brig_close(brig);
    return code;
}

int cmd_doctor(int argc, char **argv)
{
    struct brig_error err;
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
    if (help) {
        puts("usage: brig doctor [--json]\n\nTry each layer for real and say what is missing, why, "
             "and what to do about it.\nExit code: 0 if all layers are there, 1 if not.");
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
