/* SPDX-License-Identifier: MIT */
/* Reads and applies the operator's file:
 *
 *     { "maximum": { "memory": "8G", "timeout": "2h", "pids": 500 } }
 */
#include "operator.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/jsonr.h"

#define STAGE    "operator"
#define FILE_MAX 65536

static int check_owner(int fd, const char *path, struct brig_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_system(err, STAGE, errno, "%s: %s", path, error_text(errno));
    if (!S_ISREG(st.st_mode))
        return error_refused(err, STAGE, "%s: is not a regular file", path);
    if (st.st_uid != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)))
        return error_refused(
            err, STAGE, "%s: must belong to root, and nobody else may have write permission", path);
    return 0;
}

static int read_maximum(struct operator_limits *limits, const struct jsonr *value, const char *path,
                        struct brig_error *err)
{
    char number[JSONR_NUMBER_SIZE];
    const char *name = value->key, *text = NULL;
    char hint[NEAREST_HINT_SIZE];
    int index = key_find(name);
    if (index < 0 || !key_is_bounded(&key_table[index]))
        return error_refused(err, STAGE, "%s: maximum.%.80s: is not a limit%s", path, name,
                             key_hint(name, true, hint));
    if (!jsonr_scalar(value, &text, number))
        text = NULL;
    const char *why = text ? key_parse_number(&key_table[index], text, &limits->maximum[index])
                           : "is not a string or a number";
    if (why)
        return error_refused(err, STAGE, "%s: maximum.%s: \"%.80s\" %s", path, name,
                             text ? text : "", why);
    return 0;
}

static int read_object(struct operator_limits *limits, const struct jsonr *root, const char *path,
                       struct brig_error *err)
{
    for (const struct jsonr *value = root->first; value; value = value->next) {
        if (strcmp(value->key, "maximum") != 0 || value->type != JSONR_OBJECT)
            return error_refused(err, STAGE,
                                 "%s: only \"maximum\", an object, is known here; not "
                                 "\"%.80s\"",
                                 path, value->key);
        for (const struct jsonr *limit = value->first; limit; limit = limit->next) {
            int ret = read_maximum(limits, limit, path, err);
            if (ret < 0)
                return ret;
        }
    }
    return 0;
}

int operator_read(struct operator_limits *limits, const char *path, struct brig_error *err)
{
    struct operator_limits read;
    for (int i = 0; i < KEY_COUNT; i++)
        read.maximum[i] = BRIG_UNLIMITED;
    autofd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        *limits = read;
        return 0;
    }
    if (fd < 0)
        return error_system(err, STAGE, errno, "%s: %s", path, error_text(errno));
    int ret = check_owner(fd, path, err);
    if (ret < 0)
        return ret;
    autofree char *text = NULL;
    size_t len = 0;
    ret = fd_read_all(fd, FILE_MAX, &text, &len);
    if (ret < 0)
        return error_system(err, STAGE, -ret, "%s: %s", path, error_text(-ret));
    struct jsonr *root = jsonr_object(text, len, FILE_MAX, path, STAGE, err);
    if (!root) {
        if (err)
            err->fault = BRIG_FAULT_REFUSED; /* it is not the caller's mistake */
        return -EINVAL;
    }
    ret = read_object(&read, root, path, err);
    jsonr_free(root);
    if (ret == 0)
        *limits = read;
    return ret;
}

int operator_apply(const struct operator_limits *limits, enum key key, uint64_t value, bool asked,
                   uint64_t *out, struct brig_error *err)
{
    uint64_t maximum = limits->maximum[key];
    if (value > maximum && asked) {
        char want[KEY_TEXT_SIZE], most[KEY_TEXT_SIZE];
        key_format_number(&key_table[key], value, want);
        key_format_number(&key_table[key], maximum, most);
        if (strcmp(want, most) == 0) { /* equal when rounded: show the exact numbers */
            snprintf(want, sizeof want, "%llu", (unsigned long long)value);
            snprintf(most, sizeof most, "%llu", (unsigned long long)maximum);
        }
        int ret = error_refused(err, STAGE, "%s: %s is over the operator's maximum of %s",
                                key_table[key].name, want, most);
        if (err)
            err->key = key_table[key].name;
        return ret;
    }
    *out = value > maximum ? maximum : value;
    return 0;
}
