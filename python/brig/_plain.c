/* SPDX-License-Identifier: MIT */
/* Plain calls, on the caller's side. */
#include <stdint.h>
#include <string.h>

#include "_brig.h"
#include "_plain.h"

/* ---- the job ------------------------------------------------------------------------------- */

struct job {
    size_t len;
    char bytes[BRIG_INPUT_MAX];
};

static bool put(struct job *job, const void *bytes, size_t len)
{
    if (len > sizeof job->bytes - job->len)
        return false;
    if (len)
        memcpy(job->bytes + job->len, bytes, len);
    job->len += len;
    return true;
}

static bool put_number(struct job *job, Py_ssize_t number)
{
    const uint32_t value = (uint32_t)number;
    return number <= BRIG_INPUT_MAX && put(job, &value, sizeof value);
}

static bool put_bytes(struct job *job, char letter, const char *bytes, Py_ssize_t len)
{
    return bytes && put(job, &letter, 1) && put_number(job, len) && put(job, bytes, (size_t)len);
}

static bool put_text(struct job *job, PyObject *text)
{
    Py_ssize_t len = 0;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &len);
    return put_bytes(job, PLAIN_TEXT, bytes, len);
}

static bool put_int(struct job *job, PyObject *value)
{
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && put(job, &(char){PLAIN_INT}, 1) && put(job, &number, sizeof number);
}

/* The exact type, because a subclass may carry more. */
static bool put_value(struct job *job, PyObject *value)
{
    if (value == Py_None)
        return put(job, &(char){PLAIN_NONE}, 1);
    if (value == Py_True || value == Py_False)
        return put(job, &(char){value == Py_True ? PLAIN_TRUE : PLAIN_FALSE}, 1);
    if (PyLong_CheckExact(value))
        return put_int(job, value);
    if (PyUnicode_CheckExact(value))
        return put_text(job, value);
    if (PyBytes_CheckExact(value))
        return put_bytes(job, PLAIN_BYTES, PyBytes_AsString(value), PyBytes_Size(value));
    if (!PyFloat_CheckExact(value))
        return false;
    const double number = PyFloat_AsDouble(value);
    return put(job, &(char){PLAIN_FLOAT}, 1) && put(job, &number, sizeof number);
}

static bool put_arguments(struct job *job, PyObject *args, PyObject *keywords)
{
    Py_ssize_t count = PyTuple_Size(args), at = 0;
    PyObject *name, *value;
    bool ok = put_number(job, count);
    for (Py_ssize_t i = 0; i < count && ok; i++)
        ok = put_value(job, PyTuple_GetItem(args, i));
    ok = ok && put_number(job, PyDict_Size(keywords));
    while (ok && PyDict_Next(keywords, &at, &name, &value))
        ok = PyUnicode_CheckExact(name) && put_text(job, name) && put_value(job, value);
    return ok;
}

PyObject *plain_job(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct job job;
    job.len = 0;
    if (count != 3 || !PyBytes_Check(args[0]) || !PyTuple_Check(args[1]) || !PyDict_Check(args[2]))
        return PyErr_Format(PyExc_TypeError, "plain_job(bytes, tuple, dict)");
    bool ok = put(&job, PyBytes_AsString(args[0]), (size_t)PyBytes_Size(args[0])) &&
              put_arguments(&job, args[1], args[2]);
    if (ok)
        return PyBytes_FromStringAndSize(job.bytes, (Py_ssize_t)job.len);
    PyErr_Clear(); /* from a text that is not UTF-8 */
    Py_RETURN_NONE;
}

/* ---- the answer: the guest may choose every byte ------------------------------------------- */

static PyObject *read_int(const char *text, size_t len)
{
    size_t i = *text == '-';
    int64_t number = 0;
    if (len == i || len - i > 18)
        Py_RETURN_NOTIMPLEMENTED;
    for (; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            Py_RETURN_NOTIMPLEMENTED;
        number = number * 10 + (text[i] - '0');
    }
    return PyLong_FromLongLong(*text == '-' ? -number : number);
}

static PyObject *read_text(const char *text, size_t len)
{
    if (len < 2 || text[len - 1] != '"')
        Py_RETURN_NOTIMPLEMENTED;
    for (size_t i = 1; i < len - 1; i++) {
        if (!plain_is_simple(text[i]))
            Py_RETURN_NOTIMPLEMENTED;
    }
    return PyUnicode_FromStringAndSize(text + 1, (Py_ssize_t)len - 2);
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

PyObject *plain_value(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyBytes_Check(args[0]) || !PyBytes_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "plain_value(bytes, bytes)");
    const char *bytes = PyBytes_AsString(args[0]), *head = PyBytes_AsString(args[1]);
    size_t len = (size_t)PyBytes_Size(args[0]), skip = (size_t)PyBytes_Size(args[1]);
    if (len < skip + 2 || len > PLAIN_ANSWER_MAX || memcmp(bytes, head, skip) != 0 ||
        bytes[len - 1] != '}')
        Py_RETURN_NOTIMPLEMENTED;
    const char *text = bytes + skip;
    len -= skip + 1;
    if (*text == '"')
        return read_text(text, len);
    if (is_word(text, len, "null"))
        Py_RETURN_NONE;
    if (is_word(text, len, "true"))
        Py_RETURN_TRUE;
    if (is_word(text, len, "false"))
        Py_RETURN_FALSE;
    return read_int(text, len);
}
