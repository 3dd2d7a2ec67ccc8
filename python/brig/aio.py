"""The same for asyncio: await brig.aio.run(...), and a handle whose events can be awaited.

Nothing here uses a thread: a run is one descriptor, which the event loop that started it watches.
Each loop has its own runs, so several loops in several threads do not get in each other's way. The
start itself takes some milliseconds in which the loop does nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any

from . import _brig
from ._api import Duration, Env, Number, Path, Size
from ._events import Event, Queue
from ._host import get_host
from ._result import Result, make_result
from ._spec import Command, Input, input_of, make_spec

__all__ = ["Run", "run", "start"]


class Run:
    """A run on its way, of the event loop that started it."""

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
        except BaseException as error:  # whoever waits gets it, not the loop
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
        """Free what it has, and end it at once if it goes on."""
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
        """The result, once it is over. TimeoutError if that takes longer; the run goes on then,
        as it does when the task that waits is cancelled."""
        return await asyncio.wait_for(self._wait_for_end(), timeout)

    @property
    def result(self) -> Result | None:
        """None while it goes on."""
        if self._fault is not None:
            raise self._fault
        return self._result

    def cancel(self, why: str | None = None) -> None:
        """End it: SIGTERM, kill_after, SIGKILL; a second call kills at once. `why` goes into the
        notes. Does not wait; harmless when it is over."""
        self._raw.cancel(why)

    def fileno(self) -> int:
        """The library's descriptor, readable when there is something to do. The loop does it."""
        return self._raw.fileno()

    async def close(self, why: str | None = None) -> None:
        """Cancel it if it goes on, and wait until all of it is gone. To be cancelled meanwhile
        means to kill it at once, and takes effect when it is gone."""
        cancelled: BaseException | None = None
        if not self._over:
            self._raw.cancel(why)
        while not self._over:
            try:
                await self._change()
            except asyncio.CancelledError as error:
                cancelled = error
                self._raw.cancel()
            except BaseException:  # the loop is being torn down: nothing can be awaited
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


def _start(cmd: Command, input: Input | None, capture: bool, watch: bool, keys: Any) -> Run:
    spec = make_spec(cmd, keys, input, capture)
    return Run(get_host().start(spec, input_of(input), watch))


async def start(
    cmd: Command,
    *,
    timeout: Duration = None,
    memory: Size = None,
    cpus: Number = None,
    pids: Number = None,
    output: Size = None,
    input: Input | None = None,
    cwd: Path = None,
    env: Env = None,
    capture: bool = True,
    **keys: Any,
) -> Run:
    """Start a command as brig.run() does; gives a handle of the run."""
    keys.update(
        timeout=timeout, memory=memory, cpus=cpus, pids=pids, output=output, cwd=cwd, env=env
    )
    return _start(cmd, input, capture, True, keys)


async def run(
    cmd: Command,
    *,
    timeout: Duration = None,
    memory: Size = None,
    cpus: Number = None,
    pids: Number = None,
    output: Size = None,
    input: Input | None = None,
    cwd: Path = None,
    env: Env = None,
    check: bool = False,
    capture: bool = True,
    **keys: Any,
) -> Result:
    """Run a command as brig.run() does. When the task is cancelled, the whole tree of the run is
    gone before the CancelledError goes on; cancelled twice, it is not asked but killed."""
    keys.update(
        timeout=timeout, memory=memory, cpus=cpus, pids=pids, output=output, cwd=cwd, env=env
    )
    async with _start(cmd, input, capture, False, keys) as handle:
        result = await handle._wait_for_end()
    return result.check() if check else result
