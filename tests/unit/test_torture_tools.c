/* SPDX-License-Identifier: MIT */
/* Every allocation fails once, in the reading of tools and in a call of one. */
#include <sys/wait.h>

#include "torture.h"

static const char file[] =
    "{\"defaults\": {\"pids\": 20, \"workdir\": \"/tmp\", \"env\": {\"A\": \"1\"}}, \"tools\": "
    "[{\"name\": \"a\","
    " \"description\": \"x\", \"command\": [\"sh\", \"-c\", \"cat >&2; echo token=abc123def456;"
    " printf '38\\n{%sstatus%s:%ssuccess%s,%soutput%s:[1,2,3] }' '\\\"' '\\\"' '\\\"' '\\\"' "
    "'\\\"' '\\\"' >&3\"],"
    " \"input_schema\": {\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"integer\"}}},"
    " \"annotations\": {\"x\": [1]}}]}";

static int read_tools(struct scene *scene)
{
    struct brig_tools *tools = (struct brig_tools *)scene;
    arm();
    int ret = brig_tools_read(&tools, file, sizeof file - 1, "tools.json", &scene->err);
    disarm();
    if (ret < 0)
        assert_ptr_equal(tools, scene);
    else
        brig_tools_free(tools);
    return ret;
}

static void test_a_tools_file(void **state)
{
    run_all(*state, read_tools, 40);
}

/* Not started, and nothing left of it; or an answer, which says that it is none if it is not whole.
 */
static int call_tool(struct scene *scene)
{
    struct brig_tools *tools = NULL;
    struct brig *brig = NULL;
    struct brig_call *call = NULL;
    char *json = NULL;
    size_t len = 0;
    assert_int_equal(brig_tools_read(&tools, file, sizeof file - 1, "tools.json", NULL), 0);
    assert_int_equal(brig_open(&brig, NULL), 0);
    arm();
    int ret = brig_call_start(brig, tools, "a", "{\"n\": 1}", 8, NULL, &call, &scene->err);
    if (ret == 0) {
        assert_int_equal(brig_run_wait(brig_call_run(call), 30000), 1);
        ret = brig_call_json(call, &json, &len, &scene->err);
    }
    disarm();
    if (ret == 0 && torture.failed) { /* something that a run can go without: output, notes */
        const struct brig_result *result = brig_run_result(brig_call_run(call));
        const struct brig_answer *answer = brig_call_answer(call);
        assert_true(result->out.truncated || result->err.truncated || !answer->ok);
        ret = error_memory(&scene->err, "test");
    } else if (ret == 0) {
        assert_true(brig_call_answer(call)->ok);
        assert_null(strstr(json, "abc123def456"));
    }
    brig_free(json);
    brig_call_free(call);
    brig_close(brig);
    brig_tools_free(tools);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    return ret;
}

static void test_a_whole_call(void **state)
{
    run_all(*state, call_tool, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        torture_test(test_a_tools_file),
        torture_test(test_a_whole_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
