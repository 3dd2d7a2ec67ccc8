/* SPDX-License-Identifier: MIT */
/* The event loop: client input, client output, signals and runs. */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"

#define STAGE       "mcp"
#define LINES_MAX   256      /* handled in a row before the runs are polled again */
#define LAST_NS     NS_PER_S /* for the client to read the last answers */
#define FIRST_POLLS 3        /* in, out, signals */
#define POLLS_MAX   (FIRST_POLLS + 2 * MCP_RUNS_MAX)

/* ---- input from the client ------------------------------------------------------------------- */

/* Returns true if unread lines may be left in the buffer. */
static bool read_lines(struct server *server)
{
    struct wire *wire = &server->wire;
    for (int i = 0; i < LINES_MAX && !wire_is_full(wire); i++) {
        const char *text;
        size_t len;
        enum wire_line line = wire_next(wire, &text, &len);
        if (line == WIRE_LINE)
            server_message(server, text, len);
        else if (line == WIRE_TOO_LONG)
            rpc_error(wire, NULL, RPC_INVALID, "a line is longer than 8 MiB", NULL);
        else if (wire->at == wire->len)
            return false;
    }
    return true;
}

/* ---- waiting --------------------------------------------------------------------------------- */

struct polls {
    struct pollfd fds[POLLS_MAX];
    struct run *runs[POLLS_MAX];
    nfds_t count;
};

static void add_poll(struct polls *polls, int fd, short events, struct run *run)
{
    if (polls->count == POLLS_MAX)
        return;
    polls->fds[polls->count] = (struct pollfd){.fd = fd, .events = events};
    polls->runs[polls->count++] = run;
}

static void collect(struct server *server, struct polls *polls)
{
    const struct wire *wire = &server->wire;
    bool full = wire_is_full(wire);
    polls->count = 0;
    add_poll(polls, wire->in, full ? POLLRDHUP : POLLIN, NULL);
    add_poll(polls, wire->out.fd, wire->queue.len ? POLLOUT : 0, NULL);
    add_poll(polls, server->options->signals, POLLIN, NULL);
    for (struct run *run = server->runs; run; run = run->next) {
        if (run->over)
            continue;
        add_poll(polls, brig_run_fd(run->run), POLLIN, run);
        if (run->input.write_end >= 0 && run->input.pending.len)
            add_poll(polls, run->input.write_end, POLLOUT, run);
    }
}

static int timeout_ms(const struct server *server, bool more)
{
    uint64_t next = runs_next(server), now = clock_now();
    if ((more && !wire_is_full(&server->wire)) || next <= now)
        return 0;
    if (next == UINT64_MAX)
        return server->kept ? 60000 : -1; /* old runs are dropped then */
    return (int)((next - now) / NS_PER_MS) + 1;
}

static void look_at_client(struct server *server, const struct pollfd *fds, bool more)
{
    struct wire *wire = &server->wire;
    if (fds[0].revents && fds[0].events == POLLIN && !more)
        wire_fill(wire);
    else if (fds[0].revents & (POLLHUP | POLLRDHUP | POLLERR) && fds[0].events != POLLIN)
        wire->ended = true; /* the client is gone, and its unread requests do not matter */
    if (fds[1].revents & (POLLERR | POLLHUP | POLLNVAL))
        wire->ended = true;
    if (fds[2].revents)
        wire->ended = true;
}

static void serve(struct server *server)
{
    static struct polls polls; /* large; there is one server in a process */
    bool more = false;
    while (!server->wire.ended) {
        collect(server, &polls);
        if (poll(polls.fds, polls.count, timeout_ms(server, more)) < 0) {
            for (nfds_t i = 0; i < polls.count; i++)
                polls.fds[i].revents = 0;
            if (errno != EINTR)
                clock_sleep(
                    10 * NS_PER_MS); /* for example for want of memory: poll again after a pause */
        }
        look_at_client(server, polls.fds, more);
        for (nfds_t i = FIRST_POLLS; i < polls.count; i++) {
            if (!polls.fds[i].revents)
                continue;
            if (polls.fds[i].events == POLLOUT)
                input_flush(&polls.runs[i]->input);
            else
                runs_step(server, polls.runs[i]);
        }
        more = read_lines(server);
        runs_answer(server);
        wire_flush(&server->wire);
    }
}

/* ---- begin and end --------------------------------------------------------------------------- */

/* Refuse a tool with the name of a built-in one. It may be meant as a narrower replacement, but the
 * agent would get the built-in tool. */
static int check_names(const struct brig_tools *tools, struct brig_error *err)
{
    for (size_t i = 0; tools && i < brig_tools_count(tools); i++) {
        const char *name = brig_tools_get(tools, i)->name;
        if (builtin_has(name))
            return error_usage(err, STAGE,
                               "--tools: tool %s: is the name of a built-in tool; use another name",
                               name);
    }
    return 0;
}

static int prepare(struct server *server, struct brig_error *err)
{
    int ret = check_names(server->options->tools, err);
    if (ret < 0)
        return ret;
    char *workdir = brig_spec_get(server->options->spec, "workdir");
    char *network = brig_spec_get(server->options->spec, "network");
    server->workdir = realpath(workdir ? workdir : ".", NULL);
    int missing = server->workdir ? 0 : errno;
    server->network = network && strcmp(network, "none") != 0;
    if (missing)
        error_usage(err, STAGE, "--workdir: %.200s: %s", workdir ? workdir : ".",
                    error_text(missing));
    brig_free(workdir);
    brig_free(network);
    if (missing)
        return -missing;
    server->null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    ret = server->null < 0 ? -errno : wire_open(&server->wire, STDIN_FILENO, STDOUT_FILENO);
    return ret < 0 ? error_system(err, STAGE, -ret, "stdout: %s", error_text(-ret)) : 0;
}

/* Let the client read the answers that are still queued. */
static void last_words(struct server *server)
{
    uint64_t until = clock_now() + LAST_NS;
    struct wire *wire = &server->wire;
    wire->ended = false;
    wire_flush(wire);
    while (wire->queue.len && !wire->ended && clock_now() < until) {
        struct pollfd ready = {.fd = wire->out.fd, .events = POLLOUT};
        poll(&ready, 1, 50);
        wire_flush(wire);
    }
}

int mcp_serve(const struct mcp_options *options, struct mcp_counts *counts, struct brig_error *err)
{
    struct server server = {.options = options, .null = -1, .wire = {.out = {.fd = -1}}};
    int ret = prepare(&server, err);
    if (ret == 0)
        serve(&server);
    runs_done(&server);
    brig_close(server.brig);
    if (ret == 0)
        last_words(&server);
    wire_close(&server.wire);
    fd_close_at(&server.null);
    free(server.workdir);
    *counts = server.counts;
    return ret;
}
