/* In a template: Python's part of brig_template_serve(). A module of its own, without libbrig: it
 * is for the guest, and imported there from its file alone. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "brig_template.h"

#define INPUT_FIRST 65536 /* bytes of an input whose size is not known */

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

/* The environment of the call, or None if it is the one that is expected. */
static PyObject *other_environment(PyObject *expected, char **words)
{
    Py_ssize_t count = PyList_Size(expected), i = 0;
    while (i < count && words[i] &&
           strcmp(PyBytes_AsString(PyList_GetItem(expected, i)), words[i]) == 0)
        i++;
    if (i == count && !words[i])
        Py_RETURN_NONE;
    return list_words(words);
}

/* All of stdin. */
static PyObject *read_input(void)
{
    struct stat st;
    if (fstat(0, &st) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    size_t size = S_ISREG(st.st_mode) ? (size_t)st.st_size + 1 : INPUT_FIRST, len = 0;
    char *bytes = malloc(size);
    ssize_t n = 1;
    while (bytes && n != 0) {
        n = read(0, bytes + len, size - len);
        if (n < 0 && errno != EINTR)
            break;
        len += n > 0 ? (size_t)n : 0;
        char *more = len < size ? bytes : realloc(bytes, size *= 2);
        if (!more)
            free(bytes);
        bytes = more;
    }
    PyObject *input = NULL;
    if (!bytes)
        PyErr_NoMemory();
    else if (n < 0)
        PyErr_SetFromErrno(PyExc_OSError);
    else
        input = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)len);
    free(bytes);
    return input;
}

/* For the function, which has no other. */
static int empty_stdin(void)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int ret = null < 0 ? -1 : dup2(null, 0);
    if (null >= 0)
        close(null);
    if (ret < 0)
        PyErr_SetFromErrno(PyExc_OSError);
    return ret;
}

PyDoc_STRVAR(
    serve_doc,
    "serve(socket, ready, expected) -> (environment, input)\n\n"
    "Fork for each call. Returns in a fork that has its job; ready() was called in it before. "
    "The environment is None if it is the expected one; stdin is empty, its input was read. "
    "OSError in the template, at its end.");

static PyObject *serve(PyObject *module, PyObject *args)
{
    struct hooks hooks = {0};
    struct brig_template_job job;
    PyObject *expected;
    int socket;
    if (!PyArg_ParseTuple(args, "iOO!", &socket, &hooks.ready, &PyList_Type, &expected))
        return NULL;
    const struct brig_template_hooks calls = {before, parent, child, &hooks};
    int ret = brig_template_serve(socket, &calls, &job);
    if (ret < 0) {
        errno = -ret;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    if (hooks.failed)
        return NULL;
    PyObject *input = read_input();
    if (!input || empty_stdin() < 0) {
        Py_XDECREF(input);
        return NULL;
    }
    return Py_BuildValue("(NN)", other_environment(expected, job.envp), input);
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
