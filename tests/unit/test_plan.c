/* SPDX-License-Identifier: MIT */
/* lib/plan.c on a host without cgroups, made up here: what is refused by name, what may degrade,
 * and that the list of layers is honest. */
#include "lib/plan/plan.h"

#include <errno.h>
#include <sys/resource.h>

#include "directory.h"
#include "lib/plan/host.h"

struct bench {
    struct dir *dir;
    struct brig brig;
    struct brig_spec *spec;
};

static int start(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    const char *command[] = {"true", "a b"};
    if (!b || dir_setup((void **)&b->dir) < 0 || brig_spec_new(&b->spec, NULL) < 0)
        return -1;
    base_mounts_cache_init(&b->brig.base_mounts_cache);
    b->brig.init = b->brig.pidfd = b->brig.place.leaf_parent = -1;
    snprintf(b->brig.place.why, sizeof b->brig.place.why, "made up without groups");
    for (int i = 0; i < KEY_COUNT; i++)
        b->brig.maxima.maximum[i] = BRIG_UNLIMITED;
    *state = b;
    return brig_spec_set_command(b->spec, command, 2, NULL);
}

static int end(void **state)
{
    struct bench *b = *state;
    base_mounts_cache_done(&b->brig.base_mounts_cache);
    brig_spec_free(b->spec);
    dir_teardown((void **)&b->dir);
    free(b);
    return 0;
}

#define plan_test(test) cmocka_unit_test_setup_teardown(test, start, end)

static void set(struct bench *b, const char *key, const char *value)
{
    assert_int_equal(brig_spec_set(b->spec, key, value, BRIG_FROM_OPTION, NULL, NULL), 0);
}

static int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void check_refused(struct bench *b, enum brig_fault fault, const char *why)
{
    struct plan plan;
    struct brig_error err = {0};
    int before = count_fds();
    assert_true(plan_make(&plan, &b->brig, b->spec, NULL, &err) < 0);
    assert_int_equal(err.fault, fault);
    assert_contains(err.text, why);
    assert_int_equal(count_fds(), before);
}

static void make(struct bench *b, struct plan *plan)
{
    struct brig_error err = {0};
    if (plan_make(plan, &b->brig, b->spec, NULL, &err) < 0)
        fail_msg("%s", err.text);
}

static const struct brig_layer *layer_of(const struct plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->layer_count; i++) {
        if (strcmp(plan->layers[i].name, name) == 0)
            return &plan->layers[i];
    }
    fail_msg("no layer %s", name);
    return NULL;
}

static const struct op *rlimit_of(const struct plan *plan, int resource)
{
    for (uint32_t i = 0; i < plan->op_count; i++) {
        if (plan->ops[i].kind == OP_RLIMIT && plan->ops[i].rlimit.resource == (uint64_t)resource)
            return &plan->ops[i];
    }
    return NULL;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void test_a_plan_holds_command_limits_and_dir(void **state)
{
    struct bench *b = *state;
    struct plan plan;
    set(b, "workdir", b->dir->path);
    set(b, "memory", "64M");
    make(b, &plan);
    assert_int_equal(plan.argv.count, 4);
    assert_string_equal(plan.argv.items[1], plan.path);
    assert_string_equal(plan.argv.items[3], "a b");
    assert_contains(plan.path, "/true");
    assert_string_equal(plan.workdir_path, b->dir->path);
    assert_int_equal(plan.limits.memory_bytes, 64 << 20);
    assert_int_equal(plan.limits.pids, 100);
    assert_int_equal(plan.limits.open_files, BRIG_UNLIMITED);
    assert_false(plan.use_group);
    plan_done(&plan);
    plan_done(&plan);
}

static void test_layers_are_listed_once_and_each_says_how_or_why_not(void **state)
{
    struct bench *b = *state;
    struct plan plan;
    make(b, &plan);
    assert_true(plan.layer_count > 0 && plan.layer_count <= PLAN_LAYERS_MAX);
    for (size_t i = 0; i < plan.layer_count; i++) {
        assert_true(strlen(plan.layers[i].how) > 0);
        assert_ptr_equal(layer_of(&plan, plan.layers[i].name), &plan.layers[i]);
    }
    assert_int_equal(layer_of(&plan, "memory")->state, BRIG_LAYER_APPLIED);
    assert_contains(layer_of(&plan, "memory")->how, "sampling");
    assert_int_equal(layer_of(&plan, "cpus")->state, BRIG_LAYER_MISSING);
    assert_contains(layer_of(&plan, "cpus")->how, "made up without groups");
    assert_int_equal(plan.limits.milli_cpus, BRIG_UNLIMITED); /* what is not enforced is no limit */
    plan_done(&plan);
}

static void test_a_limit_that_is_taken_away_is_off_not_applied(void **state)
{
    struct bench *b = *state;
    struct plan plan;
    set(b, "memory", "unlimited");
    set(b, "cpus", "unlimited");
    make(b, &plan);
    assert_int_equal(layer_of(&plan, "memory")->state, BRIG_LAYER_OFF);
    assert_int_equal(layer_of(&plan, "cpus")->state, BRIG_LAYER_OFF);
    assert_null(rlimit_of(&plan, RLIMIT_DATA));
    plan_done(&plan);
}

static void test_operations_fit_and_end_without_new_privileges(void **state)
{
    struct bench *b = *state;
    struct plan plan;
    set(b, "open_files", "64");
    set(b, "file_size", "1M");
    set(b, "cpu_time", "1s");
    make(b, &plan);
    assert_true(plan.op_count > 0 && plan.op_count <= INIT_OPS_MAX);
    assert_int_equal(plan.ops[plan.op_count - 1].kind, OP_SECCOMP);
    assert_int_equal(rlimit_of(&plan, RLIMIT_NOFILE)->rlimit.hard, 64);
    assert_int_equal(rlimit_of(&plan, RLIMIT_FSIZE)->rlimit.hard, 1 << 20);
    assert_true(rlimit_of(&plan, RLIMIT_CPU)->rlimit.hard >= 2);
    assert_non_null(rlimit_of(&plan, RLIMIT_CORE));
    for (uint32_t i = 0; i < plan.op_count; i++) {
        char text[400] = "";
        plan_describe_op(&plan, &plan.ops[i], text, sizeof text);
        assert_true(strlen(text) > 0);
        if (plan.ops[i].kind != OP_RLIMIT)
            continue;
        assert_true(plan.ops[i].rlimit.soft <= plan.ops[i].rlimit.hard);
        /* The later one of two could not raise what the first has lowered. */
        assert_ptr_equal(rlimit_of(&plan, (int)plan.ops[i].rlimit.resource), &plan.ops[i]);
    }
    plan_done(&plan);
}

static void test_the_largest_limits_do_not_wrap_around(void **state)
{
    struct bench *b = *state;
    struct plan plan;
    set(b, "memory", "9223372036854775807");
    set(b, "file_size", "9223372036854775807");
    set(b, "cpu_time", "36500d");
    make(b, &plan);
    const struct op *data = rlimit_of(&plan, RLIMIT_DATA);
    if (data)
        assert_true(data->rlimit.hard >= (UINT64_C(1) << 62));
    assert_true(rlimit_of(&plan, RLIMIT_CPU)->rlimit.hard >= UINT64_C(36500) * 86400);
    plan_done(&plan);
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void test_what_was_asked_for_by_name_and_cannot_be_had_is_refused(void **state)
{
    set(*state, "cpus", "2");
    check_refused(*state, BRIG_FAULT_REFUSED, "cpus: cannot be enforced without a cgroup");
}

static void test_low_priority_without_a_group_is_refused(void **state)
{
    set(*state, "cpu_priority", "low");
    check_refused(*state, BRIG_FAULT_REFUSED, "cpu_priority: \"low\" needs a cgroup");
}

static void test_a_required_layer_that_is_missing_is_refused(void **state)
{
    struct bench *b = *state;
    struct plan plan;
    set(b, "require", "memory,tree");
    make(b, &plan);
    plan_done(&plan);
    set(b, "require", "pids,cpus");
    check_refused(b, BRIG_FAULT_REFUSED, "the layer \"cpus\" is not there");
}

static void test_a_required_layer_that_does_not_exist_is_a_mistake(void **state)
{
    static const char *const lists[] = {"nothing", "memor", "memory,,pids", "memory, pids", ","};
    for (size_t i = 0; i < COUNT(lists); i++) {
        struct bench *b = *state;
        strings_done(&b->spec->values[KEY_REQUIRE].list);
        set(b, "require", lists[i]);
        check_refused(b, BRIG_FAULT_USAGE, "is not a layer");
    }
}

static void test_over_the_operators_maximum_is_refused(void **state)
{
    struct bench *b = *state;
    b->brig.maxima.maximum[KEY_TIMEOUT] = UINT64_C(60000000000);
    struct plan plan;
    make(b, &plan); /* brig's own default is lowered */
    assert_int_equal(plan.limits.timeout_ns, UINT64_C(60000000000));
    plan_done(&plan);
    set(b, "timeout", "2m");
    check_refused(b, BRIG_FAULT_REFUSED, "timeout: 2m is over the operator's maximum of 1m");
}

static void test_a_budget_that_memory_cannot_hold_is_refused_if_it_is_kept(void **state)
{
    struct bench *b = *state;
    struct plan plan;
    set(b, "output", "unlimited");
    check_refused(b, BRIG_FAULT_USAGE, "output: what is kept in memory");
    for (int i = BRIG_STDOUT; i <= BRIG_STDERR; i++)
        brig_spec_set_sink(b->spec, (enum brig_stream)i, BRIG_SINK_DISCARD, -1, NULL);
    make(b, &plan);
    plan_done(&plan);
    set(b, "on_output_limit", "truncate");
    check_refused(b, BRIG_FAULT_USAGE, "output: what is kept in memory");
}

static void test_no_command_is_a_mistake(void **state)
{
    struct bench *b = *state;
    strings_done(&b->spec->command);
    check_refused(b, BRIG_FAULT_USAGE, "command: there is none");
}

static void test_a_work_dir_that_is_none_is_refused_each_in_its_own_words(void **state)
{
    struct bench *b = *state;
    set(b, "workdir", dir_path(b->dir, "none"));
    check_refused(b, BRIG_FAULT_REFUSED, "does not exist");
    set(b, "workdir", dir_text(b->dir, "file", "", 0600));
    check_refused(b, BRIG_FAULT_REFUSED, "is not a directory");
    assert_int_equal(symlinkat("nowhere", b->dir->fd, "dead"), 0);
    set(b, "workdir", dir_path(b->dir, "dead"));
    check_refused(b, BRIG_FAULT_REFUSED, "is a symlink to something that does not exist");
}

static void test_a_stdin_that_is_none_is_refused(void **state)
{
    struct bench *b = *state;
    set(b, "stdin", dir_path(b->dir, "none"));
    check_refused(b, BRIG_FAULT_REFUSED, "stdin: ");
    assert_int_equal(mkfifoat(b->dir->fd, "fifo", 0600), 0);
    set(b, "stdin", dir_path(b->dir, "fifo"));
    alarm(20);
    check_refused(b, BRIG_FAULT_REFUSED, "is not a regular file");
    alarm(0);
}

static void test_a_command_that_is_not_there_is_not_found(void **state)
{
    struct bench *b = *state;
    const char *command[] = {"no-such-command"};
    brig_spec_set_command(b->spec, command, 1, NULL);
    check_refused(b, BRIG_FAULT_NOT_FOUND, "no-such-command: not found in PATH");
}

/* ---- explain ------------------------------------------------------------------------------- */

static void test_explain_shows_the_plan_in_both_forms_and_makes_it_safe(void **state)
{
    struct bench *b = *state;
    const char *command[] = {"true", "\x1b[2J"};
    char *text = NULL;
    size_t len = 0;
    struct brig *real = NULL; /* to build a cell with, which is how explain finds out that it can */
    assert_int_equal(brig_open(&real, NULL), 0);
    b->brig.init = real->init;
    b->brig.pidfd = real->pidfd;
    b->brig.pid = real->pid;
    brig_spec_set_command(b->spec, command, 2, NULL);
    assert_int_equal(brig_explain(&b->brig, b->spec, false, &text, &len, NULL), 0);
    assert_int_equal(strlen(text), len);
    assert_contains(text, "true \\x1b[2J");
    assert_contains(text, "made up without groups (MISSING)");
    assert_null(strchr(text, '\x1b'));
    brig_free(text);
    assert_int_equal(brig_explain(&b->brig, b->spec, true, &text, &len, NULL), 0);
    assert_contains(text, "\"schema\":\"brig.plan/1\"");
    assert_contains(text, "\\u001b[2J");
    brig_free(text);
    brig_close(real);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        plan_test(test_a_plan_holds_command_limits_and_dir),
        plan_test(test_layers_are_listed_once_and_each_says_how_or_why_not),
        plan_test(test_a_limit_that_is_taken_away_is_off_not_applied),
        plan_test(test_operations_fit_and_end_without_new_privileges),
        plan_test(test_the_largest_limits_do_not_wrap_around),
        plan_test(test_what_was_asked_for_by_name_and_cannot_be_had_is_refused),
        plan_test(test_low_priority_without_a_group_is_refused),
        plan_test(test_a_required_layer_that_is_missing_is_refused),
        plan_test(test_a_required_layer_that_does_not_exist_is_a_mistake),
        plan_test(test_over_the_operators_maximum_is_refused),
        plan_test(test_a_budget_that_memory_cannot_hold_is_refused_if_it_is_kept),
        plan_test(test_no_command_is_a_mistake),
        plan_test(test_a_work_dir_that_is_none_is_refused_each_in_its_own_words),
        plan_test(test_a_stdin_that_is_none_is_refused),
        plan_test(test_a_command_that_is_not_there_is_not_found),
        plan_test(test_explain_shows_the_plan_in_both_forms_and_makes_it_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
