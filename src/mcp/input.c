/* SPDX-License-Identifier: MIT */
/* The stdin of a guest: fixed bytes, or a pipe that stays open. The server never waits for a guest
 * to read. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/writer.h"
#include "server.h"

#define STAGE "stdin"

int input_open(struct input *input, struct brig_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_system(err, STAGE, errno, "pipe: %s", error_text(errno));
    input->read_end = ends[0];
    input->write_end = ends[1];
    fcntl(input->write_end, F_SETFL,
          O_NONBLOCK); /* safe: no other process shares the flags of our own pipe */
    return 0;
}

int input_add(struct input *input, const char *data, size_t len, struct brig_error *err)
{
    size_t waiting = input->pending.len - input->at;
    if (input->write_end < 0 || input->closing)
        return error_refused(err, STAGE, "stdin of this run is closed");
    if (len > STDIN_MAX - waiting)
        return error_refused(err, STAGE,
                             "data: %zu bytes do not fit into the %zu that are free: the run has "
                             "not read the earlier input yet; send less, or try again later",
                             len, STDIN_MAX - waiting);
    buf_add(&input->pending, data, len);
    return buf_failed(&input->pending) ? error_memory(err, STAGE) : 0;
}

void input_flush(struct input *input)
{
    while (input->write_end >= 0 && input->at < input->pending.len) {
        ssize_t n = writer_quiet_write(input->write_end, input->pending.data + input->at,
                                       input->pending.len - input->at);
        if (n <= 0)
            break; /* cannot fail with EPIPE: we hold the read end */
        input->at += (size_t)n;
    }
    if (input->at == input->pending.len) {
        buf_done(&input->pending);
        input->at = 0;
        if (input->closing)
            fd_close_at(&input->write_end);
    } else if (input->at > input->pending.len / 2) {
        memmove(input->pending.data, input->pending.data + input->at,
                input->pending.len - input->at);
        input->pending.len -= input->at;
        input->at = 0;
    }
}

void input_done(struct input *input)
{
    fd_close_at(&input->read_end);
    fd_close_at(&input->write_end);
    buf_done(&input->pending);
}

int input_file(const char *const *texts, const size_t *lens, size_t count, int *fd,
               struct brig_error *err)
{
    autofd file = memfd_create("brig-stdin", MFD_CLOEXEC);
    off_t at = 0;
    if (file < 0)
        return error_system(err, STAGE, errno, "memfd_create: %s", error_text(errno));
    for (size_t i = 0; i < count; i++) {
        for (size_t done = 0; done < lens[i];) {
            ssize_t n = pwrite(file, texts[i] + done, lens[i] - done, at);
            if (n < 0 && errno != EINTR)
                return error_system(err, STAGE, errno, "stdin: %s", error_text(errno));
            done += n > 0 ? (size_t)n : 0;
            at += n > 0 ? n : 0;
        }
    }
    *fd = take_fd(&file);
    return 0;
}
