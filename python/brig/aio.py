# SPDX-License-Identifier: MIT
"""The same for event loops: await brig.aio.run(...), and a handle whose events can be awaited.

In asyncio a run is one file descriptor, which the event loop that started it watches. Each loop has
its own runs, so loops in several threads do not interfere. Starts are left to a thread
(_starter.py), because they take some milliseconds each. In trio, and in anyio on trio, the handle
is that of _trio.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, cast

from . import _brig, _keywords
from ._events import Event, Queue
from ._host import get_host
from ._failures import run_failed
from ._loop import in_trio
from ._result import Result, make_result
from ._signature import Count, Duration, Env, Number, Path, Size, typed
from ._spec import Command, Input, input_of, make_spec
from ._starter import Start, start_in_thread

__all__ = ["Run", "run", "start"]


class Run:
    """A run in progress. It belongs to the event loop that started it."""

    def __init__(self, raw: _brig.Run) -> None:
        self._raw = raw
        self._loop = asyncio.get_running_loop()
        self._queue = Queue()
        self._over = False
        self._result: Result | None = None
        self._fault: BaseException | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._watched = raw.fileno()
        self.pid = raw.pid()
        self._loop.add_reader(self._watched, self._step)

    # ---- in the loop ----

    def _step(self) -> None:
        events: list[tuple[Any, ...]] = []
        try:
            self._over, events = self._raw.step()
            if self._over:
                self._result = make_result(self._raw)
        except BaseException as error:  # raised in wait(), not in the loop
            self._over, self._fault = True, error
        for event in events:
            self._queue.add(event)
        if self._over:
            self._close()
        if self._over or events:
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _close(self) -> None:
        """Free the run; a run that is not over is ended at once."""
        if self._watched >= 0 and not self._loop.is_closed():
            self._loop.remove_reader(self._watched)
        self._watched = -1
        self._raw.close()

    async def _change(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("the run belongs to another event loop")
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        await future

    async def _wait_for_end(self) -> Result:
        while not self._over:
            await self._change()
        if self._fault is not None:
            raise self._fault
        assert self._result is not None
        return self._result

    # ---- for the caller ----

    async def wait(self, timeout: float | None = None) -> Result:
        """Wait for the end and return the result. After `timeout` seconds TimeoutError is raised,
        and the run continues, as it does when the waiting task is cancelled."""
        return await asyncio.wait_for(self._wait_for_end(), timeout)

    @property
    def result(self) -> Result | None:
        """The result, or None while the run continues."""
        if self._fault is not None:
            raise self._fault
        return self._result

    def cancel(self, why: str | None = None) -> None:
        """End the run: SIGTERM, then SIGKILL after kill_after; a second call kills at once. `why`
        is added to the notes. Returns at once, and does nothing if the run is over."""
        self._raw.cancel(why)

    def fileno(self) -> int:
        """The library's file descriptor, readable when there is something to do. The loop handles
        it."""
        return self._raw.fileno()

    async def close(self, why: str | None = None) -> None:
        """Cancel the run if it is not over, and wait until all of its processes are gone. If this
        is cancelled meanwhile, the run is killed at once, and CancelledError is raised when it is
        gone."""
        cancelled: BaseException | None = None
        if not self._over:
            self._raw.cancel(why)
        while not self._over:
            try:
                await self._change()
            except asyncio.CancelledError as error:
                cancelled = error
                self._raw.cancel()
            except BaseException:  # the loop is being closed: nothing can be awaited
                self._close()
                raise
        if cancelled is not None:
            raise cancelled

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        while True:
            while len(self._queue):
                yield self._queue.take(self._result)
            if self._over:
                return
            await self._change()

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None and not issubclass(kind, (Exception, asyncio.CancelledError)):
            self._close()
        else:
            await self.close("its with block was left")


async def _launch(start: Start) -> Run:
    """Start a run in a thread; if the task is cancelled meanwhile, the run is gone when that is
    raised."""
    if in_trio():
        from . import _trio

        return cast(Run, await _trio.launch(start))
    future = start_in_thread(start)
    waiting = asyncio.wrap_future(future)
    cancelled: asyncio.CancelledError | None = None
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError as error:
            if future.cancel():
                raise
            cancelled = error
    run = Run(waiting.result())
    if cancelled is not None:
        await run.close("its task was cancelled")
        raise cancelled
    return run


def run_of(raw: _brig.Run) -> Run:
    """The handle for the event loop that runs."""
    if not in_trio():
        return Run(raw)
    from . import _trio

    return cast(Run, _trio.Run(raw))


def _start(cmd: Command, input: Input | None, capture: bool, watch: bool, keys: Any) -> Start:
    spec = make_spec(cmd, keys, input, capture)
    data = input_of(input)
    return lambda: get_host().start(spec, data, watch)


@typed(_keywords.start)
async def start(
    cmd: Command,
    *,
    timeout: Duration = None,
    memory: Size = None,
    cpus: Number = None,
    pids: Count = None,
    output: Size = None,
    input: Input | None = None,
    cwd: Path = None,
    env: Env = None,
    capture: bool = True,
    **keys: Any,
) -> Run:
    """Start a command like brig.run(), and return a handle of the run."""
    keys.update(
        timeout=timeout, memory=memory, cpus=cpus, pids=pids, output=output, cwd=cwd, env=env
    )
    return await _launch(_start(cmd, input, capture, True, keys))


@typed(_keywords.run)
async def run(
    cmd: Command,
    *,
    timeout: Duration = None,
    memory: Size = None,
    cpus: Number = None,
    pids: Count = None,
    output: Size = None,
    input: Input | None = None,
    cwd: Path = None,
    env: Env = None,
    check: bool = False,
    capture: bool = True,
    **keys: Any,
) -> Result:
    """Run a command like brig.run(). If the task is cancelled, every process of the run is gone
    before CancelledError propagates; if it is cancelled twice, they are killed at once."""
    keys.update(
        timeout=timeout, memory=memory, cpus=cpus, pids=pids, output=output, cwd=cwd, env=env
    )
    async with await _launch(_start(cmd, input, capture, False, keys)) as handle:
        result = await handle._wait_for_end()
    if check and not result.ok:
        raise run_failed(result, cmd)
    return result
