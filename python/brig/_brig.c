/* The module brig._brig: brig.h for Python, and nothing that could be written in Python.
 *
 * Objects: Spec (what to run), Host (what this process needs to start runs), Run (one of them). The
 * package around it gives them names, types and manners; nobody else is meant to import this. */
#include "_brig.h"

pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- errors -------------------------------------------------------------------------------- */

PyObject *raise_error(const struct brig_error *error)
{
    PyObject *module = PyImport_ImportModule("brig._errors");
    PyObject *exception = NULL;
    if (module)
        exception =
            PyObject_CallMethod(module, "make_error", "iiss", (int)error->fault, error->errnum,
                                error->stage ? error->stage : "", error->text);
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
             "keys() -> list of (name, type, argument, default, choices, help, detail, limit)");

static PyObject *module_keys(PyObject *module, PyObject *unused)
{
    size_t count;
    const struct brig_key *keys = brig_keys(&count);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < count; i++) {
        const struct brig_key *key = &keys[i];
        PyObject *row = Py_BuildValue("(sszzzszN)", key->name, type_name(key->type), key->argument,
                                      key->initial, key->choices, key->help, key->detail,
                                      PyBool_FromLong(key->limit));
        if (!row || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* ---- fork ---------------------------------------------------------------------------------- */

/* Who forks holds the GIL, most likely; who holds the lock does not need it. */
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
    static bool handlers; /* of the process: the lock is, too */
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

PyDoc_STRVAR(plain_job_doc, "plain_job(head, args, keywords) -> bytes | None: the job with that "
                            "head, if the arguments are plain ones (_plain.h).");
PyDoc_STRVAR(plain_value_doc, "plain_value(answer, head): the value in it, if it is a plain one; "
                              "else NotImplemented.");

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"keys", module_keys, METH_NOARGS, keys_doc},
    {"plain_job", FAST(plain_job), METH_FASTCALL, plain_job_doc},
    {"plain_value", FAST(plain_value), METH_FASTCALL, plain_value_doc},
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
