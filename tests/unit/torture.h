/* SPDX-License-Identifier: MIT */
/* The driver of the torture tests: every allocation fails once. In the manner of curl's.
 *
 * The linker sends every allocation of the library and of the test through the functions below
 * (--wrap, see meson.build). A scenario runs again and again, with the first, the second, ... of
 * its allocations failing, until it comes to its end without one. Each is run twice: with only that
 * one failing, and with all that follow failing as well. */
#ifndef UNIT_TORTURE_H
#define UNIT_TORTURE_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "directory.h"
#include "lib/plan/host.h"
#include "lib/spec/spec.h"
#include "same_spec.h"

/* ---- allocations --------------------------------------------------------------------------- */

static struct {
    bool armed, lasting, failed;
    unsigned long count, fail_at;
} torture;

static bool fails(void)
{
    if (!torture.armed)
        return false;
    torture.count++;
    if (torture.count < torture.fail_at || (torture.count > torture.fail_at && !torture.lasting))
        return false;
    torture.failed = true;
    errno = ENOMEM;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t len);
char *__real_getcwd(char *out, size_t size);
char *__real_realpath(const char *path, char *out);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);
char *__wrap_getcwd(char *out, size_t size);
char *__wrap_realpath(const char *path, char *out);
int __wrap_asprintf(char **out, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap___asprintf_chk(char **out, int flag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t len)
{
    return fails() ? NULL : __real_strndup(text, len);
}

char *__wrap_getcwd(char *out, size_t size)
{
    return !out && fails() ? NULL : __real_getcwd(out, size);
}

char *__wrap_realpath(const char *path, char *out)
{
    return !out && fails() ? NULL : __real_realpath(path, out);
}

/* What *out holds after a failure is undefined: make it as bad as it can be. */
__attribute__((format(printf, 2, 0))) static int format_new(char **out, const char *format,
                                                            va_list args)
{
    if (!fails())
        return vasprintf(out, format, args);
    *out = (char *)(uintptr_t)1;
    return -1;
}

int __wrap_asprintf(char **out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = format_new(out, format, args);
    va_end(args);
    return n;
}

int __wrap___asprintf_chk(char **out, int flag, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = format_new(out, format, args);
    va_end(args);
    return n;
}

/* ---- the driver ---------------------------------------------------------------------------- */

struct scene {
    struct dir *dir;
    struct brig brig;       /* made up, without groups */
    struct brig_spec *spec; /* with something in it, and a second one that is the same */
    struct brig_spec *twin;
    struct brig_error err;
};

/* Returns 0 or a negative errno, and itself asserts what has to hold after a failure. Allocations
 * fail between arm() and disarm() only. */
typedef int scenario_function(struct scene *scene);

static void arm(void)
{
    torture.armed = true;
}

static void disarm(void)
{
    torture.armed = false;
}

static int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static struct brig_spec *new_spec(void)
{
    static const char *const command[] = {"true", "old"};
    struct brig_spec *spec;
    assert_int_equal(brig_spec_new(&spec, NULL), 0);
    assert_int_equal(brig_spec_set_command(spec, command, 2, NULL), 0);
    assert_int_equal(brig_spec_set(spec, "workdir", "/tmp", BRIG_FROM_SPEC, NULL, NULL), 0);
    assert_int_equal(brig_spec_set(spec, "labels", "old=1", BRIG_FROM_SPEC, NULL, NULL), 0);
    assert_int_equal(brig_spec_set(spec, "env", "OLD=1", BRIG_FROM_SPEC, NULL, NULL), 0);
    return spec;
}

static int start(void **state)
{
    struct scene *scene = calloc(1, sizeof *scene);
    if (!scene || dir_setup((void **)&scene->dir) < 0)
        return -1;
    scene->brig.init = scene->brig.pidfd = scene->brig.place.leaf_parent = -1;
    scene->brig.pid = getpid();
    for (int i = 0; i < KEY_COUNT; i++)
        scene->brig.maxima.maximum[i] = BRIG_UNLIMITED;
    *state = scene;
    return 0;
}

static int end(void **state)
{
    struct scene *scene = *state;
    disarm();
    dir_teardown((void **)&scene->dir);
    free(scene);
    return 0;
}

#define torture_test(test) cmocka_unit_test_setup_teardown(test, start, end)

/* One run of a scenario with its n-th allocation failing. Returns true if it got that far. */
static bool run_once(struct scene *scene, scenario_function *scenario, unsigned long n,
                     bool lasting)
{
    int before = count_fds();
    scene->spec = new_spec();
    scene->twin = new_spec();
    scene->err = (struct brig_error){0};
    torture.count = 0;
    torture.fail_at = n;
    torture.lasting = lasting;
    torture.failed = false;
    int ret = scenario(scene);
    disarm();
    if (torture.failed && ret >= 0)
        fail_msg("allocation %lu failed and nobody said so", n);
    if (torture.failed && (scene->err.fault == BRIG_FAULT_NONE || !scene->err.text[0]))
        fail_msg("allocation %lu failed and the error is empty", n);
    if (!torture.failed && ret < 0)
        fail_msg("nothing failed and it said: %s", scene->err.text);
    brig_spec_free(scene->spec);
    brig_spec_free(scene->twin);
    assert_int_equal(count_fds(), before);
    return torture.failed;
}

static void run_all(struct scene *scene, scenario_function *scenario, unsigned long least)
{
    for (int lasting = 0; lasting < 2; lasting++) {
        unsigned long n = 1;
        while (run_once(scene, scenario, n, lasting))
            n++;
        assert_true(n - 1 >= least); /* or the allocations are not seen at all */
    }
}

#endif
