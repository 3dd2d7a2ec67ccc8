/* SPDX-License-Identifier: MIT */
/* Run: stepping, waiting, cancelling, and its result. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "_brig.h"

/* The interval at which a wait checks for signals: one may arrive just before poll(). */
#define SLICE_MS   100
#define EVENTS_MAX 64 /* per step; the library makes fewer */

/* ---- all runs, for forks ------------------------------------------------------------------- */

static pthread_mutex_t runs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct run *runs;

static void runs_add(struct run *self)
{
    pthread_mutex_lock(&runs_lock);
    self->next = runs;
    if (runs)
        runs->previous = self;
    runs = self;
    pthread_mutex_unlock(&runs_lock);
}

static void runs_remove(struct run *self)
{
    pthread_mutex_lock(&runs_lock);
    if (self->next)
        self->next->previous = self->previous;
    if (self->previous)
        self->previous->next = self->next;
    else if (runs == self)
        runs = self->next;
    self->next = self->previous = NULL;
    pthread_mutex_unlock(&runs_lock);
}

void runs_before_fork(void)
{
    pthread_mutex_lock(&runs_lock);
    for (struct run *run = runs; run; run = run->next)
        pthread_mutex_lock(&run->lock);
}

void runs_after_fork_here(void)
{
    for (struct run *run = runs; run; run = run->next)
        pthread_mutex_unlock(&run->lock);
    pthread_mutex_unlock(&runs_lock);
}

/* The fork must close its copies of file descriptors: they would keep the guest's stdin open. */
void runs_after_fork_there(void)
{
    for (struct run *run = runs; run; run = run->next) {
        brig_run_free(run->run);
        run->run = NULL;
        if (run->input >= 0)
            close(run->input);
        run->input = -1;
    }
    runs = NULL;
    pthread_mutex_init(&runs_lock, NULL);
}

/* ---- one run ------------------------------------------------------------------------------- */

struct run *run_new(PyObject *type, struct host *host)
{
    struct run *self = (struct run *)PyType_GenericAlloc((PyTypeObject *)type, 0);
    if (!self)
        return NULL;
    pthread_mutex_init(&self->lock, NULL);
    Py_INCREF((PyObject *)host);
    self->host = host;
    host->runs++;
    self->input = -1;
    self->pid = getpid();
    return self;
}

void run_fill(struct run *self, struct brig_run *run, int input)
{
    self->run = run;
    self->input = input;
    runs_add(self);
}

/* False in a fork of the process that started the run; the fork's copy is freed. */
static bool is_ours(const struct run *self)
{
    char text[120];
    if (self->pid == getpid())
        return true;
    PyOS_snprintf(text, sizeof text, "the run belongs to process %d, of which this one is a fork",
                  (int)self->pid);
    raise_usage(text);
    return false;
}

/* ---- end ----------------------------------------------------------------------------------- */

static void close_run(struct run *self)
{
    if (self->pid != getpid())
        return;
    PyThreadState *gil = PyEval_SaveThread();
    runs_remove(self);
    pthread_mutex_lock(&self->lock);
    brig_run_free(self->run);
    self->run = NULL;
    if (self->input >= 0)
        close(self->input);
    self->input = -1;
    pthread_mutex_unlock(&self->lock);
    PyEval_RestoreThread(gil);
    if (self->host)
        self->host->runs--;
    Py_CLEAR(self->host);
}

PyDoc_STRVAR(close_doc, "close(): free the run; one that is not over is ended at once.");

static PyObject *run_close(PyObject *object, PyObject *unused)
{
    close_run((struct run *)object);
    Py_RETURN_NONE;
}

static void run_dealloc(PyObject *object)
{
    struct run *self = (struct run *)object;
    PyTypeObject *type = Py_TYPE(object);
    close_run(self);
    if (self->pid == getpid())
        pthread_mutex_destroy(&self->lock);
    PyObject_Free(object);
    Py_DECREF(type);
}

/* Bytes in plain memory, to be converted to Python. */
struct bytes {
    char *data; /* NULL: None */
    size_t len;
};

static bool copy_bytes(struct bytes *out, const void *data, size_t len)
{
    out->data = malloc(len + 1);
    if (!out->data)
        return false;
    if (len)
        memcpy(out->data, data, len);
    out->len = len;
    return true;
}

static PyObject *take_bytes(struct bytes *bytes)
{
    if (!bytes->data)
        Py_RETURN_NONE;
    PyObject *out = PyBytes_FromStringAndSize(bytes->data, (Py_ssize_t)bytes->len);
    brig_free(bytes->data);
    return out;
}

/* ---- step and wait ------------------------------------------------------------------------- */

enum { RUN_GOES_ON = 0, RUN_OVER = 1, RUN_CLOSED = -1 };

static int step_unlocked(struct run *self, int *fd)
{
    if (!self->run)
        return RUN_CLOSED;
    *fd = brig_run_fd(self->run);
    return brig_run_step(self->run) ? RUN_OVER : RUN_GOES_ON;
}

static int fd_of(struct run *self)
{
    pthread_mutex_lock(&self->lock);
    int fd = self->run ? brig_run_fd(self->run) : -1;
    pthread_mutex_unlock(&self->lock);
    return fd;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Step until the run is over or the time is up, without the GIL. The lock is released while there
 * is nothing to do, so that other threads can cancel the run. */
static int wait_slice(struct run *self, int64_t until)
{
    for (;;) {
        struct pollfd ready = {.events = POLLIN};
        pthread_mutex_lock(&self->lock);
        int state = step_unlocked(self, &ready.fd);
        pthread_mutex_unlock(&self->lock);
        int64_t left = until - now_ms();
        if (state != RUN_GOES_ON || left <= 0 || poll(&ready, 1, (int)left) < 0)
            return state;
    }
}

/* The same until there is an answer, whose bytes are copied. It waits first: just after the start
 * there is nothing to do for a run. */
static int wait_answer(struct run *self, int64_t until, struct bytes *answer)
{
    struct pollfd ready = {.fd = fd_of(self), .events = POLLIN};
    int state = ready.fd >= 0 ? RUN_GOES_ON : RUN_CLOSED;
    int64_t left = until - now_ms();
    while (state == RUN_GOES_ON && left > 0 && poll(&ready, 1, (int)left) >= 0) {
        const char *sent = NULL;
        size_t len = 0;
        pthread_mutex_lock(&self->lock);
        state = step_unlocked(self, &ready.fd);
        if (state == RUN_GOES_ON && (sent = brig_run_answer(self->run, &len)))
            copy_bytes(answer, sent, len);
        pthread_mutex_unlock(&self->lock);
        if (sent)
            return RUN_OVER;
        left = until - now_ms();
    }
    return state;
}

PyDoc_STRVAR(answer_doc, "answer() -> bytes | None: wait for the complete JSON from the guest; "
                         "None if the run is over first.");

PyObject *run_answer(PyObject *object, PyObject *unused)
{
    struct run *self = (struct run *)object;
    struct bytes answer = {0};
    int state = RUN_GOES_ON;
    if (!is_ours(self))
        return NULL;
    while (state == RUN_GOES_ON) {
        PyThreadState *gil = PyEval_SaveThread();
        state = wait_answer(self, now_ms() + SLICE_MS, &answer);
        PyEval_RestoreThread(gil);
        if (state == RUN_CLOSED)
            return raise_usage("the run is closed");
        if (PyErr_CheckSignals() < 0) {
            brig_free(answer.data);
            return NULL;
        }
    }
    return take_bytes(&answer);
}

PyDoc_STRVAR(
    wait_doc,
    "wait(seconds) -> bool: wait at most so long, or with None to the end; True if it is over.");

static PyObject *run_wait(PyObject *object, PyObject *seconds)
{
    struct run *self = (struct run *)object;
    int64_t until = INT64_MAX;
    int state;
    if (!is_ours(self))
        return NULL;
    if (seconds != Py_None) {
        double value = PyFloat_AsDouble(seconds);
        if (PyErr_Occurred())
            return NULL;
        if (value < 1e9)
            until = now_ms() + (value > 0 ? (int64_t)(value * 1000 + 0.999) : 0);
    }
    for (;;) {
        int64_t slice = now_ms() + SLICE_MS;
        PyThreadState *gil = PyEval_SaveThread();
        state = wait_slice(self, slice < until ? slice : until);
        PyEval_RestoreThread(gil);
        if (state == RUN_CLOSED)
            return raise_usage("the run is closed");
        if (PyErr_CheckSignals() < 0)
            return NULL;
        if (state == RUN_OVER || now_ms() >= until)
            return PyBool_FromLong(state == RUN_OVER);
    }
}

/* Copy the events of a step with their bytes. If memory is short some are missing, and `sequence`
 * has a gap. */
static size_t copy_events(struct brig_run *run, struct brig_event *events)
{
    size_t count = 0;
    while (count < EVENTS_MAX && brig_run_next_event(run, &events[count])) {
        struct brig_event *event = &events[count];
        if (event->type == BRIG_EVENT_OUTPUT) {
            unsigned char *copy = malloc(event->len + 1);
            if (!copy)
                continue;
            memcpy(copy, event->data, event->len);
            event->data = copy;
        }
        count++;
    }
    return count;
}

static PyObject *counter(uint64_t value)
{
    if (value == BRIG_UNKNOWN)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(value);
}

/* (type, sequence, seconds, data, pid, limit, memory, cpu seconds, pids); trailing fields that the
 * event does not have are left out. */
static PyObject *event_tuple(const struct brig_event *event)
{
    unsigned long long sequence = event->sequence;
    double seconds = (double)event->elapsed_ns / 1e9;
    switch (event->type) {
    case BRIG_EVENT_STARTED:
        return Py_BuildValue("(sKdOi)", "started", sequence, seconds, Py_None, event->pid);
    case BRIG_EVENT_OUTPUT:
        return Py_BuildValue("(sKdy#)", event->stream == BRIG_STDOUT ? "stdout" : "stderr",
                             sequence, seconds, event->data, (Py_ssize_t)event->len);
    case BRIG_EVENT_USAGE:
        return Py_BuildValue("(sKdOOONdN)", "usage", sequence, seconds, Py_None, Py_None, Py_None,
                             counter(event->memory_bytes), (double)event->cpu_ns / 1e9,
                             counter(event->pids));
    case BRIG_EVENT_LIMIT:
        return Py_BuildValue("(sKdOOs)", "limit", sequence, seconds, Py_None, Py_None,
                             event->limit);
    case BRIG_EVENT_ENDED:
        break;
    }
    return Py_BuildValue("(sKd)", "ended", sequence, seconds);
}

static PyObject *event_list(const struct brig_event *events, size_t count)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; i < count; i++) {
        PyObject *tuple = list ? event_tuple(&events[i]) : NULL;
        if (!tuple || PyList_Append(list, tuple) < 0)
            Py_CLEAR(list);
        Py_XDECREF(tuple);
        if (events[i].type == BRIG_EVENT_OUTPUT)
            free((void *)events[i].data);
    }
    return list;
}

PyDoc_STRVAR(step_doc, "step() -> (over, events): process all pending work without blocking.");

static PyObject *run_step(PyObject *object, PyObject *unused)
{
    struct run *self = (struct run *)object;
    struct brig_event events[EVENTS_MAX];
    size_t count = 0;
    int state, fd;
    if (!is_ours(self))
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    pthread_mutex_lock(&self->lock);
    state = step_unlocked(self, &fd);
    if (state != RUN_CLOSED)
        count = copy_events(self->run, events);
    pthread_mutex_unlock(&self->lock);
    PyEval_RestoreThread(gil);
    if (state == RUN_CLOSED)
        return raise_usage("the run is closed");
    PyObject *list = event_list(events, count);
    return list ? Py_BuildValue("(NN)", PyBool_FromLong(state == RUN_OVER), list) : NULL;
}

PyDoc_STRVAR(cancel_doc, "cancel(why): end the run; a second call does not wait for kill_after.");

static PyObject *run_cancel(PyObject *object, PyObject *args)
{
    struct run *self = (struct run *)object;
    const char *why = NULL;
    if (!PyArg_ParseTuple(args, "|z", &why) || !is_ours(self))
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    pthread_mutex_lock(&self->lock);
    if (self->run)
        brig_run_cancel(self->run, why);
    pthread_mutex_unlock(&self->lock);
    PyEval_RestoreThread(gil);
    Py_RETURN_NONE;
}

/* ---- facts and the result ------------------------------------------------------------------ */

enum fact { FACT_FD, FACT_PID };

static PyObject *fact_of(struct run *self, enum fact fact)
{
    int value = -1;
    if (!is_ours(self))
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    pthread_mutex_lock(&self->lock);
    if (self->run)
        value = fact == FACT_FD ? brig_run_fd(self->run) : brig_run_pid(self->run);
    pthread_mutex_unlock(&self->lock);
    PyEval_RestoreThread(gil);
    return value < 0 ? raise_usage("the run is closed") : PyLong_FromLong(value);
}

PyDoc_STRVAR(fileno_doc, "fileno() -> int: readable when step() has something to do.");

static PyObject *run_fileno(PyObject *object, PyObject *unused)
{
    return fact_of((struct run *)object, FACT_FD);
}

PyDoc_STRVAR(pid_doc, "pid() -> int: the process id of brig's init for this run.");

static PyObject *run_pid(PyObject *object, PyObject *unused)
{
    return fact_of((struct run *)object, FACT_PID);
}

struct outcome {
    struct bytes json, out, err, sent;
    int exit_code;
};

/* The streams and the guest's JSON are returned beside the result, not inside of its JSON: they are
 * large, and Python's JSON reader may refuse a guest's value. */
static int copy_result(const struct brig_result *result, struct outcome *to,
                       struct brig_error *error)
{
    struct brig_result rest = *result;
    bool ok = true;
    rest.out.captured = rest.err.captured = false;
    rest.output = NULL;
    rest.output_len = 0;
    to->exit_code = brig_result_exit_code(result);
    if (result->out.captured)
        ok = copy_bytes(&to->out, result->out.data, result->out.len);
    if (ok && result->err.captured)
        ok = copy_bytes(&to->err, result->err.data, result->err.len);
    if (ok && result->output)
        ok = copy_bytes(&to->sent, result->output, result->output_len);
    if (ok)
        return brig_result_json(&rest, &to->json.data, &to->json.len, error);
    *error = (struct brig_error){.fault = BRIG_FAULT_SYSTEM,
                                 .errnum = ENOMEM,
                                 .stage = "result",
                                 .text = "not enough memory for the result"};
    return -ENOMEM;
}

PyDoc_STRVAR(result_doc, "result() -> None until the run is over, then (JSON without the following "
                         "parts, stdout, stderr, JSON from the guest, exit code).");

static PyObject *run_result(PyObject *object, PyObject *unused)
{
    struct run *self = (struct run *)object;
    struct outcome outcome = {0};
    struct brig_error error = {0};
    const struct brig_result *result = NULL;
    int ret = 0;
    if (!is_ours(self))
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    pthread_mutex_lock(&self->lock);
    if (self->run)
        result = brig_run_result(self->run);
    if (result)
        ret = copy_result(result, &outcome, &error);
    pthread_mutex_unlock(&self->lock);
    PyEval_RestoreThread(gil);
    if (ret < 0) {
        brig_free(outcome.out.data);
        brig_free(outcome.err.data);
        brig_free(outcome.sent.data);
        return raise_error(&error);
    }
    if (!result)
        Py_RETURN_NONE;
    return Py_BuildValue("(NNNNi)", take_bytes(&outcome.json), take_bytes(&outcome.out),
                         take_bytes(&outcome.err), take_bytes(&outcome.sent), outcome.exit_code);
}

PyDoc_STRVAR(memory_doc, "memory() -> (fd, size) | None: the memory file of a call, and None if "
                         "there is nothing in it. The caller closes the descriptor. OSError with "
                         "EPERM if the guest has not sealed it, EFBIG if it is too large.");

static PyObject *run_memory(PyObject *object, PyObject *unused)
{
    struct run *self = (struct run *)object;
    uint64_t size = 0;
    int fd = -ENOENT;
    if (!is_ours(self))
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    pthread_mutex_lock(&self->lock);
    if (self->run)
        fd = brig_run_memory(self->run, &size);
    if (fd >= 0) {
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        fd = copy < 0 ? -errno : copy;
    }
    pthread_mutex_unlock(&self->lock);
    PyEval_RestoreThread(gil);
    if (fd == -ENOENT)
        Py_RETURN_NONE;
    errno = fd < 0 ? -fd : 0;
    if (fd < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    return Py_BuildValue("(iK)", fd, (unsigned long long)size);
}

/* ---- the type ------------------------------------------------------------------------------ */

static PyMethodDef run_methods[] = {
    {"fileno", run_fileno, METH_NOARGS, fileno_doc},
    {"pid", run_pid, METH_NOARGS, pid_doc},
    {"step", run_step, METH_NOARGS, step_doc},
    {"wait", run_wait, METH_O, wait_doc},
    {"answer", run_answer, METH_NOARGS, answer_doc},
    {"cancel", run_cancel, METH_VARARGS, cancel_doc},
    {"result", run_result, METH_NOARGS, result_doc},
    {"memory", run_memory, METH_NOARGS, memory_doc},
    {"close", run_close, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot run_slots[] = {
    {Py_tp_doc, (void *)"A run; made by Host.start()."},
    {Py_tp_dealloc, (void *)run_dealloc},
    {Py_tp_methods, run_methods},
    {0, NULL},
};

PyType_Spec run_type = {
    .name = "brig._brig.Run",
    .basicsize = sizeof(struct run),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = run_slots,
};
