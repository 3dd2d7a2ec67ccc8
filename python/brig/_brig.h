/* What the parts of the extension share: the four objects over brig.h and the rules of their
 * locks.
 *
 * Locks are taken with the GIL released and let go of before it is taken back, so that nobody who
 * holds the GIL waits for somebody who wants it. What the library gives is therefore copied to
 * plain memory first, and becomes Python objects afterwards. */
#ifndef PYTHON_BRIG_H
#define PYTHON_BRIG_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "brig.h"

/* Every field of these belongs to the GIL but for what is said. */
struct spec {
    PyObject head;
    struct brig_spec *spec;
    bool calls; /* a template: the input of a run is the job's own */
};

struct template
{
    PyObject head;
    struct brig_template *template;
};

/* One per process. A fork of it can go on with it: the library makes it the fork's own. */
struct host {
    PyObject head;
    struct brig *brig; /* under host_lock while it starts or warms something */
    Py_ssize_t runs;   /* that use it */
};

struct run {
    PyObject head;
    struct host *host;
    pthread_mutex_t lock;
    struct brig_run *run;        /* under `lock`; NULL: closed */
    int input;                   /* memory file behind the guest's stdin, or -1 */
    pid_t pid;                   /* whose it is: of no use in a fork of that process */
    struct run *next, *previous; /* under runs_lock, while there is a `run` */
};

/* Held while a host starts or warms something, and while the process forks: a fork has the handle
 * as it is between two starts, never in the middle of one. */
extern pthread_mutex_t host_lock;

/* All runs of the process, for forks: a fork takes the lock of each, so that it has none in the
 * middle of a step, and lets go of its copies. */
void runs_before_fork(void);
void runs_after_fork_here(void);
void runs_after_fork_there(void);

/* _plain.c: functions of the module. */
PyObject *plain_job(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *plain_value(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* The types, of this module. */
struct types {
    PyObject *spec, *host, *run, *template;
};
extern PyType_Spec spec_type, host_type, run_type, template_type;

/* Raise the exception of brig._errors for a fault. Always NULL. */
PyObject *raise_error(const struct brig_error *error);
/* The same for a request that makes no sense. */
PyObject *raise_usage(const char *text);

/* A run that is not there yet, and what makes it one: while host_lock is held, so that no fork
 * comes between the start and its being known. It owns both from there on. */
struct run *run_new(PyObject *type, struct host *host);
void run_fill(struct run *self, struct brig_run *run, int input);

/* Its method answer(). */
PyObject *run_answer(PyObject *object, PyObject *unused);

#endif
