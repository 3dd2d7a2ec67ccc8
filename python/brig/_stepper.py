# SPDX-License-Identifier: MIT
"""The thread that steps runs started by start(), no matter what the caller does.

The library has no thread that steps runs, and without steps their timeouts do not fire: a caller
that sleeps between two events must neither extend the run's timeout nor delay its output. One
thread steps all runs of the process. It exists only while there are runs, and not in a fork.
"""

from __future__ import annotations

import atexit
import os
import select
import threading
from typing import Protocol


class Stepped(Protocol):
    """An object with a run: stepped when its file descriptor is readable, until it is over."""

    def _fd(self) -> int: ...

    def _step(self) -> bool: ...

    def _free(self) -> None: ...

    def _end_now(self) -> None: ...


class Stepper:
    """The runs of one process, and the thread that steps them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[int, Stepped] = {}
        self._epoll: select.epoll | None = None

    def add(self, run: Stepped) -> None:
        """Step the run from now on."""
        fd = run._fd()
        with self._lock:
            self._runs[fd] = run
            if self._epoll is None:
                self._epoll = select.epoll()
                thread = threading.Thread(
                    target=self._serve, args=(self._epoll,), name="brig-stepper", daemon=True
                )
                self._epoll.register(fd, select.EPOLLIN)
                thread.start()
            else:
                self._epoll.register(fd, select.EPOLLIN)

    def _serve(self, epoll: select.epoll) -> None:
        while True:
            for fd, _ in epoll.poll():
                run = self._runs[fd]
                if run._step():
                    with self._lock:
                        epoll.unregister(fd)
                        del self._runs[fd]
                    run._free()  # closes its file descriptors, which are not polled any more
                del run
            with self._lock:
                if not self._runs:
                    self._epoll = None
                    epoll.close()
                    return

    def end_all(self) -> None:
        """At the end of the interpreter: end all runs."""
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run._end_now()


_stepper = Stepper()


def step_in_thread(run: Stepped) -> None:
    """Let the thread of this process step the run."""
    _stepper.add(run)


def _new_stepper() -> None:
    # The runs belong to the parent. Closing our copy of its epoll file descriptor does not affect
    # it.
    global _stepper
    epoll, _stepper = _stepper._epoll, Stepper()
    if epoll is not None:
        epoll.close()


os.register_at_fork(after_in_child=_new_stepper)
atexit.register(lambda: _stepper.end_all())
