"""The thread that steps what start() started, whatever the caller does meanwhile.

A library without threads needs somebody who steps its runs, or their clocks stand still: a caller
who sleeps between two events must not stretch the run's timeout, or hold up its output. One thread
serves all runs of the process, is there only while there are some, and does not exist in a fork.
"""

from __future__ import annotations

import atexit
import os
import select
import threading
from typing import Protocol


class Kept(Protocol):
    """What can be kept: stepped when its descriptor is readable, until it is over."""

    def _fd(self) -> int: ...

    def _step(self) -> bool: ...

    def _free(self) -> None: ...

    def _end_now(self) -> None: ...


class Keeper:
    """The runs of one process and their thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[int, Kept] = {}
        self._epoll: select.epoll | None = None

    def add(self, run: Kept) -> None:
        """Step it from now on."""
        fd = run._fd()
        with self._lock:
            self._runs[fd] = run
            if self._epoll is None:
                self._epoll = select.epoll()
                thread = threading.Thread(
                    target=self._serve, args=(self._epoll,), name="brig-keeper", daemon=True
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
                    run._free()  # its descriptors, now that they are not watched
                del run
            with self._lock:
                if not self._runs:
                    self._epoll = None
                    epoll.close()
                    return

    def end_all(self) -> None:
        """At the end of the interpreter: nothing survives."""
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run._end_now()


_keeper = Keeper()


def keep(run: Kept) -> None:
    """Give a run to this process's keeper."""
    _keeper.add(run)


def _new_keeper() -> None:
    # The parent's runs are the parent's. Its epoll is one with ours: to close the copy is fine.
    global _keeper
    epoll, _keeper = _keeper._epoll, Keeper()
    if epoll is not None:
        epoll.close()


os.register_at_fork(after_in_child=_new_keeper)
atexit.register(lambda: _keeper.end_all())
