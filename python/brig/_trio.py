# SPDX-License-Identifier: MIT
"""Runs in trio, and in anyio on trio. Imported only where trio is already running.

The thread of start() steps the run, and tells trio of changes.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from itertools import islice
from types import TracebackType
from typing import Any

from . import _api, _brig
from ._events import Event
from ._failures import CallFailed
from ._outcome import Outcome
from ._result import Result
from ._starter import Start, start_in_thread
from ._stepper import step_in_thread

trio: Any = sys.modules["trio"]


class Turn:
    """An event of trio that any thread may set."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._event = trio.Event()

    def set(self) -> None:
        self._token.run_sync_soon(self._event.set)

    async def wait(self) -> None:
        await self._event.wait()


async def in_thread(function: Any, *args: Any) -> Any:
    return await trio.to_thread.run_sync(function, *args)


async def done(future: Future[Any]) -> None:
    """Wait for a future; if the task is cancelled, the future is not."""
    turn = Turn()

    def tell(_: object) -> None:
        try:
            turn.set()
        except trio.RunFinishedError:
            pass

    future.add_done_callback(tell)
    await turn.wait()


class _Told(_api.Run):
    """A run that tells its owner of each change."""

    def __init__(self, raw: _brig.Run, owner: Run) -> None:
        super().__init__(raw)
        self._owner = owner

    def _step(self) -> bool:
        over = super()._step()
        self._owner._tell()
        return over


class Run:
    """A run in progress, with the methods of aio.Run."""

    def __init__(self, raw: _brig.Run) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._event = trio.Event()
        self._events: deque[Event] = deque()
        self._run = _Told(raw, self)
        self.pid = self._run.pid
        step_in_thread(self._run)

    def _tell(self) -> None:
        """In the thread that steps the run."""
        try:
            self._token.run_sync_soon(self._wake, idempotent=True)
        except trio.RunFinishedError:
            self._run._raw.cancel("its event loop has ended")

    def _wake(self) -> None:
        event, self._event = self._event, trio.Event()
        event.set()

    async def _change(self) -> None:
        if trio.lowlevel.current_trio_token() is not self._token:
            raise RuntimeError("the run belongs to another event loop")
        await self._event.wait()

    async def _wait_for_end(self) -> Result:
        while not self._run.is_over():
            await self._change()
        return self._run._outcome()

    async def wait(self, timeout: float | None = None) -> Result:
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            return await self._wait_for_end()
        raise TimeoutError(f"the run is not over after {timeout} s")

    @property
    def result(self) -> Result | None:
        return self._run.result

    def cancel(self, why: str | None = None) -> None:
        self._run.cancel(why)

    def fileno(self) -> int:
        return self._run.fileno()

    async def close(self, why: str | None = None) -> None:
        """Cancel the run if it is not over, and wait until all of its processes are gone, also in a
        scope that is cancelled."""
        if not self._run.is_over():
            self._run.cancel(why)
        with trio.CancelScope(shield=True):
            while not self._run.is_over():
                await self._change()

    def __aiter__(self) -> Run:
        return self  # no generator: trio warns of one that is left before its end

    async def __anext__(self) -> Event:
        while True:
            over = self._run.is_over()  # read first: later events are taken in the next round
            self._events.extend(self._run.events())
            if self._events:
                return self._events.popleft()
            if over:
                raise StopAsyncIteration
            await self._change()

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close("its with block was left")


async def launch(start: Start) -> Run:
    """Start a run; if the task is cancelled meanwhile, the run is gone when that is raised."""
    future = start_in_thread(start)
    try:
        await done(future)
    except trio.Cancelled:
        if future.cancel():
            raise
        with trio.CancelScope(shield=True):
            await done(future)
            if future.exception() is None:
                await Run(future.result()).close("its task was cancelled")
        raise
    return Run(future.result())


async def amap(
    template: Any, function: Any, elements: Any, outcomes: bool
) -> AsyncGenerator[Any, None]:
    """Template.amap(): calls in threads, since a generator cannot keep tasks of trio."""
    from ._executor import Executor

    executor = Executor(template=template)
    going: deque[Future[Any]] = deque()
    try:
        while True:
            for element in islice(elements, template.max_concurrent - len(going)):
                going.append(executor.submit(function, *element))
            if not going:
                return
            await done(going[0])
            future = going.popleft()
            yield _outcome(future) if outcomes else future.result()
    finally:
        for future in going:
            future.cancel()
        with trio.CancelScope(shield=True):
            await in_thread(executor.shutdown)


def _outcome(future: Future[Any]) -> Outcome:
    error = future.exception()
    if isinstance(error, CallFailed):
        return error.outcome
    return Outcome(ok=True, value=future.result())
