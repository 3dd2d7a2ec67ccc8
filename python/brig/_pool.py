"""At most so many runs at once, in the order in which they were asked for."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from . import _brig, aio
from ._api import run
from ._closing import Closing
from ._host import get_host
from ._result import Result
from ._spec import ALSO, Command, make_shape


class _Waiter:
    """Somebody who wants a place, and may have it. Whether it has one is written down together with the
    number of those who do: an exception of a signal handler in between loses none."""

    granted = False

    def __init__(self, wake: Callable[[], object]) -> None:
        self.wake = wake


class _Place(_Waiter):
    """A place in a pool, for a `with` in a thread. Not a generator, which takes ten times as long."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __enter__(self) -> None:
        pool = self._pool
        try:
            with pool._lock:
                if not pool._waiting and pool._running < pool._limit:
                    pool._running, self.granted = pool._running + 1, True
            if not self.granted:
                self._wait()
        except BaseException:
            pool._leave(self)
            raise

    def _wait(self) -> None:
        turn = threading.Semaphore(0)
        self.wake = turn.release
        if not self._pool._join(self):
            turn.acquire()

    def __exit__(self, *_: object) -> None:
        try:
            self._pool._leave(self)
        except BaseException:
            self._pool._leave(self)  # as far as it did not
            raise


class Pool(Closing):
    """A limiter of runs for all threads and event loops of a process.

        pool = brig.Pool(max_concurrent=4, memory="512M")
        pool.run(["make"])                  # in a thread
        await pool.arun(["make"])           # in an event loop

    The rest wait in order. Waiting does not count against a run's timeout, which begins with its
    start. Keywords given here are the defaults of its runs. With warm=N, N cells of the shape of
    those keywords are kept built ahead, which makes a start much faster; close() ends them.
    """

    def __init__(self, max_concurrent: int = 4, *, warm: int = 0, **keys: Any) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self._woken: deque[_Waiter] = deque()  # or about to be
        self._running = 0
        self._limit = _whole("max_concurrent", max_concurrent, 1)
        warm = _whole("warm", warm, 0)
        self._keys = keys
        self._shape: _brig.Spec | None = None
        shape = make_shape({k: v for k, v in keys.items() if k not in ALSO})
        _pools.add(self)
        if warm:
            get_host().warm(shape, warm)
            self._shape = shape

    # ---- numbers ----

    @property
    def max_concurrent(self) -> int:
        """How many may run at once; resize() changes it."""
        return self._limit

    @property
    def running(self) -> int:
        """How many run now. After resize() to fewer it may be more than max_concurrent for a while."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._waiting)

    @property
    def warm_ready(self) -> int:
        """How many cells are ready."""
        return get_host().warm_ready(self._shape) if self._shape is not None else 0

    def resize(self, max_concurrent: int) -> None:
        """From now on so many at once. More: those who wait start at once. Fewer: what runs goes
        on to its end, and nothing new starts before enough of it has ended."""
        limit = _whole("max_concurrent", max_concurrent, 1)
        with self._lock:
            self._limit = limit
            self._grant()
        self._wake()

    # ---- running ----

    def run(self, cmd: Command, **keys: Any) -> Result:
        """brig.run(), when there is a place for it."""
        with self._place():
            return run(cmd, **{**self._keys, **keys})

    async def arun(self, cmd: Command, **keys: Any) -> Result:
        """brig.aio.run(), when there is a place for it. May be cancelled while it waits."""
        async with self._aplace():
            return await aio.run(cmd, **{**self._keys, **keys})

    def close(self) -> None:
        """End the cells that were built ahead. Runs go on, and the pool can still be used."""
        shape, self._shape = self._shape, None
        if shape is not None:
            get_host().warm(shape, 0)

    # ---- places ----

    # Whatever is interrupted here can be done again: nothing is taken off one list before it is on
    # another, and to be woken twice is no harm.

    def _grant(self) -> None:
        """Give free places to those who came first; under the lock. They are woken outside of it."""
        while self._waiting and (self._waiting[0].granted or self._running < self._limit):
            waiter = self._waiting[0]
            if not waiter.granted:
                self._running, waiter.granted = self._running + 1, True
            self._woken.append(waiter)
            self._waiting.popleft()

    def _wake(self) -> None:
        while self._woken:
            try:
                waiter = self._woken[0]
            except IndexError:  # somebody else was faster
                return
            try:
                waiter.wake()
            except RuntimeError:  # its event loop is closed: nobody will come
                self._take_back(waiter)
            try:
                self._woken.remove(waiter)
            except ValueError:
                pass

    def _join(self, waiter: _Waiter) -> bool:
        """Stand in line; has it a place already?"""
        with self._lock:
            self._waiting.append(waiter)
            self._grant()
        self._wake()
        return waiter.granted

    def _take_back(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter.granted:
                self._running, waiter.granted = self._running - 1, False
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            if self._waiting:
                self._grant()

    def _leave(self, waiter: _Waiter) -> None:
        """It does not need its place any more, or gives up waiting for one."""
        self._take_back(waiter)
        if self._woken:
            self._wake()

    def _place(self) -> _Place:
        return _Place(self)

    @asynccontextmanager
    async def _aplace(self) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        waiter = _Waiter(lambda: loop.call_soon_threadsafe(_resolve, turn))
        try:
            if not self._join(waiter):
                await turn
            yield
        finally:
            self._leave(waiter)

    def _forget(self) -> None:
        """In a fork: the parent's runs and those who wait there are the parent's."""
        self._lock = threading.Lock()
        self._waiting = deque()
        self._woken = deque()
        self._running = 0
        self._shape = None


def _resolve(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


def _whole(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: {type(value).__name__} is no int")
    if value < least:
        raise ValueError(f"{name}: {value} is less than {least}")
    return value


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _forget_all() -> None:
    for pool in list(_pools):
        pool._forget()


os.register_at_fork(after_in_child=_forget_all)
