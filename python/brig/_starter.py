# SPDX-License-Identifier: MIT
"""The thread that starts runs for event loops.

A start takes some milliseconds, and the starts of a process are serialized in any case: one thread
does as many as several, and a hundred at once do not block their loop. The thread exists only while
there is something to start.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from concurrent.futures import Future
from typing import Callable, TypeVar

from . import _brig

T = TypeVar("T")
Start = Callable[[], _brig.Run]


class Starter:
    """The waiting starts of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[_brig.Run], Start]] = deque()
        self._at_work = False

    def add(self, start: Start) -> Future[_brig.Run]:
        future: Future[_brig.Run] = Future()
        with self._lock:
            self._waiting.append((future, start))
            if not self._at_work:
                threading.Thread(target=self._serve, name="brig-starter").start()
                self._at_work = True
        return future

    def _serve(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._at_work = False
                    return
                future, start = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(start())
            except BaseException as error:  # raised where the run is awaited
                future.set_exception(error)
            del future, start  # a run that nobody took is ended


_starter = Starter()


def start_in_thread(start: Start) -> Future[_brig.Run]:
    """Let the thread of this process start a run. A future that is cancelled before its turn starts
    nothing."""
    return _starter.add(start)


def _new_starter() -> None:
    global _starter
    _starter = Starter()


os.register_at_fork(after_in_child=_new_starter)
