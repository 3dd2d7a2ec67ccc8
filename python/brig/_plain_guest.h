/* SPDX-License-Identifier: MIT */
/* Plain calls (_plain.h), on the guest's side: a part of the extension _serve. */
#ifndef PYTHON_PLAIN_GUEST_H
#define PYTHON_PLAIN_GUEST_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Decode a job after its head: (function, arguments, keywords). If the module is not loaded,
 * (module, name) stands for the function. */
PyObject *plain_load(const char *bytes, size_t len);

/* plain_answer(head, value) -> bytes | None: the whole message, if the value is of a plain type. */
PyObject *plain_answer(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
