/* SPDX-License-Identifier: MIT */
/* Counters of a network namespace that show whether its processes tried to reach the outside. Used
 * by init; no libc. */
#ifndef CHILD_NETCOUNT_H
#define CHILD_NETCOUNT_H

#include <stdint.h>

/* Both read the namespace of the calling process and return 0 if /proc has no such counter. */
uint64_t netcount_no_routes(void); /* packets and connections without a route */
uint64_t netcount_no_ports(void);  /* UDP packets to local ports without a listener */

#endif
