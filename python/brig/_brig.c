/* SPDX-License-Identifier: MIT */
/* The module brig._brig: brig.h for Python. Everything that can be written in Python is elsewhere.
 *
 * Objects: Spec (a command and its settings), Host (the library's handle), Run (a run), Template.
 * Only the package around it imports this module. */
#include "_brig.h"

#include <string.h>

pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- errors -------------------------------------------------------------------------------- */

PyObject *raise_error(const struct brig_error *error)
{
    PyObject *module = PyImport_ImportModule("brig._errors");
    PyObject *exception = NULL;
    if (module)
        exception = PyObject_CallMethod(module, "make_error", "iisss", (int)error->fault,
                                        error->errnum, error->stage ? error->stage : "",
                                        error->key ? error->key : "", error->text);
    if (exception)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(exception);
    Py_XDECREF(module);
    return NULL;
}

PyObject *raise_usage(const char *text)
{
    struct brig_error error = {.fault = BRIG_FAULT_USAGE, .stage = "python"};
    PyOS_snprintf(error.text, sizeof error.text, "%s", text);
    return raise_error(&error);
}

/* ---- the key table ------------------------------------------------------------------------- */

static const char *type_name(enum brig_key_type type)
{
    static const char *const names[] = {
        [BRIG_TYPE_SIZE] = "size", [BRIG_TYPE_DURATION] = "duration", [BRIG_TYPE_COUNT] = "count",
        [BRIG_TYPE_CPUS] = "cpus", [BRIG_TYPE_CHOICE] = "choice",     [BRIG_TYPE_PATH] = "path",
        [BRIG_TYPE_TEXT] = "text", [BRIG_TYPE_LIST] = "list",         [BRIG_TYPE_MAP] = "map",
    };
    return (size_t)type < sizeof names / sizeof *names ? names[type] : "text";
}

PyDoc_STRVAR(keys_doc,
             "keys() -> list of (name, type, argument, default, choices, help, detail, limit, "
             "second)");

static PyObject *module_keys(PyObject *module, PyObject *unused)
{
    size_t count;
    const struct brig_key *keys = brig_keys(&count);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < count; i++) {
        const struct brig_key *key = &keys[i];
        PyObject *row = Py_BuildValue("(sszzzszNz)", key->name, type_name(key->type), key->argument,
                                      key->initial, key->choices, key->help, key->detail,
                                      PyBool_FromLong(key->limit), key->second);
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* ---- fork ---------------------------------------------------------------------------------- */

/* The forking thread usually holds the GIL. It may wait for the lock, because the holder of the
 * lock never waits for the GIL. */
static void before_fork(void)
{
    pthread_mutex_lock(&host_lock);
    runs_before_fork();
}

static void after_fork_here(void)
{
    runs_after_fork_here();
    pthread_mutex_unlock(&host_lock);
}

static void after_fork_there(void)
{
    pthread_mutex_init(&host_lock, NULL);
    runs_after_fork_there();
}

/* ---- the module ---------------------------------------------------------------------------- */

static int add_type(PyObject *module, PyType_Spec *spec, const char *name, PyObject **out)
{
    *out = PyType_FromModuleAndSpec(module, spec, NULL);
    return *out ? PyModule_AddObjectRef(module, name, *out) : -1;
}

static int module_exec(PyObject *module)
{
    static bool handlers; /* one per process, like the lock */
    struct types *types = PyModule_GetState(module);
    if (!handlers && pthread_atfork(before_fork, after_fork_here, after_fork_there) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    handlers = true;
    if (add_type(module, &spec_type, "Spec", &types->spec) < 0 ||
        add_type(module, &host_type, "Host", &types->host) < 0 ||
        add_type(module, &run_type, "Run", &types->run) < 0 ||
        add_type(module, &template_type, "Template", &types->template) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "version", brig_version());
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct types *types = PyModule_GetState(module);
    Py_VISIT(types->spec);
    Py_VISIT(types->host);
    Py_VISIT(types->run);
    Py_VISIT(types->template);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct types *types = PyModule_GetState(module);
    Py_CLEAR(types->spec);
    Py_CLEAR(types->host);
    Py_CLEAR(types->run);
    Py_CLEAR(types->template);
    return 0;
}

PyDoc_STRVAR(plain_job_doc, "plain_job(head, args, keywords) -> bytes | None: a job with that "
                            "head, or None if an argument is not of a plain type (_plain.h).");
PyDoc_STRVAR(plain_value_doc, "plain_value(answer, head): the value of an answer; NotImplemented "
                              "if it is not of a plain type.");

PyDoc_STRVAR(json_weight_doc, "json_weight(text) -> (values, number): an upper bound of the number "
                              "of values in JSON, and the length of its longest number.");
PyDoc_STRVAR(hash_looks_doc,
             "hash_looks(values, in_set, most) -> int: the number of table slots that are probed "
             "to insert the values into a set or a dict; counting stops after `most`.");

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

PyDoc_STRVAR(redact_doc, "redact(text, /) -> text with its secrets hidden");

static PyObject *redact(PyObject *module, PyObject *text)
{
    Py_ssize_t len = 0;
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    char *data = NULL;
    (void)module;
    if (!bytes || PyBytes_AsStringAndSize(bytes, &data, &len) < 0) {
        Py_XDECREF(bytes);
        return NULL;
    }
    char *hidden = brig_redact(data, (size_t)len);
    Py_DECREF(bytes);
    if (!hidden)
        return PyErr_NoMemory();
    PyObject *shown = PyUnicode_DecodeUTF8(hidden, (Py_ssize_t)strlen(hidden), "backslashreplace");
    brig_free(hidden);
    return shown;
}

static PyMethodDef methods[] = {
    {"keys", module_keys, METH_NOARGS, keys_doc},
    {"plain_job", FAST(plain_job), METH_FASTCALL, plain_job_doc},
    {"plain_value", FAST(plain_value), METH_FASTCALL, plain_value_doc},
    {"json_weight", json_weight, METH_O, json_weight_doc},
    {"hash_looks", FAST(hash_looks), METH_FASTCALL, hash_looks_doc},
    {"redact", redact, METH_O, redact_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)module_exec},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "brig._brig",
    .m_doc = "libbrig; use the package brig",
    .m_size = sizeof(struct types),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__brig(void);
PyMODINIT_FUNC PyInit__brig(void)
{
    return PyModuleDef_Init(&definition);
}
