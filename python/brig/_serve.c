/* In a template: Python's part of brig_template_serve(). A module of its own, without libbrig: it
 * is for the guest, and imported there from its file alone. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <stdbool.h>

#include "brig_template.h"

struct hooks {
    PyObject *ready; /* called in a fork, before its job is there */
    bool failed;
};

static void before(void *arg)
{
    PyOS_BeforeFork();
}

static void parent(void *arg)
{
    PyOS_AfterFork_Parent();
}

static void child(void *arg)
{
    struct hooks *hooks = arg;
    PyOS_AfterFork_Child();
    PyObject *result = PyObject_CallFunction(hooks->ready, NULL);
    hooks->failed = !result;
    Py_XDECREF(result);
}

static PyObject *list_words(char **words)
{
    PyObject *list = PyList_New(0);
    for (; list && *words; words++) {
        PyObject *word = PyBytes_FromString(*words);
        if (!word || PyList_Append(list, word) < 0)
            Py_CLEAR(list);
        Py_XDECREF(word);
    }
    return list;
}

PyDoc_STRVAR(serve_doc,
             "serve(socket, ready) -> (argv, environment)\n\n"
             "Fork for each call. Returns in a fork that has its job; ready() was called "
             "in it before. OSError in the template, at its end.");

static PyObject *serve(PyObject *module, PyObject *args)
{
    struct hooks hooks = {0};
    struct brig_template_job job;
    int socket;
    if (!PyArg_ParseTuple(args, "iO", &socket, &hooks.ready))
        return NULL;
    const struct brig_template_hooks calls = {before, parent, child, &hooks};
    int ret = brig_template_serve(socket, &calls, &job);
    if (ret < 0) {
        errno = -ret;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    if (hooks.failed)
        return NULL;
    return Py_BuildValue("(NN)", list_words(job.argv), list_words(job.envp));
}

PyDoc_STRVAR(rehearse_doc, "rehearse(): what Python does for a fork, without the fork.");

/* With one thread there is no difference to be seen from inside. */
static PyObject *rehearse(PyObject *module, PyObject *unused)
{
    PyOS_BeforeFork();
    PyOS_AfterFork_Child();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"serve", serve, METH_VARARGS, serve_doc},
    {"rehearse", rehearse, METH_NOARGS, rehearse_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                 "_serve",
                                 "The guest's side of a template.",
                                 0,
                                 methods,
                                 NULL,
                                 NULL,
                                 NULL,
                                 NULL};

PyMODINIT_FUNC PyInit__serve(void); /* without a prototype of its own in Python.h */
PyMODINIT_FUNC PyInit__serve(void)
{
    return PyModule_Create(&definition);
}
