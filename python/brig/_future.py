# SPDX-License-Identifier: MIT
"""Futures of runs: those of concurrent.futures, but cancel() ends a run that is in progress.

For its base class, a future is pending until its run is over, and only then running, for a moment:
a pending future can be cancelled, and this needs nothing but the documented methods of the base.
"""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Callable, TypeVar

from . import _brig

T = TypeVar("T")

Start = Callable[[], _brig.Run]
Finish = Callable[[_brig.Run], T]


class Future(concurrent.futures.Future[T]):
    """The future of a run or call."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._begun = self._unwanted = False
        self._raw: _brig.Run | None = None

    def running(self) -> bool:
        """True if the run is in progress."""
        return self._begun and not self.done()

    def cancel(self) -> bool:
        """Cancel the run, and kill all of its processes if it is in progress. Returns True unless
        it is over. The future is cancelled at once; wait() and as_completed() give it when its
        processes are gone."""
        with self._lock:
            first, self._unwanted = not self._unwanted, True
            begun = self._begun
        if not super().cancel():
            return False
        if begun:
            self._kill()
        elif first:
            self.set_running_or_notify_cancel()
        return True

    def _kill(self) -> None:
        raw = self._raw
        if raw is not None:
            raw.cancel("its future was cancelled")
            raw.cancel()  # does not wait for kill_after

    # ---- for the thread that runs it ----

    def _begin(self) -> bool:
        """False if it was cancelled before."""
        with self._lock:
            self._begun = not self._unwanted
            return self._begun

    def _run(self, start: Start, finish: Finish[T]) -> None:
        """Start the run, and set the value of finish() or the exception."""
        error: BaseException | None = None
        try:
            self._raw = raw = start()
            try:
                if self._unwanted:  # cancel() may have come before the run was known
                    self._kill()
                value = finish(raw)
            finally:
                raw.close()
        except BaseException as raised:
            error = raised
        self._raw = None
        if not self.set_running_or_notify_cancel():
            return
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(value)
