/* Spec and Host: what to run, and starting it. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_brig.h"

/* ---- Spec ---------------------------------------------------------------------------------- */

/* settings: [(name, value)], both bytes without NUL. */
static bool add_settings(struct brig_spec *spec, PyObject *settings)
{
    struct brig_error error = {0};
    for (Py_ssize_t i = 0; i < PyList_Size(settings); i++) {
        const char *name, *value;
        if (!PyArg_ParseTuple(PyList_GetItem(settings, i), "yy", &name, &value))
            return false;
        if (brig_spec_set(spec, name, value, BRIG_FROM_OPTION, NULL, &error) < 0) {
            raise_error(&error);
            return false;
        }
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

static PyType_Slot spec_slots[] = {
    {Py_tp_doc, (void *)"Spec(command, settings, capture=True): what to run; bytes in lists."},
    {Py_tp_new, (void *)spec_new},
    {Py_tp_dealloc, (void *)spec_dealloc},
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
    int ret;
    if (!PyArg_ParseTuple(args, ""))
        return NULL;
    Py_BEGIN_ALLOW_THREADS ret = brig_open(&brig, &error);
    Py_END_ALLOW_THREADS if (ret < 0) return raise_error(&error);
    struct host *self = (struct host *)PyType_GenericAlloc(type, 0);
    if (!self) {
        brig_close(brig);
        return NULL;
    }
    self->brig = brig;
    self->pid = getpid();
    return (PyObject *)self;
}

static void close_host(struct host *self)
{
    struct brig *brig = self->brig;
    self->brig = NULL;
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&host_lock);
    brig_close(brig);
    pthread_mutex_unlock(&host_lock);
    Py_END_ALLOW_THREADS
}

static void host_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    close_host((struct host *)object);
    PyObject_Free(object);
    Py_DECREF(type);
}

PyDoc_STRVAR(close_doc, "close() -> bool: unless runs still use it; False then.");

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

/* The bytes as a memory file that stands at its beginning; a negative errno if that fails. */
static int make_input(const char *bytes, size_t len)
{
    int fd = memfd_create("brig-input", MFD_CLOEXEC);
    for (size_t done = 0; fd >= 0 && done < len;) {
        ssize_t n = write(fd, bytes + done, len - done);
        if (n < 0 && errno != EINTR) {
            int errnum = errno;
            close(fd);
            return -errnum;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd < 0 ? -errno : fd;
}

/* Without the GIL. The descriptor is part of the start, not of the spec: a copy has it. */
static int start(struct host *self, const struct spec *spec, int input, bool watch,
                 struct brig_run **out, struct brig_error *error)
{
    struct brig_spec *copy = NULL;
    int ret = 0;
    if (input >= 0) {
        ret = brig_spec_copy(spec->spec, &copy, error);
        if (ret == 0)
            ret = brig_spec_set_stdin(copy, input, error);
    }
    if (ret == 0) {
        pthread_mutex_lock(&host_lock);
        ret = brig_start(self->brig, copy ? copy : spec->spec, out, error);
        pthread_mutex_unlock(&host_lock);
    }
    if (ret == 0 && watch)
        brig_run_watch(*out);
    brig_spec_free(copy);
    return ret;
}

PyDoc_STRVAR(start_doc, "start(spec, input, watch) -> Run; input: bytes or None.");

static PyObject *host_start(PyObject *object, PyTypeObject *defining, PyObject *const *args,
                            Py_ssize_t count, PyObject *names)
{
    struct types *types = PyType_GetModuleState(defining);
    struct host *self = (struct host *)object;
    struct brig_error error = {0};
    struct brig_run *run = NULL;
    char *bytes = NULL;
    Py_ssize_t len = 0;
    int input = -1, ret = 0;
    if (count != 3 || names || !PyObject_TypeCheck(args[0], (PyTypeObject *)types->spec)) {
        PyErr_SetString(PyExc_TypeError, "start(spec, input, watch)");
        return NULL;
    }
    if (args[1] != Py_None && PyBytes_AsStringAndSize(args[1], &bytes, &len) < 0)
        return NULL;
    bool watch = PyObject_IsTrue(args[2]) > 0;
    if (!host_is_open(self))
        return NULL;
    self->runs++; /* nobody closes it meanwhile */
    Py_BEGIN_ALLOW_THREADS if (bytes) input = ret = make_input(bytes, (size_t)len);
    if (ret >= 0)
        ret = start(self, (struct spec *)args[0], input, watch, &run, &error);
    else
        error = (struct brig_error){.fault = BRIG_FAULT_SYSTEM,
                                    .errnum = -ret,
                                    .stage = "stdin",
                                    .text = "the input cannot be put into a memory file"};
    if (ret < 0 && input >= 0)
        close(input);
    Py_END_ALLOW_THREADS self->runs--;
    if (ret < 0)
        return raise_error(&error);
    return run_wrap(types->run, self, run, input);
}

PyDoc_STRVAR(warm_doc, "warm(spec, cells): keep cells for runs like it built ahead; 0: no more.");

static PyObject *host_warm(PyObject *object, PyObject *args)
{
    struct host *self = (struct host *)object;
    struct brig_error error = {0};
    struct spec *spec;
    unsigned cells;
    int ret;
    if (!PyArg_ParseTuple(args, "OI", &spec, &cells) || !host_is_open(self))
        return NULL;
    self->runs++;
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&host_lock);
    ret = brig_warm(self->brig, spec->spec, cells, &error);
    pthread_mutex_unlock(&host_lock);
    Py_END_ALLOW_THREADS self->runs--;
    if (ret < 0)
        return raise_error(&error);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(warm_ready_doc, "warm_ready(spec) -> int: how many are ready for it.");

static PyObject *host_warm_ready(PyObject *object, PyObject *args)
{
    struct host *self = (struct host *)object;
    struct spec *spec;
    unsigned ready;
    if (!PyArg_ParseTuple(args, "O", &spec) || !host_is_open(self))
        return NULL;
    self->runs++;
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&host_lock);
    ready = brig_warm_ready(self->brig, spec->spec);
    pthread_mutex_unlock(&host_lock);
    Py_END_ALLOW_THREADS self->runs--;
    return PyLong_FromUnsignedLong(ready);
}

PyDoc_STRVAR(explain_doc, "explain(spec) -> str: the plan of such a run as JSON.");

static PyObject *host_explain(PyObject *object, PyObject *args)
{
    struct host *self = (struct host *)object;
    struct brig_error error = {0};
    struct spec *spec;
    char *text = NULL;
    size_t len = 0;
    int ret;
    if (!PyArg_ParseTuple(args, "O", &spec) || !host_is_open(self))
        return NULL;
    self->runs++;
    Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&host_lock);
    ret = brig_explain(self->brig, spec->spec, true, &text, &len, &error);
    pthread_mutex_unlock(&host_lock);
    Py_END_ALLOW_THREADS self->runs--;
    if (ret < 0)
        return raise_error(&error);
    PyObject *out = PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, "replace");
    brig_free(text);
    return out;
}

static PyMethodDef host_methods[] = {
    {"start", (PyCFunction)(void (*)(void))host_start, METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
     start_doc},
    {"warm", host_warm, METH_VARARGS, warm_doc},
    {"warm_ready", host_warm_ready, METH_VARARGS, warm_ready_doc},
    {"explain", host_explain, METH_VARARGS, explain_doc},
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
