/* lib/operator.c: a file of root's own that is wrong is refused whole and in safe words; what is
 * accepted sets limits only. Needs root, like the file. */
#include "lib/spec/operator.h"

#include <fcntl.h>
#include <unistd.h>

#include "target.h"

static char folder[64], path[80];
static int file = -1;

static void remove_file(void)
{
    unlink(path);
    rmdir(folder);
}

static void make_file(void)
{
    snprintf(folder, sizeof folder, "/dev/shm/brig-fuzz.XXXXXX"); /* memory, where there is some */
    if (!mkdtemp(folder)) {
        snprintf(folder, sizeof folder, "/tmp/brig-fuzz.XXXXXX");
        ensure(mkdtemp(folder));
    }
    snprintf(path, sizeof path, "%s/limits.json", folder);
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
    ensure(maximum > 0);
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
        ensure(key_table[i].limit || limits.maximum[i] == BRIG_UNLIMITED);
        check_applied(&limits, (enum key)i);
    }
    return 0;
}
