/* SPDX-License-Identifier: MIT */
/* lib/operator.c: an invalid operator file is refused as a whole, with a printable message; an
 * accepted one sets only limits and the isolation. Needs root, because the file must belong to
 * root. */
#include "lib/spec/operator.h"

#include <fcntl.h>
#include <unistd.h>

#include "target.h"

static char dir[64], path[80];
static int file = -1;

static void remove_file(void)
{
    unlink(path);
    rmdir(dir);
}

static void make_file(void)
{
    snprintf(dir, sizeof dir, "/dev/shm/brig-fuzz.XXXXXX"); /* in memory, if possible */
    if (!mkdtemp(dir)) {
        snprintf(dir, sizeof dir, "/tmp/brig-fuzz.XXXXXX");
        ensure(mkdtemp(dir));
    }
    snprintf(path, sizeof path, "%s/limits.json", dir);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ensure(file >= 0);
    atexit(remove_file);
}

static void check_applied(const struct operator_limits *limits, enum key key)
{
    uint64_t maximum = limits->maximum[key], out = 7;
    struct brig_error err = {0};
    ensure(operator_apply(limits, key, maximum, true, &out, NULL) == 0 && out == maximum);
    if (maximum == BRIG_UNLIMITED)
        return;
    ensure(maximum > 0 || key == KEY_ISOLATION); /* its first choice, a cell */
    ensure(operator_apply(limits, key, maximum + 1, false, &out, NULL) == 0 && out == maximum);
    out = 7;
    ensure(operator_apply(limits, key, maximum + 1, true, &out, &err) < 0 && out == 7);
    ensure(err.fault == BRIG_FAULT_REFUSED && is_printable(err.text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct operator_limits limits, before;
    struct brig_error err = {0};
    if (geteuid() != 0)
        return 0;
    if (file < 0)
        make_file();
    ensure(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
    memset(&limits, 0x55, sizeof limits);
    before = limits;
    if (operator_read(&limits, path, &err) < 0) {
        ensure(memcmp(&limits, &before, sizeof limits) == 0);
        ensure(err.fault == BRIG_FAULT_REFUSED || err.fault == BRIG_FAULT_SYSTEM);
        ensure(err.text[0] && is_printable(err.text));
        return 0;
    }
    for (int i = 0; i < KEY_COUNT; i++) {
        bool bounded = key_table[i].limit || i == KEY_ISOLATION;
        ensure(bounded || limits.maximum[i] == BRIG_UNLIMITED);
        check_applied(&limits, (enum key)i);
    }
    return 0;
}
