# SPDX-License-Identifier: MIT
"""run() and start(): one command, waited for or watched."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Any

from . import _brig, _keywords
from ._errors import UsageError
from ._events import Event, Queue
from ._host import get_host
from ._loop import wait_readable
from ._failures import run_failed
from ._result import Result, make_result
from ._signature import Count, Duration, Env, Number, Path, Size, typed
from ._spec import Command, Input, input_of, make_spec
from ._stepper import step_in_thread

_os: Any = os  # not every typeshed knows eventfd


@typed(_keywords.run)
def run(
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
    """Run a command in its own sandbox and wait for its end.

    A str is run by /bin/sh; a list is a program and its arguments. `env` adds to a short
    environment; the value None passes the caller's own variable.

    Anything that the command does is a Result. Faults of brig and of the request raise Error; with
    check=True, a command that does not exit with 0 raises RunFailed. If an exception such as
    KeyboardInterrupt arrives meanwhile, every process of the run is ended before it propagates.
    """
    keys.update(
        timeout=timeout, memory=memory, cpus=cpus, pids=pids, output=output, cwd=cwd, env=env
    )
    spec = make_spec(cmd, keys, input, capture)
    run = get_host().start(spec, input_of(input), False)
    try:
        run.wait(None)
        result = make_result(run)
    finally:
        run.close()
    if check and not result.ok:
        raise run_failed(result, cmd)
    return result


@typed(_keywords.start)
def start(
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
    """Start a command like run() and return at once with a handle of the run.

    A thread of the package steps the run, so its limits and timeouts hold no matter what the caller
    does.
    """
    keys.update(
        timeout=timeout, memory=memory, cpus=cpus, pids=pids, output=output, cwd=cwd, env=env
    )
    spec = make_spec(cmd, keys, input, capture)
    handle = Run(get_host().start(spec, input_of(input), True))
    step_in_thread(handle)
    return handle


class Run:
    """A run in progress. It may be used by any thread, and by several at once.

    Iterate over it for its events until its end. A `with` block ends the run when it is left. If
    events are not taken in time, the oldest are dropped (Event.dropped); the run is never delayed.
    `pid` is the process id of brig's init for this run, in the caller's PID namespace.
    """

    def __init__(self, raw: _brig.Run) -> None:
        self._raw = raw
        self._process = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        self._queue = Queue()
        self._over = False
        self._result: Result | None = None
        self._fault: BaseException | None = None
        self._signal = -1  # eventfd, for fileno()
        self.pid = raw.pid()

    # ---- for the stepper ----

    def _fd(self) -> int:
        return self._raw.fileno()

    def _step(self) -> bool:
        over, result = True, None
        events: list[tuple[Any, ...]] = []
        fault: BaseException | None = None
        try:
            over, events = self._raw.step()
            result = make_result(self._raw) if over else None
        except BaseException as error:  # raised in wait(), not in the stepper thread
            over, fault = True, error
        with self._changed:
            for event in events:
                self._queue.add(event)
            if over:
                self._over, self._result, self._fault = True, result, fault
            if self._signal >= 0 and (events or over):
                _os.eventfd_write(self._signal, 1)
            self._changed.notify_all()
        return over

    def _free(self) -> None:
        self._raw.close()

    def _end_now(self) -> None:
        for _ in range(2):  # the second call does not wait for kill_after
            self._raw.cancel()
        with self._changed:
            self._changed.wait_for(lambda: self._over, 10)

    # ---- for the caller ----

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise UsageError(
                f"the run belongs to process {self._process}; this process is a fork of it",
                "python",
            )

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for the end and return the result. After `timeout` seconds TimeoutError is raised,
        and the run continues."""
        self._check_process()
        with self._changed:
            if not self._changed.wait_for(lambda: self._over, timeout):
                raise TimeoutError(f"the run is not over after {timeout} s")
            return self._outcome()

    def _outcome(self) -> Result:
        if self._fault is not None:
            raise self._fault
        assert self._result is not None
        return self._result

    def is_over(self) -> bool:
        """True if the run is over. Unlike `result`, this does not raise."""
        return self._over

    @property
    def result(self) -> Result | None:
        """The result, or None while the run continues."""
        self._check_process()
        with self._changed:
            return self._outcome() if self._over else None

    def cancel(self, why: str | None = None) -> None:
        """End the run: SIGTERM, then SIGKILL after kill_after; a second call kills at once. `why`
        is added to the notes. Returns at once, and does nothing if the run is over."""
        self._check_process()
        self._raw.cancel(why)

    def events(self) -> list[Event]:
        """The events since the last call, without waiting; for use with fileno()."""
        self._check_process()
        with self._changed:
            if self._signal >= 0:
                try:
                    _os.eventfd_read(self._signal)
                except BlockingIOError:
                    pass
            taken = [self._queue.take(self._result) for _ in range(len(self._queue))]
            if self._signal >= 0 and self._over:
                _os.eventfd_write(self._signal, 1)  # stays readable, because the run is over
            return taken

    def fileno(self) -> int:
        """A file descriptor that is readable if events() has something or the run is over. It is
        open as long as this handle exists."""
        self._check_process()
        with self._changed:
            if self._signal < 0:
                self._signal = _os.eventfd(
                    1 if len(self._queue) or self._over else 0, _os.EFD_CLOEXEC | _os.EFD_NONBLOCK
                )
            return self._signal

    def __iter__(self) -> Iterator[Event]:
        self._check_process()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._queue) > 0 or self._over)
                if not len(self._queue):
                    return
                event = self._queue.take(self._result)
            yield event

    async def __aiter__(self) -> AsyncIterator[Event]:
        """The events, in an event loop. In asyncio, brig.aio.start() does the same without a
        thread."""
        fd = os.dup(self.fileno())  # a copy, because a loop allows one reader per file descriptor
        try:
            while True:
                over = self._over  # read first: later events are taken in the next round
                for event in self.events():
                    yield event
                if over:
                    return
                await wait_readable(fd)
        finally:
            os.close(fd)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close("its with block was left")

    def close(self, why: str | None = None) -> None:
        """Cancel the run if it is not over, and wait until all of its processes are gone."""
        if self._process != os.getpid():
            return  # a fork leaves the with block of its parent, which owns the run
        with self._changed:
            over = self._over
        if not over:
            self._raw.cancel(why)
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._over)
        except BaseException:  # for example a second Ctrl-C: kill at once
            self._end_now()
            raise

    def __del__(self) -> None:
        if getattr(self, "_signal", -1) >= 0:
            os.close(self._signal)
