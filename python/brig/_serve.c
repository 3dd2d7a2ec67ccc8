/* SPDX-License-Identifier: MIT */
/* Python's part of brig_template_serve(), in a template. It is a separate module without libbrig,
 * because the guest imports it from its file alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "_plain_guest.h"
#include "brig_template.h"

#define INPUT_FIRST 65536 /* buffer for input of unknown size */

struct hooks {
    PyObject *ready; /* called in a fork before its job arrives */
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

static bool is_environment(PyObject *expected, char **words)
{
    Py_ssize_t count = PyList_Size(expected), i = 0;
    while (i < count && words[i] &&
           strcmp(PyBytes_AsString(PyList_GetItem(expected, i)), words[i]) == 0)
        i++;
    return i == count && !words[i];
}

static PyObject *read_stdin(void)
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

/* Read all of stdin: the function sees it empty. */
static PyObject *take_stdin(void)
{
    PyObject *input = read_stdin();
    int null = input ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    if (input && (null < 0 || dup2(null, 0) < 0)) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_CLEAR(input);
    }
    if (null >= 0)
        close(null);
    return input;
}

/* Take over the environment of the call; returns the file descriptor of the result channel. */
static int take_environment(PyObject *take, PyObject *words)
{
    PyObject *channel = words ? PyObject_CallFunctionObjArgs(take, words, NULL) : NULL;
    long fd = channel ? PyLong_AsLong(channel) : -1;
    Py_XDECREF(channel);
    Py_XDECREF(words);
    return (int)fd;
}

static PyObject *load_job(PyObject *head, const char *bytes, size_t len)
{
    const char *plain = PyBytes_AsString(head);
    size_t skip = (size_t)PyBytes_Size(head);
    if (plain && len >= skip && memcmp(bytes, plain, skip) == 0)
        return plain_load(bytes + skip, len - skip);
    return PyBytes_FromStringAndSize(bytes, (Py_ssize_t)len);
}

PyDoc_STRVAR(load_doc,
             "load(head, job): (function, args, keywords) of a plain job, with (module, name) for "
             "a function whose module is not loaded; other jobs are returned unchanged.");

static PyObject *load(PyObject *module, PyObject *args)
{
    PyObject *head;
    const char *bytes;
    Py_ssize_t len;
    if (!PyArg_ParseTuple(args, "Sy#", &head, &bytes, &len))
        return NULL;
    return load_job(head, bytes, (size_t)len);
}

/* Everything outside of run() is done here in C: Python code that runs for the first time in a fork
 * copies pages. */
static void run_call(const struct brig_template_job *call, PyObject *head, PyObject *run,
                     int channel)
{
    PyObject *job = call->input ? load_job(head, call->input, call->input_len) : take_stdin();
    PyObject *code = job && channel >= 0 ? PyObject_CallFunction(run, "Oi", job, channel) : NULL;
    if (!code)
        PyErr_Print();
    _exit(code ? (int)PyLong_AsLong(code) : 1);
}

PyDoc_STRVAR(serve_doc,
             "serve(socket, ready, run, head, expected, channel, take)\n\nFork for each call. "
             "ready() is called in a fork before its job arrives, then run(load(head, job), "
             "channel), which returns the exit code of the process. If the environment of the call "
             "is not the expected one, take(environment) replaces it and returns the channel. "
             "Raises OSError in the template when it ends.");

static PyObject *serve(PyObject *module, PyObject *args)
{
    struct hooks hooks = {0};
    struct brig_template_job job;
    PyObject *run, *head, *expected, *take;
    int socket, channel;
    if (!PyArg_ParseTuple(args, "iOOSO!iO", &socket, &hooks.ready, &run, &head, &PyList_Type,
                          &expected, &channel, &take))
        return NULL;
    const struct brig_template_hooks calls = {before, parent, child, &hooks};
    int ret = brig_template_serve(socket, &calls, &job);
    if (ret < 0) {
        errno = -ret;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    if (hooks.failed)
        return NULL;
    if (!is_environment(expected, job.envp))
        channel = take_environment(take, list_words(job.envp));
    run_call(&job, head, run, channel);
    return NULL;
}

PyDoc_STRVAR(rehearse_doc, "rehearse(): run Python's handlers of a fork without the fork.");

/* With one thread, a call cannot tell this from a fork. */
static PyObject *rehearse(PyObject *module, PyObject *unused)
{
    PyOS_BeforeFork();
    PyOS_AfterFork_Child();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(answer_doc, "plain_answer(head, value) -> bytes | None: the whole message, or None if "
                         "the value is not of a plain type.");

static PyMethodDef methods[] = {
    {"serve", serve, METH_VARARGS, serve_doc},
    {"load", load, METH_VARARGS, load_doc},
    {"plain_answer", (PyCFunction)(void (*)(void))plain_answer, METH_FASTCALL, answer_doc},
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

PyMODINIT_FUNC PyInit__serve(void); /* Python.h has no prototype for it */
PyMODINIT_FUNC PyInit__serve(void)
{
    return PyModule_Create(&definition);
}
