/* SPDX-License-Identifier: MIT */
/* Declarations shared by the parts of the extension: the four objects over brig.h, and the rules of
 * their locks.
 *
 * A lock is taken after the GIL is released, and released before the GIL is taken again, so no
 * thread that holds the GIL waits for one that wants it. Data from the library is therefore first
 * copied to plain memory, and converted to Python objects afterwards. */
#ifndef PYTHON_BRIG_H
#define PYTHON_BRIG_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "brig.h"

/* The GIL protects every field of these structs unless a comment says otherwise. */
struct spec {
    PyObject head;
    struct brig_spec *spec;
    bool calls; /* it has a template: the input of a run goes with the job */
};

struct template
{
    PyObject head;
    struct brig_template *template;
};

/* One per process. A fork can use it: the library adopts it in the fork. */
struct host {
    PyObject head;
    struct brig *brig; /* under host_lock during a start or brig_warm() */
    Py_ssize_t runs;   /* the number of runs that use it */
};

struct run {
    PyObject head;
    struct host *host;
    pthread_mutex_t lock;
    struct brig_run *run;        /* under `lock`; NULL: closed */
    int input;                   /* memfd of the guest's stdin, or -1 */
    pid_t pid;                   /* the process that started it; a fork cannot use it */
    struct run *next, *previous; /* under runs_lock, while `run` is set */
};

/* Held during a start, during brig_warm(), and while the process forks: a fork never gets a copy of
 * the handle in the middle of a start. */
extern pthread_mutex_t host_lock;

/* All runs of the process, for forks: a fork takes the lock of each run, so that none is in the
 * middle of a step, and frees its copies. */
void runs_before_fork(void);
void runs_after_fork_here(void);
void runs_after_fork_there(void);

/* _plain.c: functions of the module. */
PyObject *plain_job(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *plain_value(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* _untrusted.c: functions of the module. */
PyObject *json_weight(PyObject *module, PyObject *text);
PyObject *hash_looks(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* The types of this module. */
struct types {
    PyObject *spec, *host, *run, *template;
};
extern PyType_Spec spec_type, host_type, run_type, template_type;

/* Raise the exception of brig._errors for a fault. Always returns NULL. */
PyObject *raise_error(const struct brig_error *error);
/* Raise the exception for a malformed request. Always returns NULL. */
PyObject *raise_usage(const char *text);

/* Create a run object, and fill it with a started run, of which it takes ownership. run_fill() is
 * called under host_lock, so that no fork comes between the start and its registration. */
struct run *run_new(PyObject *type, struct host *host);
void run_fill(struct run *self, struct brig_run *run, int input);

/* The method answer(). */
PyObject *run_answer(PyObject *object, PyObject *unused);

#endif
