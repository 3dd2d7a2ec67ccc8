/* SPDX-License-Identifier: MIT */
/* Spec and Host: settings of runs, and their start. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_brig.h"

/* ---- Spec ---------------------------------------------------------------------------------- */

/* (name, value), or (name, path, second part or None) */
static bool add_setting(struct brig_spec *spec, PyObject *setting)
{
    struct brig_error error = {0};
    const char *name, *value, *second = NULL;
    PyObject *part = NULL;
    bool pair = PyTuple_Check(setting) && PyTuple_Size(setting) == 3;
    int ret;
    if (!PyArg_Parse(setting, pair ? "(yyO)" : "(yy)", &name, &value, &part))
        return false;
    if (pair && part != Py_None && !(second = PyBytes_AsString(part)))
        return false;
    if (pair)
        ret = brig_spec_set_pair(spec, name, value, second, BRIG_FROM_OPTION, NULL, &error);
    else
        ret = brig_spec_set(spec, name, value, BRIG_FROM_OPTION, NULL, &error);
    if (ret < 0)
        raise_error(&error);
    return ret == 0;
}

/* Every text is bytes without a NUL. */
static bool add_settings(struct brig_spec *spec, PyObject *settings)
{
    for (Py_ssize_t i = 0; i < PyList_Size(settings); i++) {
        if (!add_setting(spec, PyList_GetItem(settings, i)))
            return false;
    }
    return true;
}

static bool add_command(struct brig_spec *spec, PyObject *words)
{
    struct brig_error error = {0};
    Py_ssize_t count = PyList_Size(words);
    const char **argv = calloc((size_t)count + 1, sizeof *argv);
    bool ok = argv != NULL;
    if (!argv)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < count; i++)
        ok = PyArg_Parse(PyList_GetItem(words, i), "y", &argv[i]);
    if (ok && brig_spec_set_command(spec, argv, (size_t)count, &error) < 0) {
        raise_error(&error);
        ok = false;
    }
    free(argv);
    return ok;
}

static PyObject *spec_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {(char *)"command", (char *)"settings", (char *)"capture", NULL};
    PyObject *words, *settings;
    struct brig_error error = {0};
    int capture = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!O!|p", names, &PyList_Type, &words,
                                     &PyList_Type, &settings, &capture))
        return NULL;
    struct spec *self = (struct spec *)PyType_GenericAlloc(type, 0);
    if (!self)
        return NULL;
    if (brig_spec_new(&self->spec, &error) < 0) {
        Py_DECREF(self);
        return raise_error(&error);
    }
    for (int stream = BRIG_STDOUT; !capture && stream <= BRIG_STDERR; stream++)
        brig_spec_set_sink(self->spec, (enum brig_stream)stream, BRIG_SINK_DISCARD, -1, NULL);
    if (!add_settings(self->spec, settings) ||
        (PyList_Size(words) > 0 && !add_command(self->spec, words)))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void spec_dealloc(PyObject *object)
{
    struct spec *self = (struct spec *)object;
    PyTypeObject *type = Py_TYPE(object);
    brig_spec_free(self->spec);
    PyObject_Free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(set_template_doc, "set_template(template): make its runs calls of the template.");

static PyObject *spec_set_template(PyObject *object, PyObject *args)
{
    struct types *types = PyType_GetModuleState(Py_TYPE(object));
    struct template *template;
    if (!PyArg_ParseTuple(args, "O!", types->template, &template))
        return NULL;
    struct spec *self = (struct spec *)object;
    brig_spec_set_template(self->spec, template->template);
    self->calls = true;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(lower_doc, "lower(name, value) -> bool: lower a limit; False if it is lower already.");

static PyObject *spec_lower(PyObject *object, PyObject *args)
{
    const char *name, *value;
    if (!PyArg_ParseTuple(args, "ss", &name, &value))
        return NULL;
    struct brig_spec *spec = ((struct spec *)object)->spec;
    return PyBool_FromLong(brig_spec_lower(spec, name, value, name, NULL) == 0);
}

static PyMethodDef spec_methods[] = {
    {"lower", spec_lower, METH_VARARGS, lower_doc},
    {"set_template", spec_set_template, METH_VARARGS, set_template_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot spec_slots[] = {
    {Py_tp_doc, (void *)"Spec(command, settings, capture=True): what to run; bytes in lists."},
    {Py_tp_new, (void *)spec_new},
    {Py_tp_dealloc, (void *)spec_dealloc},
    {Py_tp_methods, spec_methods},
    {0, NULL},
};

PyType_Spec spec_type = {
    .name = "brig._brig.Spec",
    .basicsize = sizeof(struct spec),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = spec_slots,
};

/* ---- Host ---------------------------------------------------------------------------------- */

static PyObject *host_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    struct brig_error error = {0};
    struct brig *brig = NULL;
    if (!PyArg_ParseTuple(args, ""))
        return NULL;
    PyThreadState *gil = PyEval_SaveThread();
    int ret = brig_open(&brig, &error);
    PyEval_RestoreThread(gil);
    if (ret < 0)
        return raise_error(&error);
    struct host *self = (struct host *)PyType_GenericAlloc(type, 0);
    if (!self) {
        brig_close(brig);
        return NULL;
    }
    self->brig = brig;
    return (PyObject *)self;
}

static void close_host(struct host *self)
{
    struct brig *brig = self->brig;
    self->brig = NULL;
    PyThreadState *gil = PyEval_SaveThread();
    pthread_mutex_lock(&host_lock);
    brig_close(brig);
    pthread_mutex_unlock(&host_lock);
    PyEval_RestoreThread(gil);
}

static void host_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    close_host((struct host *)object);
    PyObject_Free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(close_doc, "close() -> bool: close it; False if runs still use it.");

static PyObject *host_close(PyObject *object, PyObject *unused)
{
    struct host *self = (struct host *)object;
    if (self->runs > 0)
        Py_RETURN_FALSE;
    close_host(self);
    Py_RETURN_TRUE;
}

static bool host_is_open(const struct host *self)
{
    if (!self->brig)
        raise_usage("the host is closed");
    return self->brig != NULL;
}

/* Release the GIL and take host_lock. The handle cannot be closed meanwhile. */
static PyThreadState *host_enter(struct host *self)
{
    self->runs++;
    PyThreadState *gil = PyEval_SaveThread();
    pthread_mutex_lock(&host_lock);
    return gil;
}

static void host_leave(struct host *self, PyThreadState *gil)
{
    pthread_mutex_unlock(&host_lock);
    PyEval_RestoreThread(gil);
    self->runs--;
}

/* A memfd with the bytes, at offset 0; -1 on failure. */
static int make_input(const char *bytes, size_t len, struct brig_error *error)
{
    int fd = memfd_create("brig-input", MFD_CLOEXEC);
    for (size_t done = 0; fd >= 0 && done < len;) {
        ssize_t n = write(fd, bytes + done, len - done);
        if (n < 0 && errno != EINTR) {
            int errnum = errno;
            close(fd);
            errno = errnum;
            fd = -1;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    if (fd < 0)
        *error = (struct brig_error){.fault = BRIG_FAULT_SYSTEM,
                                     .errnum = errno,
                                     .stage = "stdin",
                                     .text = "the input cannot be put into a memory file"};
    else
        lseek(fd, 0, SEEK_SET);
    return fd;
}

/* The stdin of the guest. */
struct input {
    const char *bytes; /* sent with the job, or NULL */
    size_t len;
    int fd; /* a memfd, or -1 */
};

/* Start a run, or a template if `template` is set, under host_lock. The input is set here and not
 * in the spec object, because several threads may start the same spec. */
static int start(struct host *self, struct spec *spec, struct input input, struct brig_run **out,
                 struct brig_template **template, struct brig_error *error)
{
    int ret = 0;
    if (input.bytes)
        ret = brig_spec_give_input(spec->spec, input.bytes, input.len, error);
    else if (input.fd >= 0)
        ret = spec->calls ? brig_spec_give_stdin(spec->spec, input.fd, error)
                          : brig_spec_set_stdin(spec->spec, input.fd, error);
    if (ret == 0 && template)
        ret = brig_template_start(self->brig, spec->spec, template, out, error);
    else if (ret == 0)
        ret = brig_start(self->brig, spec->spec, out, error);
    brig_spec_set_stdin(spec->spec, -1, NULL);
    brig_spec_give_input(spec->spec, NULL, 0, NULL);
    return ret;
}

/* Returns false if an exception is set. */
static bool warn_degraded(const char *why)
{
    PyObject *module = PyImport_ImportModule("brig._errors");
    PyObject *done = module ? PyObject_CallMethod(module, "warn_degraded", "s", why) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(done);
    return done != NULL;
}

static PyObject *start_run(PyObject *object, PyObject *args, struct brig_template **template)
{
    struct types *types = PyType_GetModuleState(Py_TYPE(object));
    struct host *self = (struct host *)object;
    struct brig_error error = {0};
    struct brig_run *run = NULL;
    struct spec *spec;
    struct input input = {.fd = -1};
    const char *bytes;
    Py_ssize_t len;
    int watch = 0;
    if (!PyArg_ParseTuple(args, "O!z#|p", types->spec, &spec, &bytes, &len, &watch) ||
        !host_is_open(self))
        return NULL;
    if (bytes && spec->calls && len > 0 && len <= BRIG_INPUT_MAX) {
        input.bytes = bytes;
        input.len = (size_t)len;
    } else if (bytes) {
        PyThreadState *gil = PyEval_SaveThread();
        input.fd = make_input(bytes, (size_t)len, &error);
        PyEval_RestoreThread(gil);
        if (input.fd < 0)
            return raise_error(&error);
    }
    struct run *out = run_new(types->run, self);
    if (!out) {
        if (input.fd >= 0)
            close(input.fd);
        return NULL;
    }
    PyThreadState *gil = host_enter(self);
    int ret = start(self, spec, input, &run, template, &error);
    if (ret == 0 && watch)
        brig_run_watch(run);
    if (ret == 0)
        run_fill(out, run, input.fd);
    host_leave(self, gil);
    if (ret == 0 && (!brig_run_degraded(run) || warn_degraded(brig_run_degraded(run))))
        return (PyObject *)out;
    Py_DECREF((PyObject *)out); /* ends the run, if warnings are errors here */
    if (ret == 0)
        return NULL;
    if (input.fd >= 0)
        close(input.fd);
    return raise_error(&error);
}

PyDoc_STRVAR(start_doc, "start(spec, input, watch) -> Run; input: bytes or None.");

static PyObject *host_start(PyObject *object, PyObject *args)
{
    return start_run(object, args, NULL);
}

PyDoc_STRVAR(call_doc,
             "call(spec, input) -> (Run, bytes | None): start(), and the run's answer().");

static PyObject *host_call(PyObject *object, PyObject *args)
{
    PyObject *run = start_run(object, args, NULL);
    PyObject *answer = run ? run_answer(run, NULL) : NULL;
    PyObject *both = answer ? PyTuple_Pack(2, run, answer) : NULL;
    Py_XDECREF(answer);
    Py_XDECREF(run); /* ends the run, which has no owner */
    return both;
}

PyDoc_STRVAR(start_template_doc,
             "start_template(spec, input, watch) -> (Run, Template): start a template.");

static PyObject *host_start_template(PyObject *object, PyObject *args)
{
    struct types *types = PyType_GetModuleState(Py_TYPE(object));
    PyTypeObject *type = (PyTypeObject *)types->template;
    struct template *template = (struct template *)PyType_GenericAlloc(type, 0);
    PyObject *run = template ? start_run(object, args, &template->template) : NULL;
    PyObject *both = run ? PyTuple_Pack(2, run, (PyObject *)template) : NULL;
    Py_XDECREF(run);
    Py_XDECREF((PyObject *)template);
    return both;
}

PyDoc_STRVAR(warm_doc, "warm(spec, cells): keep so many cells built ahead for this spec; 0: none.");

static PyObject *host_warm(PyObject *object, PyObject *args)
{
    struct types *types = PyType_GetModuleState(Py_TYPE(object));
    struct host *self = (struct host *)object;
    struct brig_error error = {0};
    struct spec *spec;
    unsigned cells;
    if (!PyArg_ParseTuple(args, "O!I", types->spec, &spec, &cells) || !host_is_open(self))
        return NULL;
    PyThreadState *gil = host_enter(self);
    int ret = brig_warm(self->brig, spec->spec, cells, &error);
    host_leave(self, gil);
    if (ret < 0)
        return raise_error(&error);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(warm_ready_doc, "warm_ready(spec) -> int: the number of ready cells.");

static PyObject *host_warm_ready(PyObject *object, PyObject *args)
{
    struct types *types = PyType_GetModuleState(Py_TYPE(object));
    struct host *self = (struct host *)object;
    struct spec *spec;
    if (!PyArg_ParseTuple(args, "O!", types->spec, &spec) || !host_is_open(self))
        return NULL;
    PyThreadState *gil = host_enter(self);
    unsigned ready = brig_warm_ready(self->brig, spec->spec);
    host_leave(self, gil);
    return PyLong_FromUnsignedLong(ready);
}

static PyMethodDef host_methods[] = {
    {"start", host_start, METH_VARARGS, start_doc},
    {"call", host_call, METH_VARARGS, call_doc},
    {"start_template", host_start_template, METH_VARARGS, start_template_doc},
    {"warm", host_warm, METH_VARARGS, warm_doc},
    {"warm_ready", host_warm_ready, METH_VARARGS, warm_ready_doc},
    {"close", host_close, METH_NOARGS, close_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot host_slots[] = {
    {Py_tp_doc, (void *)"Host(): what this process needs to start runs."},
    {Py_tp_new, (void *)host_new},
    {Py_tp_dealloc, (void *)host_dealloc},
    {Py_tp_methods, host_methods},
    {0, NULL},
};

PyType_Spec host_type = {
    .name = "brig._brig.Host",
    .basicsize = sizeof(struct host),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = host_slots,
};

/* ---- Template ------------------------------------------------------------------------------- */

static void template_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    brig_template_free(((struct template *)object)->template);
    PyObject_Free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(template_fileno_doc,
             "fileno() -> int: readable when the answer of ready() may have changed.");

static PyObject *template_fileno(PyObject *object, PyObject *unused)
{
    return PyLong_FromLong(brig_template_fd(((struct template *)object)->template));
}

PyDoc_STRVAR(template_ready_doc,
             "ready() -> bool: True if calls can be made. Raises if the template has ended.");

static PyObject *template_ready(PyObject *object, PyObject *unused)
{
    struct brig_error error = {0};
    int ret = brig_template_ready(((struct template *)object)->template, &error);
    return ret < 0 ? raise_error(&error) : PyBool_FromLong(ret);
}

static PyMethodDef template_methods[] = {
    {"fileno", template_fileno, METH_NOARGS, template_fileno_doc},
    {"ready", template_ready, METH_NOARGS, template_ready_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot template_slots[] = {
    {Py_tp_doc, (void *)"What Host.start_template() gives."},
    {Py_tp_dealloc, (void *)template_dealloc},
    {Py_tp_methods, template_methods},
    {0, NULL},
};

PyType_Spec template_type = {
    .name = "brig._brig.Template",
    .basicsize = sizeof(struct template),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = template_slots,
};
