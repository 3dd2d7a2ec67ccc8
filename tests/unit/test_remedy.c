/* SPDX-License-Identifier: MIT */
/* lib/remedy.c: what is proposed, by the kernel's settings and by what the process is confined by.
 * The files are a stand-in for /proc: the setting of Ubuntu's kernels is on no test machine. */
#include "lib/plan/remedy.h"

#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

#define USER   "Name:\tx\nCapEff:\t0000000000000000\nSeccomp:\t0\n"
#define ROOT   "Name:\tx\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n"
#define FILTER "Name:\tx\nCapEff:\t0000000000000000\nSeccomp:\t2\n"
#define WHY    "cannot make a user namespace: Operation not permitted"

static char proc[64];

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", proc, name);
    for (char *slash = strchr(path + strlen(proc) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* A host: the restriction of AppArmor, the label and the status of this process. */
static const char *remedy_on(const char *restricted, const char *label, const char *status)
{
    put("sys/kernel/apparmor_restrict_unprivileged_userns", restricted);
    put("self/attr/current", label);
    put("self/status", status);
    return remedy_find(proc, WHY);
}

static int make_proc(void **state)
{
    snprintf(proc, sizeof proc, "/tmp/test_remedy.XXXXXX");
    return mkdtemp(proc) ? 0 : -1;
}

static int remove_proc(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", proc);
    return system(command);
}

static void test_review_u13_apparmor_is_named_with_profile_and_setting(void **state)
{
    const char *fix = remedy_on("1\n", "unconfined\n", USER);
    assert_non_null(strstr(fix, "AppArmor"));
    assert_non_null(strstr(fix, "profile"));
    assert_non_null(strstr(fix, "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"));
}

static void test_review_u13_apparmor_is_not_blamed_where_it_restricts_nothing(void **state)
{
    static const struct {
        const char *restricted, *label, *status;
    } rows[] = {
        {"0\n", "unconfined\n", USER},
        {"1\n", "unconfined\n", ROOT},
        {"1\n", "unconfined\n", FILTER},
        {"1\n", "brig (unconfined)\n", USER},
        {"1\n", "docker-default (enforce)\n", USER},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_null(strstr(remedy_on(rows[i].restricted, rows[i].label, rows[i].status),
                           "apparmor_restrict"));
}

static void test_settings_of_other_kernels(void **state)
{
    put("sys/kernel/unprivileged_userns_clone", "0\n");
    assert_string_equal(remedy_on("0\n", "", USER), "sysctl -w kernel.unprivileged_userns_clone=1");
    assert_null(strstr(remedy_on("0\n", "", ROOT), "unprivileged_userns_clone"));
    put("sys/user/max_user_namespaces", "0\n");
    assert_string_equal(remedy_on("0\n", "", ROOT), "sysctl -w user.max_user_namespaces=15000");
}

static void test_review_u10_a_filter_is_blamed_only_where_there_is_one(void **state)
{
    assert_non_null(strstr(remedy_on("0\n", "", FILTER), "seccomp"));
    assert_null(strstr(remedy_on("0\n", "", USER), "seccomp"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_review_u13_apparmor_is_named_with_profile_and_setting,
                                        make_proc, remove_proc),
        cmocka_unit_test_setup_teardown(
            test_review_u13_apparmor_is_not_blamed_where_it_restricts_nothing, make_proc,
            remove_proc),
        cmocka_unit_test_setup_teardown(test_settings_of_other_kernels, make_proc, remove_proc),
        cmocka_unit_test_setup_teardown(test_review_u10_a_filter_is_blamed_only_where_there_is_one,
                                        make_proc, remove_proc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
