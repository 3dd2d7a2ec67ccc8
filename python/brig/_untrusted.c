/* SPDX-License-Identifier: MIT */
/* The cost of a guest's value, computed before objects are built from it. The guest may choose
 * every byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_brig.h"

/* ---- JSON ---------------------------------------------------------------------------------- */

struct weight {
    Py_ssize_t values; /* an upper bound of the number of values */
    Py_ssize_t number; /* length of the longest number */
};

static const char *skip_string(const char *at, const char *end)
{
    for (at++; at < end && *at != '"'; at++)
        at += *at == '\\';
    return at < end ? at + 1 : end;
}

static struct weight weigh(const char *at, const char *end)
{
    struct weight weight = {1, 0};
    Py_ssize_t number = 0;
    while (at < end) {
        if (*at == '"') {
            at = skip_string(at, end);
            number = 0;
            continue;
        }
        weight.values += *at == ',' || *at == '[' || *at == '{';
        number =
            (*at >= '0' && *at <= '9') || *at == '.' || *at == '+' || *at == '-' ? number + 1 : 0;
        weight.number = number > weight.number ? number : weight.number;
        at++;
    }
    return weight;
}

PyObject *json_weight(PyObject *module, PyObject *text)
{
    char *bytes;
    Py_ssize_t len;
    if (PyBytes_AsStringAndSize(text, &bytes, &len) < 0)
        return NULL;
    struct weight weight;
    PyThreadState *state = PyEval_SaveThread();
    weight = weigh(bytes, bytes + len);
    PyEval_RestoreThread(state);
    return Py_BuildValue("(nn)", weight.values, weight.number);
}

/* ---- hashes -------------------------------------------------------------------------------- */

/* The hash of a number is the same in every process, so a guest can choose numbers that collide in
 * a dict although their hashes differ. This simulates CPython's insertion with one bit per slot, to
 * count the probed slots.
 *
 * A table grows as it is filled, and all entries are inserted again; so all sizes are counted. */
struct table {
    unsigned char *taken;
    size_t mask;
    bool set; /* not a dict: some neighbours are probed before the next slot */
    uint64_t looks, most;
};

#define NEIGHBOURS 9 /* LINEAR_PROBES of setobject.c */
#define SHIFT      5 /* PERTURB_SHIFT of both */
#define SMALLEST   8

static bool take(struct table *table, size_t at)
{
    table->looks++;
    if (table->taken[at / 8] >> at % 8 & 1)
        return false;
    table->taken[at / 8] |= (unsigned char)(1 << at % 8);
    return true;
}

static void insert(struct table *table, Py_hash_t hash)
{
    size_t perturb = (size_t)hash, at = perturb & table->mask;
    while (table->looks <= table->most) {
        size_t more = table->set && at + NEIGHBOURS <= table->mask ? NEIGHBOURS : 0;
        for (size_t i = 0; i <= more; i++) {
            if (take(table, at + i))
                return;
        }
        perturb >>= SHIFT;
        at = (at * 5 + 1 + perturb) & table->mask;
    }
}

/* Returns false if memory is short. */
static bool fill(struct table *table, size_t size, const Py_hash_t *hashes, size_t count)
{
    table->mask = size - 1;
    table->taken = calloc(size / 8, 1);
    for (size_t i = 0; table->taken && i < count && table->looks <= table->most; i++)
        insert(table, hashes[i]);
    free(table->taken);
    return table->taken != NULL;
}

static bool count_looks(struct table *table, const Py_hash_t *hashes, size_t count)
{
    size_t fits = 0;
    bool ok = true;
    for (size_t size = SMALLEST; ok && fits < count && table->looks <= table->most; size *= 2) {
        fits = table->set ? size * 3 / 5 : size * 2 / 3;
        ok = fill(table, size, hashes, fits < count ? fits : count);
    }
    return ok;
}

static bool take_hashes(PyObject *values, Py_hash_t *hashes, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        hashes[i] = PyObject_Hash(PyList_GetItem(values, i));
        if (hashes[i] == -1 && PyErr_Occurred())
            return false;
    }
    return true;
}

PyObject *hash_looks(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    if (count != 3 || !PyList_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "hash_looks(list, bool, int)");
    Py_ssize_t len = PyList_Size(args[0]), most = PyLong_AsSsize_t(args[2]);
    struct table table = {.set = args[1] == Py_True, .most = most < 0 ? 0 : (uint64_t)most};
    if (PyErr_Occurred())
        return NULL;
    Py_hash_t *hashes = malloc((size_t)(len ? len : 1) * sizeof *hashes);
    bool ok = hashes != NULL;
    if (ok && !take_hashes(args[0], hashes, len)) {
        free(hashes);
        return NULL;
    }
    PyThreadState *state = PyEval_SaveThread();
    ok = ok && count_looks(&table, hashes, (size_t)len);
    free(hashes);
    PyEval_RestoreThread(state);
    return ok ? PyLong_FromUnsignedLongLong(table.looks) : PyErr_NoMemory();
}
