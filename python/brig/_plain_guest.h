/* Plain calls (_plain.h), on the guest's side: a part of the extension _serve. */
#ifndef PYTHON_PLAIN_GUEST_H
#define PYTHON_PLAIN_GUEST_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* (function, arguments, keywords) of a job, from behind its head; in place of the function its
 * module and name, if they are still to be looked up. */
PyObject *plain_load(const char *bytes, size_t len);

/* plain_answer(head, value) -> bytes | None: all that is to be sent, if the value is a plain one.
 */
PyObject *plain_answer(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
