/* SPDX-License-Identifier: MIT */
/* Control groups: one cgroup per run, on any kind of hierarchy that the host offers.
 *
 *   place   the directories in which cgroups can be created, found once per brig_open()
 *   group   the cgroup of one run (on v1 several directories, one per controller)
 *
 * group.c creates, names, sweeps and removes cgroups. Each kind of hierarchy has one small table of
 * functions: group_v2.c, group_v1.c. Without a place, sample.c replaces the counters. */
#ifndef LIB_GROUP_H
#define LIB_GROUP_H

#include "brig.h"
#include "child/protocol.h"

enum controller { CONTROL_MEMORY = 1, CONTROL_PIDS = 2, CONTROL_CPU = 4, CONTROL_CPUACCT = 8 };

#define GROUP_DIRS_MAX INIT_GROUPS_MAX

struct group_backend;

struct group_place {
    const struct group_backend *backend; /* NULL if the host offers no cgroups */
    unsigned controllers;                /* controllers that can be enforced or read */
    size_t count;
    int dirs[GROUP_DIRS_MAX];          /* directories in which the cgroup of a run is created */
    unsigned serves[GROUP_DIRS_MAX];   /* the controllers of each directory */
    char path[256];                    /* of the first directory, for messages */
    char why[256];                     /* the reason if something is missing; otherwise empty */
    int fault;                         /* errno of a check that gave no answer; or 0 */
    char prefix[GROUP_NAME_SIZE - 24]; /* prefix of the names that this process gives */
    unsigned next;
    int leaf_parent; /* v2: the supervisor was moved to a leaf of this directory; -1 if not */
    char leaf[GROUP_NAME_SIZE];
};

struct group_limits {
    uint64_t memory_bytes, pids, milli_cpus; /* BRIG_UNLIMITED leaves a limit unset */
    bool account_cpu;                        /* CPU time must be readable during the run */
    bool low_priority;                       /* other processes come first */
};

/* Counters that the hierarchy does not offer are BRIG_UNKNOWN. */
struct group_counters {
    uint64_t memory_now, memory_peak, pids_now, pids_peak, cpu_user_ns, cpu_system_ns, oom_kills,
        pids_refused;
};

struct group {
    const struct group_place *place; /* NULL if no cgroup was created */
    char name[GROUP_NAME_SIZE];
    int dirs[GROUP_DIRS_MAX]; /* the directories of the run; -1 if one was not created */
    int pids_events;          /* polls EPOLLPRI after a refused fork; or -1 */
    int memory_events;        /* readable after the cgroup ran out of memory; or -1 */
    /* Init writes kill_byte to it, to kill the cgroup or stop its growth. */
    int kill_fd;
    char kill_byte;
};

/* A cgroup that was not created: the initial value of every struct group. */
#define GROUP_NONE                                                                                 \
    (struct group)                                                                                 \
    {                                                                                              \
        .dirs = {-1, -1, -1, -1, -1}, .pids_events = -1, .memory_events = -1, .kill_fd = -1        \
    }
_Static_assert(GROUP_DIRS_MAX == 5, "GROUP_NONE lists the directories one by one");

/* The functions of one kind of hierarchy. */
struct group_backend {
    const char *name; /* "cgroup v2" */
    /* Fill in directories, controllers, path and why, from the contents of /proc/self/cgroup.
     * Returns 0 if there is a place at all. */
    int (*find)(struct group_place *place, const char *own_groups);
    /* Set the limits of a cgroup whose directories exist, and open its event file descriptors. */
    int (*limit)(struct group *group, const struct group_limits *limits, struct brig_error *err);
    void (*read)(const struct group *group, struct group_counters *counters, bool now);
    /* Send SIGKILL to every process in it, without waiting for their end. */
    void (*kill)(const struct group *group);
};

extern const struct group_backend group_backend_v1, group_backend_v2;

/* Never fails: without a place, backend is NULL and `why` has the reason. Also removes the cgroups
 * of dead supervisors. */
void group_place_open(struct group_place *place);
void group_place_close(struct group_place *place);
/* Name new cgroups after this process: for a fork of the process that opened the place. */
void group_place_rename(struct group_place *place);

struct group_guard;

/* The guard is started before anything is created; NULL if the cgroup needs none. */
int group_create(struct group *group, struct group_place *place, const struct group_limits *limits,
                 struct group_guard *guard, struct brig_error *err);
void group_read(const struct group *group, struct group_counters *counters);
/* Like group_read(), at the end of a run, without the current values. */
void group_read_final(const struct group *group, struct group_counters *counters);
/* The number of refused forks, read from the file descriptor that polls for them: only reading it
 * clears the event. BRIG_UNKNOWN if there is none. */
uint64_t group_pids_refused(const struct group *group);
void group_kill(const struct group *group);
/* Kill the processes left in it, remove it, and close everything. Bounded in time; accepts a cgroup
 * that is only partly created. Returns 0, or -errno if the cgroup could not be removed. */
int group_remove(struct group *group);
/* Close everything but leave the cgroup to the process that owns it. */
void group_forget(struct group *group);

/* True if there is a process in the cgroup. */
bool group_populated(const struct group *group);

/* ---- group_files.c, for the backends ---- */

/* True if this process may create an entry in the directory, or write to the file there. An error
 * that is no clear answer is kept in the place: a limit must not be dropped because the check
 * failed. */
bool group_may_write(struct group_place *place, int dir, const char *name);
/* Record an error of the search for the place in the same way. */
void group_note_fault(struct group_place *place, int errnum);

/* The first number after `key` in a file of "key value" lines; BRIG_UNKNOWN if there is none. */
uint64_t group_read_key(int dir, const char *file, const char *key);
/* The number in a file; BRIG_UNKNOWN for "max" and on failure. */
uint64_t group_read_number(int dir, const char *file);
/* Write a number; BRIG_UNLIMITED writes nothing. */
int group_write_number(int dir, const char *file, uint64_t value);
/* Send SIGKILL once to every process that cgroup.procs in the directory lists, if it belongs to the
 * cgroup of that name. Returns their number. */
int group_kill_listed(int dir, const char *group);
/* Find the path in the hierarchy with that controller ("" for v2) in the lines of
 * /proc/self/cgroup. `controllers` receives the list of controllers of that line. Returns 0 or
 * -errno. */
int group_own_path(const char *own_groups, const char *controller, char *controllers,
                   size_t controllers_size, char *path, size_t path_size);

#endif
