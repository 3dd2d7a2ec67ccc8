/* SPDX-License-Identifier: MIT */
/* Plain calls, on the guest's side. */
#include "_plain_guest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "_plain.h"

/* ---- the job ------------------------------------------------------------------------------- */

struct job {
    const char *at, *end;
};

static bool get(struct job *job, void *out, size_t len)
{
    if (len > (size_t)(job->end - job->at)) {
        PyErr_SetString(PyExc_ValueError, "the job is too short");
        return false;
    }
    memcpy(out, job->at, len);
    job->at += len;
    return true;
}

/* Read bytes in place; sets *len. */
static const char *get_bytes(struct job *job, uint32_t *len)
{
    if (!get(job, len, sizeof *len))
        return NULL;
    const char *bytes = job->at;
    if (*len > (size_t)(job->end - bytes)) {
        PyErr_SetString(PyExc_ValueError, "the job is too short");
        return NULL;
    }
    job->at += *len;
    return bytes;
}

static PyObject *get_value(struct job *job)
{
    const char *bytes;
    int64_t number;
    double real;
    uint32_t len;
    char letter;
    if (!get(job, &letter, 1))
        return NULL;
    switch (letter) {
    case PLAIN_NONE:
        Py_RETURN_NONE;
    case PLAIN_TRUE:
        Py_RETURN_TRUE;
    case PLAIN_FALSE:
        Py_RETURN_FALSE;
    case PLAIN_INT:
        return get(job, &number, sizeof number) ? PyLong_FromLongLong(number) : NULL;
    case PLAIN_FLOAT:
        return get(job, &real, sizeof real) ? PyFloat_FromDouble(real) : NULL;
    case PLAIN_TEXT:
        bytes = get_bytes(job, &len);
        return bytes ? PyUnicode_FromStringAndSize(bytes, len) : NULL;
    case PLAIN_BYTES:
        bytes = get_bytes(job, &len);
        return bytes ? PyBytes_FromStringAndSize(bytes, len) : NULL;
    default:
        return PyErr_Format(PyExc_ValueError, "the job has a value of the kind %d", letter);
    }
}

static PyObject *get_arguments(struct job *job)
{
    uint32_t count;
    if (!get(job, &count, sizeof count))
        return NULL;
    PyObject *args = PyTuple_New(count);
    for (uint32_t i = 0; args && i < count; i++) {
        PyObject *value = get_value(job);
        if (!value || PyTuple_SetItem(args, i, value) < 0)
            Py_CLEAR(args);
    }
    return args;
}

static PyObject *get_keywords(struct job *job)
{
    uint32_t count;
    if (!get(job, &count, sizeof count))
        return NULL;
    PyObject *keywords = PyDict_New();
    for (uint32_t i = 0; keywords && i < count; i++) {
        PyObject *name = get_value(job), *value = name ? get_value(job) : NULL;
        if (!value || PyDict_SetItem(keywords, name, value) < 0)
            Py_CLEAR(keywords);
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    return keywords;
}

/* The function, if its module is loaded and has it; else (module, name), to be imported by the
 * caller of this function. Read from the module's dict, because an attribute lookup would first
 * search the type of modules, and its cache would copy a page. */
static PyObject *get_function(struct job *job)
{
    const char *module = job->at, *name = module + strnlen(module, (size_t)(job->end - module)) + 1;
    if (name >= job->end || !memchr(name, 0, (size_t)(job->end - name)))
        return PyErr_Format(PyExc_ValueError, "the job names no function");
    job->at = name + strlen(name) + 1;
    PyObject *there = PyDict_GetItemString(PyImport_GetModuleDict(), module);
    PyObject *function = there && PyModule_CheckExact(there)
                             ? PyDict_GetItemString(PyModule_GetDict(there), name)
                             : NULL;
    if (!function)
        return Py_BuildValue("(ss)", module, name);
    Py_INCREF(function);
    return function;
}

PyObject *plain_load(const char *bytes, size_t len)
{
    struct job job = {bytes, bytes + len};
    PyObject *function = get_function(&job);
    PyObject *args = function ? get_arguments(&job) : NULL;
    PyObject *keywords = args ? get_keywords(&job) : NULL;
    PyObject *loaded = keywords ? PyTuple_Pack(3, function, args, keywords) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(args);
    Py_XDECREF(keywords);
    return loaded;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static bool is_simple(const char *text, Py_ssize_t len)
{
    for (Py_ssize_t i = 0; i < len; i++) {
        if (!plain_is_simple(text[i]))
            return false;
    }
    return true;
}

/* Write the value as JSON. Returns its length, 0 if it is not of a plain type. */
static int put_json(char *out, size_t size, PyObject *value)
{
    Py_ssize_t len = 0;
    int overflow = 0;
    if (value == Py_None || value == Py_True || value == Py_False)
        return snprintf(out, size, "%s",
                        value == Py_None   ? "null"
                        : value == Py_True ? "true"
                                           : "false");
    if (PyLong_CheckExact(value)) {
        const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        return overflow ? 0 : snprintf(out, size, "%lld", number);
    }
    const char *text = PyUnicode_CheckExact(value) ? PyUnicode_AsUTF8AndSize(value, &len) : NULL;
    if (!text || (size_t)len + 3 > size || !is_simple(text, len)) {
        PyErr_Clear();
        return 0;
    }
    return snprintf(out, size, "\"%s\"", text);
}

PyObject *plain_answer(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    char json[PLAIN_ANSWER_MAX], message[PLAIN_ANSWER_MAX + 32];
    if (count != 2 || !PyUnicode_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "plain_answer(str, value)");
    Py_ssize_t head_len = 0;
    const char *head = PyUnicode_AsUTF8AndSize(args[0], &head_len);
    if (!head)
        return NULL;
    int len = head_len < 256 ? put_json(json, sizeof json - 256, args[1]) : 0;
    if (len == 0)
        Py_RETURN_NONE;
    len = snprintf(message, sizeof message, "%zd\n%s%s}", head_len + len + 1, head, json);
    return PyBytes_FromStringAndSize(message, len);
}
