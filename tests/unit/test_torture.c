/* SPDX-License-Identifier: MIT */
/* Every allocation fails once: whatever the library does then, it says so, leaves nothing behind
 * and does not touch its outputs. */
#include <jansson.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "lib/plan/command.h"
#include "lib/spec/environment.h"
#include "lib/plan/plan.h"
#include "lib/run/run.h"
#include "torture.h"

/* ---- spec ---------------------------------------------------------------------------------- */

static int make_spec(struct scene *scene)
{
    struct brig_spec *spec = scene->spec;
    arm();
    int ret = brig_spec_new(&spec, &scene->err);
    disarm();
    if (ret < 0)
        assert_ptr_equal(spec, scene->spec);
    else
        brig_spec_free(spec);
    return ret;
}

static void test_a_new_spec(void **state)
{
    run_all(*state, make_spec, 1);
}

static int set_values(struct scene *scene)
{
    static const char *const rows[][2] = {
        {"memory", "1G"}, {"workdir", "/tmp"}, {"env", "A=1"}, {"ro", "/usr"}, {"labels", "k=v"}};
    int ret = 0;
    for (size_t i = 0; i < COUNT(rows) && ret == 0; i++) {
        arm();
        ret =
            brig_spec_set(scene->spec, rows[i][0], rows[i][1], BRIG_FROM_OPTION, NULL, &scene->err);
        disarm();
        if (ret < 0)
            assert_true(same_spec(scene->spec, scene->twin));
        else
            assert_int_equal(
                brig_spec_set(scene->twin, rows[i][0], rows[i][1], BRIG_FROM_OPTION, NULL, NULL),
                0);
    }
    return ret;
}

static void test_single_values(void **state)
{
    run_all(*state, set_values, 4);
}

static int set_command(struct scene *scene)
{
    const char *command[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    arm();
    int ret = brig_spec_set_command(scene->spec, command, COUNT(command), &scene->err);
    disarm();
    if (ret < 0)
        assert_true(same_spec(scene->spec, scene->twin));
    return ret;
}

static void test_a_command(void **state)
{
    run_all(*state, set_command, 12);
}

static const char json[] = "{\"command\": [\"true\", \"x\"], \"memory\": \"1G\", \"cpu_time\": 1.5,"
                           " \"workdir\": \"/\", \"env\": {\"A\": \"1\", \"B\": 2},"
                           " \"labels\": [\"k=v\"]}";

static int read_json(struct scene *scene)
{
    arm();
    int ret = brig_spec_read_json(scene->spec, json, sizeof json - 1, "job.json", &scene->err);
    disarm();
    return ret;
}

static void test_a_spec_from_json(void **state)
{
    run_all(*state, read_json, 20);
}

static int read_json_unchanged(struct scene *scene)
{
    int ret = read_json(scene);
    if (ret < 0)
        assert_true(same_spec(scene->spec, scene->twin));
    return ret;
}

static void test_a_spec_from_json_that_failed_changed_nothing(void **state)
{
    run_all(*state, read_json_unchanged, 20);
}

static int read_metadata(struct scene *scene)
{
    static const char text[] = "{\"x\": [1, {}], \"limits\": {\"memory\": \"1G\", \"pids\": 5}}";
    arm();
    int ret = brig_spec_read_metadata(scene->spec, text, sizeof text - 1, "meta", &scene->err);
    disarm();
    if (ret < 0) /* limits are numbers: nothing to allocate once the text is read */
        assert_true(same_spec(scene->spec, scene->twin));
    return ret;
}

static void test_limits_from_metadata(void **state)
{
    run_all(*state, read_metadata, 10);
}

/* ---- plan ---------------------------------------------------------------------------------- */

static int make_plan(struct scene *scene)
{
    struct plan plan;
    char path[128];
    snprintf(path, sizeof path, "%s", dir_text(scene->dir, "a.env", "A=1\nB=2\n", 0600));
    brig_spec_set(scene->spec, "env_file", path, BRIG_FROM_OPTION, NULL, NULL);
    arm();
    int ret = plan_make(&plan, &scene->brig, scene->spec, NULL, &scene->err);
    disarm();
    plan_done(&plan); /* after a failure too: it is what brig_run_free() does */
    return ret;
}

static void test_a_plan(void **state)
{
    run_all(*state, make_plan, 15);
}

static int make_plan_here(struct scene *scene)
{
    struct plan plan;
    free(scene->spec->values[KEY_WORKDIR].text);
    scene->spec->values[KEY_WORKDIR].text = NULL;
    arm();
    int ret = plan_make(&plan, &scene->brig, scene->spec, NULL, &scene->err);
    disarm();
    plan_done(&plan);
    return ret;
}

static void test_a_plan_in_the_current_dir(void **state)
{
    run_all(*state, make_plan_here, 10);
}

static int explain(struct scene *scene, bool as_json)
{
    char *text = (char *)scene;
    size_t len = 77;
    struct brig *brig = NULL;
    assert_int_equal(brig_open(&brig, NULL), 0);
    arm();
    int ret = brig_explain(brig, scene->spec, as_json, &text, &len, &scene->err);
    disarm();
    brig_close(brig);
    if (ret < 0) {
        assert_ptr_equal(text, scene);
        assert_int_equal(len, 77);
    } else {
        brig_free(text);
    }
    return ret;
}

static int explain_text(struct scene *scene)
{
    return explain(scene, false);
}

static int explain_json(struct scene *scene)
{
    return explain(scene, true);
}

static void test_an_explanation_in_both_forms(void **state)
{
    run_all(*state, explain_text, 10);
    run_all(*state, explain_json, 10);
}

static int find_command(struct scene *scene)
{
    const struct command_place place = {.workdir = AT_FDCWD};
    char *path = (char *)scene;
    arm();
    int ret = command_find("sh", "/nowhere:/usr/bin:/bin", &place, &path, &scene->err);
    disarm();
    if (ret < 0)
        assert_ptr_equal(path, scene);
    else
        free(path);
    return ret;
}

static int find_command_with_slash(struct scene *scene)
{
    const struct command_place place = {.workdir = AT_FDCWD};
    char *path = NULL;
    arm();
    int ret = command_find("/bin/sh", NULL, &place, &path, &scene->err);
    disarm();
    free(path);
    return ret;
}

static void test_finding_a_command(void **state)
{
    run_all(*state, find_command, 2);
    run_all(*state, find_command_with_slash, 1);
}

static int read_operator(struct scene *scene)
{
    struct operator_limits limits, before;
    const char *path = dir_text(scene->dir, "limits.json",
                                "{\"maximum\": {\"memory\": \"8G\", \"pids\": 500}}", 0644);
    memset(&limits, 0x55, sizeof limits);
    before = limits;
    arm();
    int ret = operator_read(&limits, path, &scene->err);
    disarm();
    if (ret < 0)
        assert_memory_equal(&limits, &before, sizeof limits);
    return ret;
}

static void test_the_operators_file(void **state)
{
    if (geteuid() != 0)
        skip_because("optional: needs root: makes a file that belongs to root");
    run_all(*state, read_operator, 10);
}

/* ---- result -------------------------------------------------------------------------------- */

static int write_result(struct scene *scene)
{
    static const struct brig_layer layers[] = {{"memory", BRIG_LAYER_APPLIED, "cgroup v2"}};
    static const char *const labels[] = {"k=v\xff", NULL};
    static unsigned char bytes[3000];
    struct brig_error failure = {.fault = BRIG_FAULT_SYSTEM, .stage = "run", .text = "text"};
    struct brig_result result = {
        .id = "r1",
        .status = BRIG_ERROR,
        .exit_code = -1,
        .notes = "bad \xff bytes",
        .out = {.captured = true, .data = bytes, .len = sizeof bytes},
        .err = {.captured = true, .data = (const unsigned char *)"\xff", .len = 1},
        .isolation = {"process", layers, 1},
        .labels = labels,
        .error = &failure,
    };
    char *text = (char *)scene;
    size_t len = 77;
    arm();
    int ret = brig_result_json(&result, &text, &len, &scene->err);
    disarm();
    if (ret < 0) {
        assert_ptr_equal(text, scene);
        assert_int_equal(len, 77);
        assert_int_equal(ret, -ENOMEM);
    } else {
        brig_free(text);
    }
    return ret;
}

static void test_the_json_of_a_result(void **state)
{
    run_all(*state, write_result, 5);
}

static int write_error(struct scene *scene)
{
    struct brig_error failure = {.fault = BRIG_FAULT_USAGE, .stage = "spec", .text = "text"};
    char *text = (char *)scene;
    size_t len = 77;
    arm();
    int ret = brig_error_json(&failure, &text, &len, &scene->err);
    disarm();
    if (ret < 0)
        assert_ptr_equal(text, scene);
    else
        brig_free(text);
    return ret;
}

static void test_the_json_of_an_error(void **state)
{
    run_all(*state, write_error, 1);
}

/* ---- output and events --------------------------------------------------------------------- */

static int make_pump(struct scene *scene)
{
    struct pump pump;
    int sink = memfd_create("sink", MFD_CLOEXEC);
    struct spec_sink sinks[3] = {{0}, {BRIG_SINK_CAPTURE, 0}, {BRIG_SINK_PASS, sink}};
    const int fds[3] = {-1, -1, -1};
    arm();
    int ret = pump_init(&pump, sinks, fds, 100, true, &scene->err);
    disarm();
    pump_done(&pump);
    close(sink);
    return ret;
}

static void test_a_pump(void **state)
{
    run_all(*state, make_pump, 4);
}

/* What cannot be kept is counted as left out; nothing is an error. */
static void test_output_that_cannot_be_kept_is_counted(void **state)
{
    static unsigned char bytes[5000];
    for (unsigned long n = 1; n < 8; n++) {
        struct pump pump;
        struct spec_sink sinks[3] = {{0}};
        int ends[2], out[3] = {-1, -1, -1};
        assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        out[BRIG_STDOUT] = ends[0];
        assert_int_equal(pump_init(&pump, sinks, out, 100000, false, NULL), 0);
        torture.count = 0;
        torture.fail_at = n;
        for (int i = 0; i < 5; i++) {
            assert_int_equal(write(ends[1], bytes, sizeof bytes), sizeof bytes);
            arm();
            assert_int_equal(pump_read(&pump, BRIG_STDOUT), PUMP_MOVED);
            disarm();
        }
        const struct pump_stream *s = &pump.streams[BRIG_STDOUT];
        assert_int_equal(s->bytes + s->omitted, 5 * sizeof bytes);
        assert_int_equal(s->capture.len, s->bytes);
        assert_int_equal(s->broken, s->omitted ? ENOMEM : 0);
        pump_done(&pump);
        close(ends[0]);
        close(ends[1]);
    }
}

static int make_log(struct scene *scene)
{
    struct brig_event_log *log = (struct brig_event_log *)scene;
    arm();
    int ret = brig_event_log_new(&log, STDERR_FILENO, 1000, &scene->err);
    disarm();
    if (ret < 0)
        assert_ptr_equal(log, scene);
    else
        brig_event_log_free(log);
    return ret;
}

static void test_an_event_log(void **state)
{
    run_all(*state, make_log, 1);
}

/* An event that cannot be written down is a dropped line; nothing is an error. */
static void test_events_that_cannot_be_kept_are_counted(void **state)
{
    static struct brig_run run;
    struct brig_event event = {.type = BRIG_EVENT_ENDED, .sequence = 1};
    for (unsigned long n = 1; n < 8; n++) {
        struct brig_event_log *log;
        int sink = memfd_create("sink", MFD_CLOEXEC);
        assert_int_equal(brig_event_log_new(&log, sink, 10000, NULL), 0);
        torture.count = 0;
        torture.fail_at = n;
        torture.lasting = torture.failed = false;
        arm();
        brig_event_log_add(log, &run, &event);
        disarm();
        assert_int_equal(brig_event_log_dropped(log), torture.failed);
        brig_event_log_free(log);
        close(sink);
    }
}

/* ---- a whole run --------------------------------------------------------------------------- */

/* Either it is not started, and nothing is left of it, or it comes to a result. */
static int run_command(struct scene *scene)
{
    static const char *const command[] = {"sh", "-c", "echo out; echo err >&2; exit 3"};
    struct brig *brig = NULL;
    struct brig_run *run = NULL;
    assert_int_equal(brig_spec_set_command(scene->spec, command, 3, NULL), 0);
    arm();
    int ret = brig_open(&brig, &scene->err);
    if (ret == 0)
        ret = brig_start(brig, scene->spec, &run, &scene->err);
    if (ret == 0) {
        brig_run_watch(run);
        assert_int_equal(brig_run_wait(run, 30000), 1);
        const struct brig_result *result = brig_run_result(run);
        disarm();
        assert_non_null(result);
        /* Output that could not be kept is the only thing that a run can go without. It is ended
         * for that, if it has not ended by itself. */
        if (torture.failed) {
            assert_true(result->out.truncated || result->err.truncated);
            ret = error_memory(&scene->err, "test");
        } else {
            assert_int_equal(result->status, BRIG_EXITED);
            assert_int_equal(result->exit_code, 3);
            assert_int_equal(result->out.bytes, 4);
            assert_int_equal(result->err.bytes, 4);
        }
    }
    disarm();
    if (!brig)
        assert_null(run);
    brig_run_free(run);
    brig_close(brig);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    return ret;
}

static void test_a_whole_run(void **state)
{
    run_all(*state, run_command, 20);
}

/* A template, and a call as far as it goes with one that never says that it is ready. */
static int start_template(struct scene *scene)
{
    static const char *const command[] = {"sleep", "60"};
    struct brig *brig = NULL;
    struct brig_run *run = NULL, *call = NULL;
    struct brig_template *template = NULL;
    assert_int_equal(brig_spec_set_command(scene->spec, command, 2, NULL), 0);
    assert_int_equal(brig_open(&brig, NULL), 0);
    arm();
    int ret = brig_template_start(brig, scene->spec, &template, &run, &scene->err);
    if (ret == 0) {
        struct brig_spec *spec = NULL;
        ret = brig_spec_new(&spec, &scene->err);
        if (ret == 0)
            ret = brig_spec_set_command(spec, command, 1, &scene->err);
        if (ret == 0) {
            brig_spec_set_template(spec, template);
            ret = brig_start(brig, spec, &call, &scene->err);
            assert_null(call);
            if (!torture.failed) {
                assert_string_equal(scene->err.text, "the template is not ready");
                ret = 0;
            }
        }
        brig_spec_free(spec);
    }
    disarm();
    brig_run_free(run);
    brig_template_free(template);
    brig_close(brig);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    return ret;
}

static void test_a_template(void **state)
{
    run_all(*state, start_template, 20);
}

int main(void)
{
    /* The reader of JSON allocates in a library of its own. */
    json_set_alloc_funcs(malloc, free);
    const struct CMUnitTest tests[] = {
        torture_test(test_a_new_spec),
        torture_test(test_single_values),
        torture_test(test_a_command),
        torture_test(test_a_spec_from_json),
        torture_test(test_a_spec_from_json_that_failed_changed_nothing),
        torture_test(test_limits_from_metadata),
        torture_test(test_a_plan),
        torture_test(test_a_plan_in_the_current_dir),
        torture_test(test_an_explanation_in_both_forms),
        torture_test(test_finding_a_command),
        torture_test(test_the_operators_file),
        torture_test(test_the_json_of_a_result),
        torture_test(test_the_json_of_an_error),
        torture_test(test_a_pump),
        torture_test(test_output_that_cannot_be_kept_is_counted),
        torture_test(test_an_event_log),
        torture_test(test_events_that_cannot_be_kept_are_counted),
        torture_test(test_a_whole_run),
        torture_test(test_a_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
