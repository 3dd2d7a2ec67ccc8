# SPDX-License-Identifier: MIT
"""A limit on parallel runs; the others wait in order."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, asynccontextmanager
from itertools import islice
from typing import Any, TypeVar

from . import _brig, _keywords, aio
from ._api import Run, run
from ._closing import Closing
from ._failures import run_failed
from ._future import Future
from ._host import get_host
from ._loop import make_turn
from ._result import Result, make_result
from ._signature import typed_method
from ._spec import ALSO, Command, input_of, make_shape, make_spec
from ._stepper import step_in_thread

THREADS_MAX = 1 << 16
"""More than there can be runs; the places of a pool bound its threads."""


class _Waiter:
    """A request for a place. `granted` and the number of running runs change together in one
    statement, so an exception from a signal handler cannot separate them."""

    granted = False

    def __init__(self, wake: Callable[[], object]) -> None:
        self.wake = wake


class _Place(_Waiter):
    """A place in a pool, for `with` in a thread. A class, because a generator takes ten times as
    long."""

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
            self._pool._leave(self)  # finishes an interrupted _leave()
            raise


class _Queued(_Waiter):
    """A request of submit(): its run starts in a thread when it has a place."""

    def __init__(self, begin: Callable[[], object]) -> None:
        self._turns = iter([begin])

    def wake(self) -> None:
        for begin in self._turns:  # once
            begin()


class PlacedRun(Run):
    """A run that gives up its place in a pool at its end."""

    def __init__(self, raw: _brig.Run, place: ExitStack) -> None:
        super().__init__(raw)
        self._place = place

    def _free(self) -> None:
        super()._free()
        self._place.close()


R = TypeVar("R", bound=PlacedRun)


class Pool(Closing):
    """A limit on parallel runs for all threads and event loops of a process.

        pool = brig.Pool(max_concurrent=4, memory="512M")
        pool.run(["make"])                  # in a thread
        await pool.arun(["make"])           # in an event loop
        pool.submit(["make"]).result()      # a future of concurrent.futures
        list(pool.map([["make", "a"], ["make", "b"]]))

    Further runs wait in order. The timeout of a run begins with its start, not while it waits. The
    keywords are defaults for its runs. With warm=N, N cells for these keywords are kept built
    ahead, which makes a start much faster; close() removes them.
    """

    @typed_method(_keywords.pool)
    def __init__(self, max_concurrent: int = 4, *, warm: int = 0, **keys: Any) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self._woken: deque[_Waiter] = deque()  # granted and about to be woken
        self._running = 0
        self._limit = whole("max_concurrent", max_concurrent, 1)
        warm = whole("warm", warm, 0)
        self._keys = keys
        self._shape: _brig.Spec | None = None
        self._threads: ThreadPoolExecutor | None = None
        shape = make_shape({k: v for k, v in keys.items() if k not in ALSO})
        _pools.add(self)
        if warm:
            get_host().warm(shape, warm)
            self._shape = shape

    # ---- numbers ----

    @property
    def max_concurrent(self) -> int:
        """The maximum number of parallel runs; resize() changes it."""
        return self._limit

    @property
    def running(self) -> int:
        """The number of running runs. After resize() to fewer it may exceed max_concurrent for a
        while."""
        return self._running

    @property
    def waiting(self) -> int:
        """The number of waiting runs."""
        return len(self._waiting)

    @property
    def warm_ready(self) -> int:
        """The number of cells that are ready."""
        return get_host().warm_ready(self._shape) if self._shape is not None else 0

    def resize(self, max_concurrent: int) -> None:
        """Change the number of parallel runs. With a larger one, waiting runs start at once. With a
        smaller one, running runs continue to their end, and no run starts until enough of them have
        ended."""
        limit = whole("max_concurrent", max_concurrent, 1)
        with self._lock:
            self._limit = limit
            self._grant()
        self._wake()

    # ---- running ----

    @typed_method(_keywords.run)
    def run(self, cmd: Command, **keys: Any) -> Result:
        """brig.run(), after waiting for a place."""
        with self._place():
            return run(cmd, **{**self._keys, **keys})

    @typed_method(_keywords.run)
    async def arun(self, cmd: Command, **keys: Any) -> Result:
        """brig.aio.run(), after waiting for a place. May be cancelled while it waits."""
        async with self._aplace():
            return await aio.run(cmd, **{**self._keys, **keys})

    @typed_method(_keywords.start)
    def start(self, cmd: Command, **keys: Any) -> Run:
        """brig.start(), after waiting for a place, which the run has until its end."""
        spec, data, _ = self._request(cmd, keys)
        return self._start(lambda: get_host().start(spec, data, True), PlacedRun)

    @typed_method(_keywords.run)
    def submit(self, cmd: Command, **keys: Any) -> Future[Result]:
        """run() in the background; returns a future of concurrent.futures. Its cancel() ends the
        run also while it goes on."""
        spec, data, check = self._request(cmd, keys)
        future: Future[Result] = Future()

        def finish(raw: _brig.Run) -> Result:
            raw.wait(None)
            result = make_result(raw)
            if check and not result.ok:
                raise run_failed(result, cmd)
            return result

        def serve() -> None:
            try:
                if future._begin():
                    future._run(lambda: get_host().start(spec, data, False), finish)
            finally:
                self._leave(waiter)

        waiter = _Queued(lambda: self._get_threads().submit(serve))
        future.add_done_callback(lambda done: None if future._begun else self._leave(waiter))
        self._join(waiter)
        return future

    @typed_method(_keywords.pool_map)
    def map(self, commands: Iterable[Command], **keys: Any) -> Iterator[Result]:
        """The results of the commands, in order. Commands are consumed as runs are started. Leaving
        the iterator ends the runs in progress."""
        if isinstance(commands, (str, bytes)):
            raise TypeError("commands: a str is one command; pass a list of them, or use run()")
        return self._map(iter(commands), keys)

    def _map(self, left: Iterator[Command], keys: dict[str, Any]) -> Iterator[Result]:
        going: deque[Future[Result]] = deque()
        try:
            while True:
                for cmd in islice(left, max(0, 2 * self._limit - len(going))):
                    going.append(self.submit(cmd, **keys))
                if not going:
                    return
                result = going[0].result()
                going.popleft()
                yield result
        finally:
            for future in going:
                future.cancel()
            wait(going)

    def _request(
        self, cmd: Command, keys: dict[str, Any]
    ) -> tuple[_brig.Spec, bytes | None, bool]:
        """The spec of a run, its input, and check."""
        keys = {**self._keys, **keys}
        data, check = keys.pop("input", None), keys.pop("check", False)
        return make_spec(cmd, keys, data, keys.pop("capture", True)), input_of(data), bool(check)

    def _start(
        self, start: Callable[[], _brig.Run], make: Callable[[_brig.Run, ExitStack], R]
    ) -> R:
        """Start a run that keeps its place to its end."""
        place = ExitStack()
        try:
            place.enter_context(self._place())
            run = make(start(), place)
            step_in_thread(run)
            return run
        except BaseException:
            place.close()
            raise

    def _get_threads(self) -> ThreadPoolExecutor:
        """Threads for submit(), one for each run in progress."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS_MAX, "brig-pool")
            return self._threads

    def close(self) -> None:
        """Remove the cells that were built ahead. Runs continue, and the pool can still be used."""
        shape, self._shape = self._shape, None
        if shape is not None:
            get_host().warm(shape, 0)

    # ---- places ----

    # Any step here may be interrupted and repeated: nothing is removed from one list before it is
    # in another, and waking twice does no harm.

    def _grant(self) -> None:
        """Grant free places in order, under the lock. The waiters are woken after it is released.
        """
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
            except IndexError:  # another thread was faster
                return
            try:
                waiter.wake()
            except RuntimeError:  # its event loop is closed
                self._take_back(waiter)
            try:
                self._woken.remove(waiter)
            except ValueError:
                pass

    def _join(self, waiter: _Waiter) -> bool:
        """Join the queue; returns True if it got a place at once."""
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
        """Give up the place, or the request for one."""
        self._take_back(waiter)
        if self._woken:
            self._wake()

    def _place(self) -> _Place:
        return _Place(self)

    @asynccontextmanager
    async def _aplace(self) -> AsyncIterator[None]:
        turn = make_turn()
        waiter = _Waiter(turn.set)
        try:
            if not self._join(waiter):
                await turn.wait()
            yield
        finally:
            self._leave(waiter)

    def _forget(self) -> None:
        """In a fork: forget the parent's runs and waiters."""
        self._lock = threading.Lock()
        self._waiting = deque()
        self._woken = deque()
        self._running = 0
        self._shape = None
        self._threads = None


def whole(name: str, value: int, least: int) -> int:
    """The value, if it is an int of at least that."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: {type(value).__name__} is not an int")
    if value < least:
        raise ValueError(f"{name}: {value} is less than {least}")
    return value


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _forget_all() -> None:
    for pool in list(_pools):
        pool._forget()


os.register_at_fork(after_in_child=_forget_all)
