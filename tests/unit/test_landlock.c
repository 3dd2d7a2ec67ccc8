/* SPDX-License-Identifier: MIT */
/* lib/landlock.c: the rules of every version, from 1 to the kernel's own, are taken by the kernel
 * and hold what that version can hold. Each runs in a child, because a ruleset is for good. */
#include "lib/cell/landlock.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "child/protocol.h"
#include "directory.h"

struct place {
    char writable[128], inside[160], moved[192], outside[128];
};

static bool can_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static long enforce(const struct place *place, int version)
{
    static struct view view; /* too large for a stack */
    uint32_t failed = 0;
    landlock_add_host_rules(&view, version, NULL, place->writable);
    long ret = cell_run(view.ops, view.count, CELL_PART_RUN, NULL, &failed);
    strings_done(&view.text);
    if (ret < 0)
        return ret;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return syscall(SYS_landlock_restrict_self, SLOT_RULES, 0) < 0 ? -errno : 0;
}

/* 0, or the line of what is not as this version has it. */
static int look(const struct place *place, int version)
{
#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return __LINE__;                                                                       \
    } while (0)
    pid_t parent = getppid();
    EXPECT(enforce(place, version) == 0);
    EXPECT(can_open("/etc/passwd", O_RDONLY));
    EXPECT(can_open("/usr", O_RDONLY | O_DIRECTORY));
    EXPECT(can_open("/dev/null", O_WRONLY));
    EXPECT(can_open(place->inside, O_RDWR | O_CREAT));
    EXPECT(!can_open("/", O_RDONLY | O_DIRECTORY) && errno == EACCES);
    EXPECT(!can_open(place->outside, O_RDONLY) && errno == EACCES);
    EXPECT(!can_open(place->outside, O_WRONLY) && errno == EACCES);
    EXPECT(unlink(place->outside) < 0 && errno == EACCES);
    /* Between directories: never in version 1, with the right to both from 2 on. */
    EXPECT((rename(place->inside, place->moved) == 0) == (version >= 2));
    EXPECT((truncate(place->outside, 1) == 0) == (version < 3));
    EXPECT((kill(parent, 0) == 0) == (version < 6));
    return 0;
#undef EXPECT
}

static void test_every_version_holds(void **state)
{
    struct dir *dir = *state;
    struct place place;
    int newest = landlock_version();
    assert_true(newest >= 1);
    snprintf(place.writable, sizeof place.writable, "%s", dir_path(dir, "writable"));
    snprintf(place.inside, sizeof place.inside, "%s/file", place.writable);
    snprintf(place.moved, sizeof place.moved, "%s/below/file", place.writable);
    assert_int_equal(mkdirat(dir->fd, "writable", 0700), 0);
    assert_int_equal(mkdirat(dir->fd, "writable/below", 0700), 0);
    for (int version = 1; version <= newest; version++) {
        int status = 0;
        snprintf(place.outside, sizeof place.outside, "%s",
                 dir_text(dir, "outside", "not yours", 0600));
        pid_t pid = fork();
        if (pid == 0) {
            int line = look(&place, version);
            if (line)
                fprintf(stderr, "version %d: line %d: errno %d\n", version, line, errno);
            _exit(line != 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        unlink(place.inside);
        unlink(place.moved);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {dir_test(test_every_version_holds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
