# SPDX-License-Identifier: MIT
"""How many calls of a template are forked ahead: a fixed number, or as many as the rate of calls
needs.

A call counts itself, which must cost it next to nothing. Every few calls their rate is compared
with the time in which forks are renewed. A thread, which exists only while there are more forks
than the least, lowers the number when calls come more slowly or not at all.
"""

from __future__ import annotations

import threading
import time

from . import _brig
from ._host import get_host

PARKED_LEAST, PARKED_MOST = 1, 8
"""The bounds of the number if it adapts."""

RENEWAL = 0.06
"""Seconds for which the forks should suffice: some are made in that time on a busy machine."""

EVERY = 8
"""Calls between two looks at their rate."""

QUIET = 1.0
"""Seconds between two looks of the thread."""


class Parked:
    """The forks ahead of one template. `number` is fixed, or None."""

    def __init__(self, spec: _brig.Spec, number: int | None) -> None:
        self._spec = spec
        self._fixed = number is not None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._watched = False
        self._calls = 0
        self._looked_at = (0, time.monotonic())  # calls and time
        self.number = PARKED_LEAST if number is None else number
        if self.number:
            get_host().warm(spec, self.number)

    def count(self) -> None:
        """One more call. Threads may lose some of their counts, which does no harm."""
        self._calls += 1
        if self._calls % EVERY == 0 and not self._fixed:
            self._look(False)

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            if self.number:
                get_host().warm(self._spec, 0)

    def _look(self, lower: bool) -> None:
        with self._lock:
            calls, now = self._calls, time.monotonic()
            before, then = self._looked_at
            self._looked_at = (calls, now)
            rate = (calls - before) / max(now - then, 1e-3)
            wanted = max(PARKED_LEAST, min(PARKED_MOST, round(rate * RENEWAL)))
            if self._closed.is_set() or wanted == self.number or (wanted < self.number and not lower):
                return
            self.number = wanted
            get_host().warm(self._spec, wanted)
            if not self._watched:
                threading.Thread(target=self._watch, name="brig-parked", daemon=True).start()
                self._watched = True

    def _watch(self) -> None:
        while not self._closed.wait(QUIET):
            self._look(True)
            with self._lock:
                if self.number == PARKED_LEAST:
                    self._watched = False
                    return
