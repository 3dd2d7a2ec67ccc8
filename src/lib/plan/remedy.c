/* SPDX-License-Identifier: MIT */
/* Finds out how to fix a host that allows no cells, from the kernel's settings and from the
 * confinement of this process. Implements brig_cell_fix(). Reads only; changes nothing. */
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "brig.h"
#include "remedy.h"

#define CAP_SYS_ADMIN_BIT (1ULL << 21)

/* Read a file below /proc; "" if it cannot be read. */
static const char *read_proc(const char *proc, const char *name, char *text, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", proc, name);
    if (fd_read_file(AT_FDCWD, path, text, size) < 0)
        text[0] = 0;
    return text;
}

static bool setting_is(const char *proc, const char *name, long value)
{
    char text[64], path[128];
    snprintf(path, sizeof path, "sys/%s", name);
    read_proc(proc, path, text, sizeof text);
    return text[0] && strtol(text, NULL, 10) == value;
}

/* The kernel's description of this process. */
struct self {
    char status[8192];
    char label[256]; /* the AppArmor profile that confines it */
};

/* Did another program install a seccomp filter? */
static bool is_filtered(const struct self *self)
{
    return strstr(self->status, "\nSeccomp:\t2\n");
}

static bool is_administrator(const struct self *self)
{
    const char *line = strstr(self->status, "\nCapEff:\t");
    return line && (strtoull(line + strlen("\nCapEff:\t"), NULL, 16) & CAP_SYS_ADMIN_BIT);
}

/* Ubuntu's kernels restrict user namespaces for programs without an AppArmor profile. Other kernels
 * have the same setting, and it has no effect there. So it counts only if nothing else explains the
 * refusal. */
static bool is_held_by_apparmor(const char *proc, const struct self *self)
{
    return setting_is(proc, "kernel/apparmor_restrict_unprivileged_userns", 1) &&
           strncmp(self->label, "unconfined", strlen("unconfined")) == 0 && !is_administrator(self);
}

static bool look_at(const char *proc, const char *name, struct statx *out)
{
    char path[256];
    snprintf(path, sizeof path, "%s%s", proc, name);
    return syscall(SYS_statx, AT_FDCWD, path, 0, STATX_INO | STATX_MNT_ID, out) == 0;
}

/* The kernel makes no user namespace for a process whose root is not the root of its mount
 * namespace. If the root is a directory within a mount, this is certain. If it is a mount itself,
 * compare it with the root of pid 1, if that is in the same namespace and readable. */
static bool is_chrooted(const char *proc)
{
    struct statx own, first, own_namespace, first_namespace;
    if (!look_at("", "/", &own))
        return false;
    if ((own.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) &&
        !(own.stx_attributes & STATX_ATTR_MOUNT_ROOT))
        return true;
    return look_at(proc, "/self/ns/mnt", &own_namespace) &&
           look_at(proc, "/1/ns/mnt", &first_namespace) &&
           own_namespace.stx_ino == first_namespace.stx_ino && look_at(proc, "/1/root", &first) &&
           (own.stx_mask & first.stx_mask & STATX_MNT_ID) && own.stx_mnt_id != first.stx_mnt_id;
}

const char *remedy_find(const char *proc, const char *why)
{
    struct self self;
    read_proc(proc, "self/status", self.status, sizeof self.status);
    read_proc(proc, "self/attr/current", self.label, sizeof self.label);
    static const char container[] =
        "a container's seccomp profile forbids it: start the container with --security-opt "
        "seccomp=unconfined --security-opt systempaths=unconfined (and apparmor=unconfined where "
        "there is AppArmor)";
    if (is_filtered(&self) && strstr(why, error_text(ENOSYS))) /* the filter hides a call */
        return container;
    if (setting_is(proc, "user/max_user_namespaces", 0))
        return "sysctl -w user.max_user_namespaces=15000";
    if (setting_is(proc, "kernel/unprivileged_userns_clone", 0) && !is_administrator(&self))
        return "sysctl -w kernel.unprivileged_userns_clone=1";
    if (is_chrooted(proc))
        return "this is a chroot, where the kernel makes no user namespace: enter it with "
               "pivot_root, as a container runtime does";
    if (is_filtered(&self)) /* such a container also covers parts of /proc */
        return container;
    if (is_held_by_apparmor(proc, &self))
        return "AppArmor forbids it to programs without a profile: load the profile of brig "
               "(docs/INSTALL.md), or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
    if (strstr(why, "namespace") && strstr(why, error_text(EPERM))) /* no filter is the cause */
        return "this is a chroot, where the kernel makes no user namespace (enter it with "
               "pivot_root, as a container runtime does), or a security module forbids them";
    if (strstr(why, "/proc"))
        return "parts of /proc are covered, as in a container: start it with --security-opt "
               "systempaths=unconfined";
    return "in a container: start it with --security-opt seccomp=unconfined --security-opt "
           "apparmor=unconfined --security-opt systempaths=unconfined";
}

const char *brig_cell_fix(const char *why)
{
    return remedy_find("/proc", why);
}
