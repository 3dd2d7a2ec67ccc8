"""run() and start(): one command, waited for or watched."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Union

from . import _brig
from ._errors import UsageError
from ._events import Event, Queue
from ._host import get_host
from ._stepper import keep
from ._keys import describe_keys
from ._result import Result, make_result
from ._spec import Command, Input, input_of, make_spec

_os: Any = os  # not every typeshed knows eventfd

Size = Union[int, float, str, None]
Duration = Union[int, float, str, timedelta, None]
Number = Union[int, float, str, None]
Path = Union[str, "os.PathLike[str]", None]
Env = Union[Mapping[str, Union[str, int, float, None]], None]


def run(
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
    """Run a command in a sandbox of its own and wait for its end.

    A str is run by /bin/sh, a list is a program and its arguments. Sizes are bytes or texts like
    "512M", durations are seconds, texts like "1m30s" or timedelta; None means brig's default.
    `cwd` is the work folder, which the command can write to. `env` adds to a short environment;
    the value None passes the caller's variable on. `input` is what it reads on stdin.

    Whatever the command does is a Result. Raised are faults of brig and of the request (Error),
    and with check=True RunFailed if it did not exit with 0. An exception that arrives meanwhile,
    KeyboardInterrupt for one, ends the whole tree of the run first.

    Further settings, by keyword:
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
    return result.check() if check else result


def start(
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
    """Start a command as run() does and return at once, with a handle of the run.

    Its limits and clocks count whatever the caller does; a thread of the package sees to that.
    """
    keys.update(
        timeout=timeout, memory=memory, cpus=cpus, pids=pids, output=output, cwd=cwd, env=env
    )
    spec = make_spec(cmd, keys, input, capture)
    handle = Run(get_host().start(spec, input_of(input), True))
    keep(handle)
    return handle


run.__doc__ = f"{run.__doc__ or ''}\n{describe_keys()}\n"


class Run:
    """A run on its way. May be used by any thread, also by several.

    Iterating gives its events until its end; `with` ends it at the latest when it is left. Who
    does not take the events in time loses the oldest (Event.dropped), and holds nothing up.
    `pid` is that of brig's init for this run, in the caller's pid namespace.
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

    # ---- for the keeper ----

    def _fd(self) -> int:
        return self._raw.fileno()

    def _step(self) -> bool:
        over, result = True, None
        events: list[tuple[Any, ...]] = []
        fault: BaseException | None = None
        try:
            over, events = self._raw.step()
            result = make_result(self._raw) if over else None
        except BaseException as error:  # whoever waits gets it, not the keeper
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
        for _ in range(2):  # the second does not wait for kill_after
            self._raw.cancel()
        with self._changed:
            self._changed.wait_for(lambda: self._over, 10)

    # ---- for the caller ----

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise UsageError(
                f"the run belongs to process {self._process}, of which this one is a fork",
                "python",
            )

    def wait(self, timeout: float | None = None) -> Result:
        """The result, once it is over. TimeoutError if that takes longer; the run goes on then."""
        self._check_process()
        with self._changed:
            if not self._changed.wait_for(lambda: self._over, timeout):
                raise TimeoutError(f"the run goes on after {timeout} s")
            return self._outcome()

    def _outcome(self) -> Result:
        if self._fault is not None:
            raise self._fault
        assert self._result is not None
        return self._result

    def is_over(self) -> bool:
        """Without a look at its result, which may be a fault."""
        return self._over

    @property
    def result(self) -> Result | None:
        """None while it goes on."""
        self._check_process()
        with self._changed:
            return self._outcome() if self._over else None

    def cancel(self, why: str | None = None) -> None:
        """End it: SIGTERM, kill_after, SIGKILL; a second call kills at once. `why` goes into the
        notes. Does not wait; harmless when it is over."""
        self._check_process()
        self._raw.cancel(why)

    def events(self) -> list[Event]:
        """What has happened since the last look, without waiting; for use with fileno()."""
        self._check_process()
        with self._changed:
            if self._signal >= 0:
                try:
                    _os.eventfd_read(self._signal)
                except BlockingIOError:
                    pass
            taken = [self._queue.take(self._result) for _ in range(len(self._queue))]
            if self._signal >= 0 and self._over:
                _os.eventfd_write(self._signal, 1)  # stays readable: there is an end to be seen
            return taken

    def fileno(self) -> int:
        """A descriptor that is readable when events() has something, or the run is over. Open as
        long as the handle is there."""
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
        """In an event loop; brig.aio.start() does without the thread behind this handle."""
        loop = asyncio.get_running_loop()
        fd = os.dup(self.fileno())  # of its own: a loop watches a descriptor for one only
        ready = asyncio.Event()
        loop.add_reader(fd, ready.set)
        try:
            while True:
                over = self._over  # before the look: what comes after it is seen the next time
                for event in self.events():
                    yield event
                if over:
                    return
                await ready.wait()
                ready.clear()
        finally:
            loop.remove_reader(fd)
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
        """Cancel it if it goes on, and wait until all of it is gone."""
        if self._process != os.getpid():
            return  # a fork leaves a with block of its parent: the run is the parent's
        with self._changed:
            over = self._over
        if not over:
            self._raw.cancel(why)
        self._wait_for_end()

    def _wait_for_end(self) -> None:
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._over)
        except BaseException:  # a second Ctrl-C: no more patience, SIGKILL
            self._end_now()
            raise

    def __del__(self) -> None:
        if getattr(self, "_signal", -1) >= 0:
            os.close(self._signal)
