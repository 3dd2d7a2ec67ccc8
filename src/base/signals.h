/* SPDX-License-Identifier: MIT */
/* Names of signals. */
#ifndef BASE_SIGNALS_H
#define BASE_SIGNALS_H

/* "KILL" for 9; NULL for a number without a name. */
const char *signal_name(int number);

#endif
