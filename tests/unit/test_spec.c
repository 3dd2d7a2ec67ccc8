/* SPDX-License-Identifier: MIT */
/* lib/spec.c: which value wins, what is refused, and that a refused text changes nothing. */
#include "lib/spec/spec.h"

#include <errno.h>
#include <locale.h>

#include "base/text.h"
#include "directory.h"
#include "same_spec.h"

static int start(void **state)
{
    return brig_spec_new((struct brig_spec **)state, NULL);
}

static int end(void **state)
{
    brig_spec_free(*state);
    return 0;
}

#define spec_test(test) cmocka_unit_test_setup_teardown(test, start, end)

static int set(struct brig_spec *spec, const char *key, const char *value, enum brig_origin origin)
{
    return brig_spec_set(spec, key, value, origin, NULL, NULL);
}

static int read_json(struct brig_spec *spec, const char *text)
{
    return brig_spec_read_json(spec, text, strlen(text), "job.json", NULL);
}

static int read_metadata(struct brig_spec *spec, const char *text)
{
    return brig_spec_read_metadata(spec, text, strlen(text), "meta.json", NULL);
}

/* ---- defaults and single values ------------------------------------------------------------ */

static void test_a_new_spec_has_the_defaults_and_nothing_was_asked_for(void **state)
{
    const struct brig_spec *spec = *state;
    for (int i = 0; i < KEY_COUNT; i++) {
        assert_false(spec_asked(spec, (enum key)i));
        assert_int_equal(spec->values[i].set, key_table[i].initial != NULL);
    }
    assert_int_equal(spec->values[KEY_MEMORY].number, UINT64_C(2) << 30);
    assert_int_equal(spec->command.count, 0);
    assert_int_equal(spec->stdin_fd, -1);
    assert_int_equal(spec->sinks[BRIG_STDOUT].kind, BRIG_SINK_CAPTURE);
    assert_int_equal(spec->sinks[BRIG_STDERR].kind, BRIG_SINK_CAPTURE);
}

static void test_a_value_replaces_one_of_the_same_or_a_lower_origin(void **state)
{
    struct brig_spec *spec = *state;
    for (int origin = BRIG_FROM_SPEC; origin <= BRIG_FROM_OPTION; origin++) {
        char value[16];
        for (int again = 0; again < 2; again++) {
            snprintf(value, sizeof value, "%d", origin * 10 + again);
            assert_int_equal(set(spec, "pids", value, (enum brig_origin)origin), 0);
            assert_int_equal(spec->values[KEY_PIDS].number, origin * 10 + again);
            assert_int_equal(spec->values[KEY_PIDS].origin, origin);
        }
    }
}

static void test_a_value_of_a_lower_origin_is_checked_and_passed_over(void **state)
{
    struct brig_spec *spec = *state;
    for (int origin = BRIG_FROM_OPTION; origin >= BRIG_FROM_SPEC; origin--) {
        assert_int_equal(
            set(spec, "pids", origin == BRIG_FROM_OPTION ? "7" : "8", (enum brig_origin)origin), 0);
        assert_int_equal(set(spec, "workdir", origin == BRIG_FROM_OPTION ? "/a" : "/b",
                             (enum brig_origin)origin),
                         0);
    }
    assert_int_equal(spec->values[KEY_PIDS].number, 7);
    assert_int_equal(spec->values[KEY_PIDS].origin, BRIG_FROM_OPTION);
    assert_string_equal(spec->values[KEY_WORKDIR].text, "/a");
    assert_int_equal(set(spec, "pids", "none", BRIG_FROM_SPEC), -EINVAL);
    assert_int_equal(read_json(spec, "{\"pids\": 9, \"workdir\": \"/c\"}"), 0);
    assert_int_equal(read_metadata(spec, "{\"limits\": {\"pids\": 9}}"), 0);
    assert_int_equal(spec->values[KEY_PIDS].number, 7);
    assert_string_equal(spec->values[KEY_WORKDIR].text, "/a");
}

static void test_metadata_wins_over_a_spec_file_in_either_order(void **state)
{
    for (int order = 0; order < 2; order++) {
        struct brig_spec *spec;
        assert_int_equal(brig_spec_new(&spec, NULL), 0);
        for (int i = 0; i < 2; i++) {
            if (i == order)
                assert_int_equal(read_json(spec, "{\"pids\": 5}"), 0);
            else
                assert_int_equal(read_metadata(spec, "{\"limits\":{\"pids\": 6}}"), 0);
        }
        assert_int_equal(spec->values[KEY_PIDS].number, 6);
        assert_int_equal(spec->values[KEY_PIDS].origin, BRIG_FROM_METADATA);
        brig_spec_free(spec);
    }
}

static void test_lists_grow_in_the_order_of_the_calls_whatever_their_origin(void **state)
{
    struct brig_spec *spec = *state;
    assert_int_equal(set(spec, "env", "A=1", BRIG_FROM_OPTION), 0);
    assert_int_equal(read_json(spec, "{\"env\": {\"B\": \"2\"}}"), 0);
    assert_int_equal(set(spec, "env", "C", BRIG_FROM_ENVIRONMENT), 0);
    const struct strings *list = &spec->values[KEY_ENV].list;
    assert_int_equal(list->count, 3);
    assert_string_equal(list->items[0], "A=1");
    assert_string_equal(list->items[1], "B=2");
    assert_string_equal(list->items[2], "C");
    assert_int_equal(spec->values[KEY_ENV].origin, BRIG_FROM_OPTION);
}

static void test_the_message_names_the_place_and_the_value(void **state)
{
    struct brig_error err;
    assert_int_equal(brig_spec_set(*state, "memory", "much", BRIG_FROM_OPTION, "--memory", &err),
                     -EINVAL);
    assert_int_equal(err.fault, BRIG_FAULT_USAGE);
    assert_string_equal(err.stage, "spec");
    assert_string_equal(err.text, "--memory: \"much\" is not a number");
    brig_spec_set(*state, "memory", "0", BRIG_FROM_OPTION, NULL, &err);
    assert_contains(err.text, "memory: \"0\" is zero");
    brig_spec_set(*state, "view", "all", BRIG_FROM_OPTION, "--view", &err);
    assert_string_equal(err.text, "--view: \"all\" is not one of minimal|host");
    brig_spec_set(*state, "nothing", "1", BRIG_FROM_OPTION, "BRIG_NOTHING", &err);
    assert_string_equal(err.text, "BRIG_NOTHING: unknown key \"nothing\"");
}

static void test_the_message_is_safe_to_print(void **state)
{
    struct brig_error err;
    brig_spec_set(*state, "memory", "\x1b[2J\xff", BRIG_FROM_OPTION, "--memory", &err);
    assert_contains(err.text, "\\x1b[2J\\xff");
}

static void test_the_message_does_not_cut_a_character(void **state)
{
    struct brig_error err;
    char value[202] = "x";
    for (size_t i = 0; i < 100; i++)
        memcpy(value + 1 + 2 * i, "\xc3\xa9", 3);
    brig_spec_set(*state, "memory", value, BRIG_FROM_OPTION, "--memory", &err);
    assert_null(strchr(err.text, '\\'));
}

static void test_empty_texts_and_nameless_variables_are_refused(void **state)
{
    static const struct {
        const char *key, *value;
    } rows[] = {
        {"workdir", ""}, {"stdin", ""},    {"ro", ""},      {"env_file", ""}, {"env", ""},
        {"env", "=1"},   {"labels", "=v"}, {"labels", "k"}, {"labels", ""},   {"require", ""},
        {"memory", ""},  {"view", ""},     {"pids", ""},    {"env", "="},     {"timeout", ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(set(*state, rows[i].key, rows[i].value, BRIG_FROM_OPTION), -EINVAL);
    assert_int_equal(set(*state, "env", "A=", BRIG_FROM_OPTION), 0);
    assert_int_equal(set(*state, "labels", "k=", BRIG_FROM_OPTION), 0);
}

static void test_a_text_is_bounded_by_what_the_kernel_takes(void **state)
{
    char *text = malloc(131072 + 2);
    memset(text, 'x', 131072 + 1);
    text[131072 + 1] = 0;
    assert_int_equal(set(*state, "workdir", text, BRIG_FROM_OPTION), -EINVAL);
    text[131072] = 0;
    assert_int_equal(set(*state, "workdir", text, BRIG_FROM_OPTION), 0);
    free(text);
}

/* ---- command, sinks, stdin ----------------------------------------------------------------- */

static void test_a_command_replaces_the_earlier_one_and_is_copied(void **state)
{
    struct brig_spec *spec = *state;
    char word[] = "echo";
    const char *first[] = {word, "a", ""}, *second[] = {"true"};
    assert_int_equal(brig_spec_set_command(spec, first, 3, NULL), 0);
    word[0] = 'X';
    assert_int_equal(spec->command.count, 3);
    assert_string_equal(spec->command.items[0], "echo");
    assert_string_equal(spec->command.items[2], "");
    assert_int_equal(brig_spec_set_command(spec, second, 1, NULL), 0);
    assert_int_equal(spec->command.count, 1);
}

static void test_an_empty_command_is_refused_and_the_old_one_stays(void **state)
{
    struct brig_spec *spec = *state;
    const char *good[] = {"true"}, *empty[] = {""};
    assert_int_equal(brig_spec_set_command(spec, good, 1, NULL), 0);
    assert_int_equal(brig_spec_set_command(spec, good, 0, NULL), -EINVAL);
    assert_int_equal(brig_spec_set_command(spec, NULL, 0, NULL), -EINVAL);
    assert_int_equal(brig_spec_set_command(spec, empty, 1, NULL), -EINVAL);
    assert_string_equal(spec->command.items[0], "true");
}

static void test_only_stdout_and_stderr_have_a_sink(void **state)
{
    struct brig_spec *spec = *state;
    assert_int_equal(brig_spec_set_sink(spec, BRIG_STDIN, BRIG_SINK_PASS, 1, NULL), -EINVAL);
    assert_int_equal(brig_spec_set_sink(spec, (enum brig_stream)3, BRIG_SINK_PASS, 1, NULL),
                     -EINVAL);
    assert_int_equal(brig_spec_set_sink(spec, BRIG_STDERR, BRIG_SINK_PASS, 5, NULL), 0);
    assert_int_equal(spec->sinks[BRIG_STDERR].kind, BRIG_SINK_PASS);
    assert_int_equal(spec->sinks[BRIG_STDERR].fd, 5);
    assert_int_equal(spec->sinks[BRIG_STDOUT].kind, BRIG_SINK_CAPTURE);
}

static void test_stdin_has_to_be_a_descriptor(void **state)
{
    struct brig_spec *spec = *state;
    assert_int_equal(brig_spec_set_stdin(spec, -2, NULL), -EINVAL);
    assert_int_equal(spec->stdin_fd, -1);
    assert_int_equal(brig_spec_set_stdin(spec, 0, NULL), 0);
    assert_int_equal(spec->stdin_fd, 0);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void test_json_sets_every_type_of_key(void **state)
{
    struct brig_spec *spec = *state;
    assert_int_equal(
        read_json(
            spec,
            "{\"command\": [\"sh\", \"-c\", \"exit 3\"],"
            " \"memory\": \"512M\", \"output\": 4096, \"cpus\": 1.5, \"pids\": 10,"
            " \"cpu_priority\": \"low\","
            " \"timeout\": 2.5, \"kill_after\": \"500ms\", \"cpu_time\": \"unlimited\","
            " \"result_size\": \"1K\", \"on_output_limit\": \"truncate\", \"workdir\": \"/tmp\","
            " \"env\": {\"A\": \"1\", \"N\": 5}, \"labels\": {\"job\": \"x=y\"},"
            " \"require\": [\"memory\", \"pids\"]}"),
        0);
    assert_int_equal(spec->command.count, 3);
    assert_int_equal(spec->values[KEY_MEMORY].number, 512 << 20);
    assert_int_equal(spec->values[KEY_OUTPUT].number, 4096);
    assert_int_equal(spec->values[KEY_CPUS].number, 1500);
    assert_int_equal(spec->values[KEY_CPU_PRIORITY].number, CPU_PRIORITY_LOW);
    assert_int_equal(spec->values[KEY_PIDS].number, 10);
    assert_int_equal(spec->values[KEY_TIMEOUT].number, UINT64_C(2500000000));
    assert_int_equal(spec->values[KEY_KILL_AFTER].number, UINT64_C(500000000));
    assert_int_equal(spec->values[KEY_CPU_TIME].number, BRIG_UNLIMITED);
    assert_int_equal(spec->values[KEY_ON_OUTPUT_LIMIT].number, ON_OUTPUT_TRUNCATE);
    assert_string_equal(spec->values[KEY_WORKDIR].text, "/tmp");
    assert_string_equal(spec->values[KEY_ENV].list.items[0], "A=1");
    assert_string_equal(spec->values[KEY_ENV].list.items[1], "N=5");
    assert_string_equal(spec->values[KEY_LABELS].list.items[0], "job=x=y");
    assert_int_equal(spec->values[KEY_REQUIRE].list.count, 2);
    for (enum key key = KEY_MEMORY; key <= KEY_ON_OUTPUT_LIMIT; key++)
        assert_int_equal(spec->values[key].origin, BRIG_FROM_SPEC);
}

static void test_a_map_may_be_a_list_as_on_the_command_line(void **state)
{
    struct brig_spec *spec = *state;
    assert_int_equal(read_json(spec, "{\"env\": [\"A=1\", \"HOME\"], \"labels\": [\"k=v\"]}"), 0);
    assert_int_equal(spec->values[KEY_ENV].list.count, 2);
    assert_string_equal(spec->values[KEY_ENV].list.items[1], "HOME");
    assert_string_equal(spec->values[KEY_LABELS].list.items[0], "k=v");
}

static const char *const refused[] = {
    "",
    "[]",
    "{\"nothing\": 1}",
    "{\"Memory\": 1}",
    "{\"kill-after\": 1}",
    "{\"memory\": 1, \"memory\": 2}",
    "{\"memory\": null}",
    "{\"memory\": true}",
    "{\"memory\": [1]}",
    "{\"memory\": {}}",
    "{\"memory\": -1}",
    "{\"memory\": 0}",
    "{\"memory\": 1e30}",
    "{\"memory\": 9223372036854775808}",
    "{\"pids\": 1.5}",
    "{\"view\": 0}",
    "{\"workdir\": \"\"}",
    "{\"workdir\": [\"/\"]}",
    "{\"ro\": \"/usr\"}",
    "{\"ro\": {\"a\": \"b\"}}",
    "{\"ro\": [1]}",
    "{\"ro\": [\"/usr\", \"\"]}",
    "{\"env\": \"A=1\"}",
    "{\"env\": {\"\": \"1\"}}",
    "{\"env\": {\"A=B\": \"1\"}}",
    "{\"env\": {\"A\": null}}",
    "{\"env\": {\"A\": [\"1\"]}}",
    "{\"env\": [\"=1\"]}",
    "{\"env\": [\"A=1\", 2]}",
    "{\"labels\": [\"k\"]}",
    "{\"command\": \"true\"}",
    "{\"command\": []}",
    "{\"command\": [\"\"]}",
    "{\"command\": [1]}",
    "{\"command\": [\"a\", null]}",
    "{\"command\": {\"a\": \"b\"}}",
    "{\"limits\": {\"memory\": 1}}",
};

/* Each text is led by keys that are good, so that a careless reader would have set them. */
static void test_a_refused_text_changes_nothing(void **state)
{
    struct brig_spec *spec = *state, *before;
    static const char *const setting[] = {"pids=5", "workdir=/a", "env=X=1"};
    const char *command[] = {"old"};
    assert_int_equal(brig_spec_new(&before, NULL), 0);
    for (size_t i = 0; i < COUNT(setting); i++) {
        char key[16];
        const char *value = strchr(setting[i], '=') + 1;
        snprintf(key, sizeof key, "%.*s", (int)(value - setting[i] - 1), setting[i]);
        assert_int_equal(set(spec, key, value, BRIG_FROM_SPEC), 0);
        assert_int_equal(set(before, key, value, BRIG_FROM_SPEC), 0);
    }
    assert_int_equal(brig_spec_set_command(spec, command, 1, NULL), 0);
    assert_int_equal(brig_spec_set_command(before, command, 1, NULL), 0);
    for (size_t i = 0; i < COUNT(refused); i++) {
        char text[512];
        struct brig_error err = {0};
        snprintf(text, sizeof text,
                 "{\"timeout\": 9, \"rw\": [\"/b\"], \"stdin\": \"/c\", \"tmpfs\": [\"/d\"]%s%s",
                 refused[i][0] == '{' ? "," : "", refused[i][0] == '{' ? refused[i] + 1 : "");
        int ret = brig_spec_read_json(spec, text, strlen(text), "job.json", &err);
        if (ret != -EINVAL)
            fail_msg("%s: returned %d", text, ret);
        assert_int_equal(err.fault, BRIG_FAULT_USAGE);
        assert_true(same_spec(spec, before));
    }
    brig_spec_free(before);
}

static void test_the_message_of_a_member_names_the_file_and_the_key(void **state)
{
    struct brig_error err;
    const char *text = "{\"memory\": \"much\"}";
    brig_spec_read_json(*state, text, strlen(text), "job.json", &err);
    assert_string_equal(err.text, "job.json: memory: \"much\" is not a number");
    text = "{\"limits\": {\"memory\": \"much\"}}";
    brig_spec_read_metadata(*state, text, strlen(text), "meta.json", &err);
    assert_string_equal(err.text, "meta.json: limits.memory: \"much\" is not a number");
    text = "{\"env\": {\"A\": null}}";
    brig_spec_read_json(*state, text, strlen(text), "job.json", &err);
    assert_string_equal(err.text, "job.json: env.A: is not a string or a number");
}

static void test_the_text_is_bounded_to_the_byte(void **state)
{
    char *text = malloc(BRIG_SPEC_MAX + 1);
    memset(text, ' ', BRIG_SPEC_MAX + 1);
    memcpy(text, "{\"pids\": 7}", 11);
    assert_int_equal(brig_spec_read_json(*state, text, BRIG_SPEC_MAX + 1, "x", NULL), -EINVAL);
    assert_false(spec_asked(*state, KEY_PIDS));
    assert_int_equal(brig_spec_read_json(*state, text, BRIG_SPEC_MAX, "x", NULL), 0);
    assert_true(spec_asked(*state, KEY_PIDS));
    free(text);
}

static void test_numbers_of_variables_are_written_as_they_stand(void **state)
{
    struct brig_spec *spec = *state;
    assert_int_equal(read_json(spec, "{\"env\": {\"A\": 1.5, \"B\": 0.1}}"), 0);
    assert_string_equal(spec->values[KEY_ENV].list.items[0], "A=1.5");
    assert_string_equal(spec->values[KEY_ENV].list.items[1], "B=0.1");
}

static void test_a_large_number_of_a_variable_is_not_cut(void **state)
{
    struct brig_spec *spec = *state;
    int ret = read_json(spec, "{\"env\": {\"A\": 1e70}}");
    if (ret == 0)
        assert_true(strtod(spec->values[KEY_ENV].list.items[0] + 2, NULL) > 0.9e70);
}

/* A host may have chosen a language in which the decimal point is a comma. */
static bool choose_comma(struct dir *dir)
{
    char command[512];
    const char *source = dir_text(dir, "source",
                                  "comment_char %\nescape_char /\nLC_NUMERIC\n"
                                  "decimal_point \",\"\nthousands_sep \"\"\ngrouping -1\n"
                                  "END LC_NUMERIC\n",
                                  0600);
    snprintf(command, sizeof command,
             "localedef --no-archive -c -i %s -f ANSI_X3.4-1968 %s/comma >/dev/null 2>&1", source,
             dir->path);
    setenv("LOCPATH", dir->path, 1);
    return system(command) >= 0 && setlocale(LC_NUMERIC, "comma");
}

static void test_numbers_do_not_depend_on_the_locale(void **state)
{
    struct brig_spec *spec;
    if (!choose_comma(*state))
        skip_because("localedef cannot make a locale here");
    assert_int_equal(brig_spec_new(&spec, NULL), 0);
    int ret = read_json(spec, "{\"cpus\": 1.5}");
    uint64_t milli_cpus = spec->values[KEY_CPUS].number;
    brig_spec_free(spec);
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    assert_int_equal(ret, 0);
    assert_int_equal(milli_cpus, 1500);
}

/* ---- metadata ------------------------------------------------------------------------------ */

static void test_metadata_is_the_jobs_own_but_for_its_limits(void **state)
{
    struct brig_spec *spec = *state, *before;
    assert_int_equal(brig_spec_new(&before, NULL), 0);
    assert_int_equal(read_metadata(spec, "{}"), 0);
    assert_int_equal(read_metadata(spec, "{\"memory\": 1, \"command\": [\"x\"], \"name\": null,"
                                         " \"env\": {\"A\": []}}"),
                     0);
    assert_int_equal(read_metadata(spec, "{\"limits\": {}}"), 0);
    assert_true(same_spec(spec, before));
    assert_int_equal(read_metadata(spec, "{\"title\": 1, \"limits\": {\"memory\": \"1G\"}}"), 0);
    assert_int_equal(spec->values[KEY_MEMORY].number, 1 << 30);
    assert_int_equal(spec->values[KEY_MEMORY].origin, BRIG_FROM_METADATA);
    brig_spec_free(before);
}

static void test_metadata_sets_limits_and_no_other_key(void **state)
{
    struct brig_spec *spec = *state;
    for (int i = 0; i < KEY_COUNT; i++) {
        char text[128];
        struct brig_error err;
        const struct brig_key *key = &key_table[i];
        bool list = key->type == BRIG_TYPE_LIST || key->type == BRIG_TYPE_MAP;
        snprintf(text, sizeof text, "{\"limits\": {\"%s\": %s}}", key->name,
                 list           ? "[\"a=b\"]"
                 : key->choices ? "\"kill\""
                                : "\"1\"");
        int ret = brig_spec_read_metadata(spec, text, strlen(text), "meta.json", &err);
        assert_int_equal(ret, key->limit ? 0 : -EINVAL);
        if (!key->limit)
            assert_contains(err.text, "is not a limit");
        assert_int_equal(spec_asked(spec, (enum key)i), key->limit);
    }
}

static void test_metadata_that_is_refused_changes_nothing(void **state)
{
    static const char *const rows[] = {
        "[]",
        "{\"limits\": null}",
        "{\"limits\": []}",
        "{\"limits\": \"1G\"}",
        "{\"limits\": {\"memory\": \"1G\", \"view\": \"host\"}}",
        "{\"limits\": {\"memory\": \"1G\", \"command\": [\"x\"]}}",
        "{\"limits\": {\"memory\": \"1G\", \"nothing\": 1}}",
        "{\"limits\": {\"memory\": \"1G\", \"pids\": 0}}",
        "{\"limits\": {\"memory\": \"1G\", \"pids\": null}}",
        "{\"limits\": {\"memory\": \"1G\"}, \"limits\": {}}",
    };
    struct brig_spec *before;
    assert_int_equal(brig_spec_new(&before, NULL), 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(read_metadata(*state, rows[i]), -EINVAL);
        assert_true(same_spec(*state, before));
    }
    brig_spec_free(before);
}

static void test_a_copy_has_the_same_values_and_is_its_own(void **state)
{
    struct brig_spec *spec = *state, *copy = NULL;
    set(spec, "memory", "1G", BRIG_FROM_OPTION);
    set(spec, "env", "A=1", BRIG_FROM_OPTION);
    assert_int_equal(brig_spec_copy(spec, &copy, NULL), 0);
    assert_true(same_spec(spec, copy));
    set(copy, "env", "B=2", BRIG_FROM_OPTION);
    assert_false(same_spec(spec, copy));
    brig_spec_free(copy);
}

static void test_the_text_of_a_value(void **state)
{
    static const char *const rows[][2] = {
        {"memory", "2 GiB"}, {"timeout", "30m"}, {"network", "none"}, {"cpu_time", "unlimited"},
        {"workdir", NULL},   {"env", NULL},      {"nothing", NULL}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *text = brig_spec_get(*state, rows[i][0]);
        if (rows[i][1])
            assert_string_equal(text, rows[i][1]);
        else
            assert_null(text);
        brig_free(text);
    }
    set(*state, "workdir", "/work", BRIG_FROM_OPTION);
    char *text = brig_spec_get(*state, "workdir");
    assert_string_equal(text, "/work");
    brig_free(text);
}

static void test_a_limit_can_be_lowered_and_not_raised(void **state)
{
    struct brig_error err;
    char *text;
    set(*state, "timeout", "60s", BRIG_FROM_OPTION);
    assert_int_equal(brig_spec_lower(*state, "timeout", "61", "timeout", &err), -EINVAL);
    assert_string_equal(err.text, "timeout: 1m1s is over the maximum of 1m");
    assert_int_equal(brig_spec_lower(*state, "timeout", "unlimited", "timeout", &err), -EINVAL);
    assert_int_equal(brig_spec_lower(*state, "timeout", "soon", "timeout", &err), -EINVAL);
    assert_int_equal(brig_spec_lower(*state, "network", "host", "network", &err), -EINVAL);
    assert_int_equal(brig_spec_lower(*state, "timeout", "60s", "timeout", &err), 0);
    assert_int_equal(brig_spec_lower(*state, "timeout", "5", "timeout", &err), 0);
    assert_string_equal(text = brig_spec_get(*state, "timeout"), "5s");
    brig_free(text);
    assert_int_equal(brig_spec_lower(*state, "cpu_time", "5", "cpu_time", &err), 0);
    assert_int_equal(brig_spec_lower(*state, "open_files", "50", "open_files", &err), 0);
}

static void test_free_accepts_null(void **state)
{
    brig_spec_free(NULL);
}

/* The default of what goes to others is a default: whatever sets the key wins, before or after. */
static void test_review_u8_sharing_changes_defaults_only(void **state)
{
    static const enum brig_origin origins[] = {BRIG_FROM_SPEC, BRIG_FROM_ENVIRONMENT,
                                               BRIG_FROM_OPTION};
    for (size_t i = 0; i < 2 * COUNT(origins); i++) {
        struct brig_spec *spec;
        assert_int_equal(brig_spec_new(&spec, NULL), 0);
        assert_false(spec_redacts(spec));
        assert_true(spec_hides_words(spec));
        if (i % 2)
            brig_spec_share(spec);
        assert_int_equal(spec_redacts(spec), i % 2);
        assert_int_equal(brig_spec_set(spec, "redact", "off", origins[i / 2], NULL, NULL), 0);
        brig_spec_share(spec);
        assert_false(spec_redacts(spec));
        assert_false(spec_hides_words(spec));
        brig_spec_free(spec);
    }
}

static void test_review_u8_a_pattern_or_a_set_turns_redaction_on(void **state)
{
    static const char *const keys[] = {"redact_pattern", "redact_set"};
    for (size_t i = 0; i < COUNT(keys); i++) {
        struct brig_spec *spec;
        assert_int_equal(brig_spec_new(&spec, NULL), 0);
        assert_int_equal(brig_spec_set(spec, keys[i], "urls", BRIG_FROM_SPEC, NULL, NULL), 0);
        assert_true(spec_redacts(spec));
        brig_spec_free(spec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_review_u8_sharing_changes_defaults_only),
        cmocka_unit_test(test_review_u8_a_pattern_or_a_set_turns_redaction_on),
        spec_test(test_a_new_spec_has_the_defaults_and_nothing_was_asked_for),
        spec_test(test_a_value_replaces_one_of_the_same_or_a_lower_origin),
        spec_test(test_a_value_of_a_lower_origin_is_checked_and_passed_over),
        spec_test(test_metadata_wins_over_a_spec_file_in_either_order),
        spec_test(test_lists_grow_in_the_order_of_the_calls_whatever_their_origin),
        spec_test(test_the_message_names_the_place_and_the_value),
        spec_test(test_the_message_is_safe_to_print),
        spec_test(test_the_message_does_not_cut_a_character),
        spec_test(test_empty_texts_and_nameless_variables_are_refused),
        spec_test(test_a_text_is_bounded_by_what_the_kernel_takes),
        spec_test(test_a_command_replaces_the_earlier_one_and_is_copied),
        spec_test(test_an_empty_command_is_refused_and_the_old_one_stays),
        spec_test(test_only_stdout_and_stderr_have_a_sink),
        spec_test(test_stdin_has_to_be_a_descriptor),
        spec_test(test_json_sets_every_type_of_key),
        spec_test(test_a_map_may_be_a_list_as_on_the_command_line),
        spec_test(test_a_refused_text_changes_nothing),
        spec_test(test_the_message_of_a_member_names_the_file_and_the_key),
        spec_test(test_the_text_is_bounded_to_the_byte),
        spec_test(test_numbers_of_variables_are_written_as_they_stand),
        spec_test(test_a_large_number_of_a_variable_is_not_cut),
        dir_test(test_numbers_do_not_depend_on_the_locale),
        spec_test(test_metadata_is_the_jobs_own_but_for_its_limits),
        spec_test(test_metadata_sets_limits_and_no_other_key),
        spec_test(test_metadata_that_is_refused_changes_nothing),
        spec_test(test_a_copy_has_the_same_values_and_is_its_own),
        spec_test(test_the_text_of_a_value),
        spec_test(test_a_limit_can_be_lowered_and_not_raised),
        cmocka_unit_test(test_free_accepts_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
