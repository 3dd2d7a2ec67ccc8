/* Control groups: one group per run, on whatever this host offers.
 *
 *   place   where groups can be made, found once per brig_open()
 *   group   the group of one run (several folders on v1, one per controller)
 *
 * group.c makes, names, sweeps and removes; what differs between the kinds of hierarchy is one
 * small table per kind: group_v2.c, group_v1.c. Without a place, sample.c stands in. */
#ifndef LIB_GROUP_H
#define LIB_GROUP_H

#include "brig.h"
#include "child/protocol.h"

enum controller { CONTROL_MEMORY = 1, CONTROL_PIDS = 2, CONTROL_CPU = 4, CONTROL_CPUACCT = 8 };

#define GROUP_FOLDERS_MAX INIT_GROUPS_MAX

struct group_backend;

struct group_place {
    const struct group_backend *backend; /* NULL: no groups here */
    unsigned controllers;                /* what can be enforced or read */
    size_t count;
    int folders[GROUP_FOLDERS_MAX];     /* in which a group of a run is made */
    unsigned serves[GROUP_FOLDERS_MAX]; /* the controllers of each */
    char path[256];                     /* of the first one, for people */
    char why[256];                      /* why something is missing; empty if nothing is */
    char prefix[GROUP_NAME_SIZE - 24];  /* of the names this process gives */
    unsigned next;
    int leaf_parent; /* v2: the supervisor was moved to a leaf of this folder; -1: it was not */
    char leaf[GROUP_NAME_SIZE];
};

struct group_limits {
    uint64_t memory_bytes, pids, milli_cpus; /* BRIG_UNLIMITED: leave it */
    bool account_cpu;                        /* processor time has to be readable while it runs */
    bool low_priority;                       /* others come first */
};

/* BRIG_UNKNOWN where the hierarchy does not say. */
struct group_counters {
    uint64_t memory_now, memory_peak, pids_now, pids_peak, cpu_user_ns, cpu_system_ns, oom_kills,
        pids_refused;
};

struct group {
    const struct group_place *place; /* NULL: none was made */
    char name[GROUP_NAME_SIZE];
    int folders[GROUP_FOLDERS_MAX]; /* the run's own; -1 where one was not made */
    int pids_events;                /* polls EPOLLPRI when a fork was refused; -1 */
    int memory_events;              /* polls when the group ran out of memory; -1 */
    int kill_fd;                    /* what init writes kill_byte to, to end or hold the group */
    char kill_byte;
};

/* A group that was not made: what every struct group starts as. */
#define GROUP_NONE                                                                                 \
    (struct group)                                                                                 \
    {                                                                                              \
        .folders = {-1, -1, -1, -1, -1}, .pids_events = -1, .memory_events = -1, .kill_fd = -1     \
    }
_Static_assert(GROUP_FOLDERS_MAX == 5, "GROUP_NONE lists the folders one by one");

/* One kind of hierarchy. */
struct group_backend {
    const char *name; /* "cgroup v2" */
    /* Fill in folders, controllers, path and why, from what /proc/self/cgroup says. Returns 0 if
     * there is a place at all. */
    int (*find)(struct group_place *place, const char *own_groups);
    /* Set the limits of a group whose folders are made, and open its event descriptors. */
    int (*limit)(struct group *group, const struct group_limits *limits, struct brig_error *err);
    void (*read)(const struct group *group, struct group_counters *counters, bool now);
    /* SIGKILL to every process in it, without waiting for them to be gone. */
    void (*kill)(const struct group *group);
};

extern const struct group_backend group_backend_v1, group_backend_v2;

/* Never fails: a host without a place gets backend NULL and a reason in `why`. Also removes the
 * groups of supervisors that are dead. */
void group_place_open(struct group_place *place);
void group_place_close(struct group_place *place);
/* Give new groups names of this process: for a fork of the one that opened the place. */
void group_place_rename(struct group_place *place);

int group_create(struct group *group, struct group_place *place, const struct group_limits *limits,
                 struct brig_error *err);
void group_read(const struct group *group, struct group_counters *counters);
/* The same at the end, without what is there now. */
void group_read_final(const struct group *group, struct group_counters *counters);
/* How many forks were refused, by the descriptor that polls for it: reading it is what takes the
 * event back. BRIG_UNKNOWN if there is none. */
uint64_t group_pids_refused(const struct group *group);
void group_kill(const struct group *group);
/* Kills what is left in it, removes it, closes everything. Bounded in time; accepts a half-made
 * one. Returns 0 or -errno if the group could not be removed. */
int group_remove(struct group *group);
/* Closes everything and leaves the group alone: it is another process's. */
void group_forget(struct group *group);

/* Is any process in the group? */
bool group_populated(const struct group *group);

/* ---- for the backends ---- */

/* The first number behind `key` in a file of "key value" lines; BRIG_UNKNOWN if it is not there. */
uint64_t group_read_key(int folder, const char *file, const char *key);
/* The number that a file holds; BRIG_UNKNOWN for "max" and on failure. */
uint64_t group_read_number(int folder, const char *file);
/* Write a number; BRIG_UNLIMITED is left out. */
int group_write_number(int folder, const char *file, uint64_t value);
/* Send SIGKILL to every process listed in cgroup.procs of the folder of the group with that name,
 * once. Returns how many. */
int group_kill_listed(int folder, const char *group);
/* From the lines of /proc/self/cgroup, the path in the hierarchy with that controller ("" for v2):
 * 0 or -errno. The part of the line that names the controllers goes to `controllers`. */
int group_own_path(const char *own_groups, const char *controller, char *controllers,
                   size_t controllers_size, char *path, size_t path_size);

#endif
