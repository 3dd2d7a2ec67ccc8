/* SPDX-License-Identifier: MIT */
/* Queues the events of one step of a run. Events beyond RUN_EVENTS_MAX are dropped. */
#include "base/clock.h"
#include "run.h"

void run_push_event(struct brig_run *run, struct brig_event event)
{
    if (!run->events.watched || run->events.count == RUN_EVENTS_MAX)
        return;
    event.sequence = ++run->events.sequence;
    event.elapsed_ns = clock_now() - run->clocks.started;
    run->events.items[run->events.count++] = event;
}

int brig_run_next_event(struct brig_run *run, struct brig_event *event)
{
    if (run->events.next == run->events.count)
        return 0;
    *event = run->events.items[run->events.next++];
    return 1;
}
