/* SPDX-License-Identifier: MIT */
/* lib/cell/base_mounts.c: what is the same for many runs is kept from the second on, for as long as
 * it would be made the same again, and no run finds anything of another in it. */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "brig.h"
#include "directory.h"
#include "lib/plan/host.h"

struct bench {
    struct brig *brig;
    struct dir *dir;
};

/* In a mount namespace of its own, so that mounts of other tests do not count as changes. */
static int start(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    void *dir = NULL;
    if (geteuid() == 0 &&
        (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0))
        return -1;
    if (!b || dir_setup(&dir) < 0 || brig_open(&b->brig, NULL) < 0)
        return -1;
    b->dir = dir;
    *state = b;
    alarm(120);
    return 0;
}

static int end(void **state)
{
    struct bench *b = *state;
    brig_close(b->brig);
    assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
    assert_int_equal(errno, ECHILD);
    void *dir = b->dir;
    dir_teardown(&dir);
    free(b);
    alarm(0);
    return 0;
}

/* Run a script to its end; `out` gets what it printed. */
static void run(struct bench *b, const char *option, const char *value, const char *script,
                char *out, size_t size)
{
    const char *argv[] = {"sh", "-c", script};
    struct brig_error err = {0};
    struct brig_spec *spec = NULL;
    struct brig_run *run = NULL;
    assert_int_equal(brig_spec_new(&spec, NULL), 0);
    assert_int_equal(brig_spec_set_command(spec, argv, 3, NULL), 0);
    assert_int_equal(brig_spec_set_sink(spec, BRIG_STDOUT, BRIG_SINK_CAPTURE, -1, NULL), 0);
    assert_int_equal(brig_spec_set(spec, "workdir", b->dir->path, BRIG_FROM_OPTION, NULL, NULL), 0);
    if (option)
        assert_int_equal(brig_spec_set(spec, option, value, BRIG_FROM_OPTION, NULL, NULL), 0);
    if (brig_start(b->brig, spec, &run, &err) < 0)
        fail_msg("%s", err.text);
    brig_spec_free(spec);
    assert_int_equal(brig_run_wait(run, -1), 1);
    const struct brig_result *result = brig_run_result(run);
    assert_int_equal(result->status, BRIG_EXITED);
    snprintf(out, size, "%.*s", (int)result->out.len,
             result->out.data ? (const char *)result->out.data : "");
    brig_run_free(run);
}

static void run_some(struct bench *b, int count)
{
    char out[16];
    for (int i = 0; i < count; i++)
        run(b, NULL, NULL, "true", out, sizeof out);
}

/* Which namespace is kept, or 0. */
static ino_t kept(const struct bench *b)
{
    struct stat st = {0};
    return b->brig->base_mounts_cache.mounts >= 0 &&
                   fstat(b->brig->base_mounts_cache.mounts, &st) == 0
               ? st.st_ino
               : 0;
}

/* When it was made: the number of a namespace is given again when it is gone. */
static uint64_t made_at(const struct bench *b)
{
    return kept(b) ? b->brig->base_mounts_cache.made_at : 0;
}

static void test_it_is_kept_from_the_second_run_on(void **state)
{
    struct bench *b = *state;
    run_some(b, 1);
    assert_int_equal(kept(b), 0);
    run_some(b, 1);
    ino_t first = kept(b);
    assert_int_not_equal(first, 0);
    run_some(b, 3);
    assert_int_equal(kept(b), first);
}

static void test_no_run_finds_anything_of_another(void **state)
{
    static const char script[] =
        "find / -xdev -name mark; find /dev /etc /tmp /run /var ~ . -name mark 2>/dev/null;"
        "for f in / /dev /etc /run /var /tmp /dev/shm ~ /home; do touch $f/mark; mkdir "
        "$f/more.mark;"
        "done 2>/dev/null; echo x >>/etc/passwd; chmod 777 /dev/null /etc; rm -rf /etc/passwd "
        "/dev/null;"
        "ln -sf /tmp /etc/hosts; mount -o remount,rw /; test -c /dev/null && grep -c brig "
        "/etc/passwd";
    struct bench *b = *state;
    char out[4096];
    for (int i = 0; i < 5; i++) {
        run(b, NULL, NULL, script, out, sizeof out);
        assert_string_equal(out, "1\n");
    }
}

static void test_each_run_has_its_own_copy(void **state)
{
    struct bench *b = *state;
    char first[64], second[64];
    run_some(b, 2);
    run(b, NULL, NULL, "readlink /proc/self/ns/mnt", first, sizeof first);
    run(b, NULL, NULL, "readlink /proc/self/ns/mnt", second, sizeof second);
    assert_string_not_equal(first, "");
    char own[64];
    snprintf(own, sizeof own, "mnt:[%lu]\n", (unsigned long)kept(b));
    assert_string_not_equal(first, own);
    assert_string_not_equal(second, own);
}

static void test_other_dirs_need_another(void **state)
{
    struct bench *b = *state;
    char out[64];
    run_some(b, 3);
    ino_t first = kept(b);
    run(b, "tmpfs", "/elsewhere:64K", "ls -d /elsewhere", out, sizeof out);
    assert_string_equal(out, "/elsewhere\n");
    run(b, NULL, NULL, "ls -d /elsewhere 2>/dev/null", out, sizeof out);
    assert_string_equal(out, "");
    assert_int_equal(kept(b), first);
}

static void test_a_mount_of_the_host_makes_a_new_one(void **state)
{
    struct bench *b = *state;
    char out[64];
    run_some(b, 3);
    uint64_t first = made_at(b);
    assert_int_equal(mount("none", "/usr/local", "tmpfs", 0, NULL), 0);
    assert_int_equal(mkdir("/usr/local/fresh", 0755), 0);
    run(b, NULL, NULL, "ls /usr/local", out, sizeof out);
    assert_string_equal(out, "fresh\n");
    assert_int_not_equal(made_at(b), first);
    assert_int_equal(umount("/usr/local"), 0);
    run(b, NULL, NULL, "ls -d /usr/local/fresh 2>/dev/null", out, sizeof out);
    assert_string_equal(out, "");
}

static void test_another_mount_namespace_of_the_host_makes_a_new_one(void **state)
{
    struct bench *b = *state;
    run_some(b, 3);
    uint64_t first = made_at(b);
    assert_int_equal(unshare(CLONE_NEWNS), 0);
    run_some(b, 1);
    assert_int_not_equal(made_at(b), 0);
    assert_int_not_equal(made_at(b), first);
}

/* A file that the view has and that every release of Debian has; trixie has no /etc/timezone. */
#define SYSTEM_FILE "/etc/ld.so.conf"

static void test_review_f2_a_changed_file_of_the_system_makes_a_new_one(void **state)
{
    struct bench *b = *state;
    char out[64];
    const char *path = dir_path(b->dir, "system-file");
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, "One\n", 4), 4);
    assert_int_equal(mount(path, SYSTEM_FILE, NULL, MS_BIND, NULL), 0);
    run_some(b, 3);
    uint64_t first = made_at(b);
    assert_int_equal(pwrite(fd, "Two\n", 4, 0), 4);
    close(fd);
    run(b, NULL, NULL, "cat " SYSTEM_FILE, out, sizeof out);
    assert_string_equal(out, "Two\n");
    assert_int_equal(made_at(b), first); /* once may be an exception */
    run(b, NULL, NULL, "cat " SYSTEM_FILE, out, sizeof out);
    assert_string_equal(out, "Two\n");
    assert_int_not_equal(made_at(b), first);
    assert_int_equal(umount(SYSTEM_FILE), 0);
}

static void test_a_fork_makes_its_own(void **state)
{
    struct bench *b = *state;
    run_some(b, 3);
    ino_t first = kept(b);
    pid_t pid = fork();
    if (pid == 0) {
        run_some(b, 3);
        _exit(kept(b) != 0 && kept(b) != first ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    run_some(b, 1);
    assert_int_equal(kept(b), first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_is_kept_from_the_second_run_on, start, end),
        cmocka_unit_test_setup_teardown(test_no_run_finds_anything_of_another, start, end),
        cmocka_unit_test_setup_teardown(test_each_run_has_its_own_copy, start, end),
        cmocka_unit_test_setup_teardown(test_other_dirs_need_another, start, end),
        cmocka_unit_test_setup_teardown(test_a_mount_of_the_host_makes_a_new_one, start, end),
        cmocka_unit_test_setup_teardown(test_another_mount_namespace_of_the_host_makes_a_new_one,
                                        start, end),
        cmocka_unit_test_setup_teardown(test_review_f2_a_changed_file_of_the_system_makes_a_new_one,
                                        start, end),
        cmocka_unit_test_setup_teardown(test_a_fork_makes_its_own, start, end),
    };
    if (geteuid() != 0) { /* an ordinary user has no rights over a namespace once it is left */
        printf(
            "1..0 # SKIP optional: needs root: nobody else keeps the base mounts of its cells\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
