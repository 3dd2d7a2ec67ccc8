"""Template: an interpreter whose functions run in sandboxes of their own.

A template is settings, an interpreter as guests have it (_interpreter.py), and a process of that
which forks for each call (_fork.py). A call is a job (_function.py), a run of it, and what became of
that (_outcome.py).
"""

from __future__ import annotations

import asyncio
import marshal
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Callable

from . import _brig, aio
from ._api import Run
from ._closing import AsyncClosing
from ._errors import BrigSystemError, UsageError
from ._events import Event
from ._fork import ForkBackend
from ._function import Names, NotSendable, pack, pack_plain
from ._interpreter import PACKAGE, Interpreter
from ._stepper import keep
from ._keys import KEYS
from ._outcome import CallFailed, Outcome, not_started, outcome_of, value_of
from ._pool import Pool
from ._result import Result, make_result
from ._spec import make_spec

Function = Callable[..., Any]
OnEvent = Callable[[Event], None]

# Set by the template itself: the way to the guest, and back.
OWN_KEYS = ("stdin", "channel", "input", "check", "capture")

GUEST_FOLDER = "/tmp"
"""Where a function works if no folder is named: it is empty, and the call's own."""


# ---- what is behind it ----


def _make_backend(
    interpreter: Interpreter,
    preload: tuple[str, ...],
    keys: Mapping[str, Any],
    parked: int,
    calls: int,
) -> ForkBackend:
    shown = dict(keys)
    settings = guest_settings(interpreter, preload, shown)
    settings["trials"] = [
        pack(lambda: None, (), {}, interpreter),
        pack_plain(pow, (10, 3), {}, Names(interpreter)),
    ]
    show_interpreter(interpreter, shown)
    return ForkBackend(interpreter.command(), shown, keys, marshal.dumps(settings), parked, calls)


def guest_settings(
    interpreter: Interpreter, preload: tuple[str, ...], keys: Mapping[str, Any]
) -> dict[str, Any]:
    """For _guest.prepare()."""
    folder = keys.get("cwd") or keys.get("workdir")
    return {
        "path": interpreter.path,
        "prefix": (os.path.realpath(sys.prefix), os.path.realpath(sys.exec_prefix)),
        "cwd": GUEST_FOLDER if folder is None else os.path.abspath(os.fspath(folder)),
        "preload": preload,
    }


def show_interpreter(interpreter: Interpreter, keys: dict[str, Any]) -> None:
    """Add what a guest needs to see. Without a work folder that is asked for, it is brig's own
    package: shown read-only over the writable one, so that one call cannot leave anything for the
    next, as it could in the folder that the caller happens to be in."""
    asked = keys.get("ro")
    asked = [asked] if isinstance(asked, (str, bytes, os.PathLike)) else list(asked or ())
    shown = interpreter.ro
    if keys.get("cwd") is None and keys.get("workdir") is None:
        keys["cwd"] = PACKAGE
        shown = [PACKAGE, *(path for path in shown if path != PACKAGE)]
    keys["ro"] = [*shown, *asked]
    keys["channel"] = True


# ---- a call that goes on ----


class Call(Run):
    """A call on its way: a run whose result is a value. Iterating gives its events."""

    def __init__(self, raw: _brig.Run, place: ExitStack) -> None:
        super().__init__(raw)
        self._place = place

    def _free(self) -> None:
        super()._free()
        self._place.close()

    def outcome(self, timeout: float | None = None) -> Outcome:
        """What became of it, once it is over. TimeoutError if it goes on after that time."""
        return outcome_of(_result_of(lambda: self.wait(timeout)))

    def value(self, timeout: float | None = None) -> Any:
        """What the function returned; else CallFailed."""
        return self.outcome(timeout).check()


class Template(AsyncClosing):
    """Calls functions of this program in sandboxes, each in a fresh one.

        template = brig.Template(preload=["json"], memory="512M", timeout=10)
        template.call(function, 1, key=2)           # its value, or CallFailed
        await template.acall(function, 1)
        list(template.map(function, range(10)))

    Keywords are those of brig.run(), for each call; `preload` are modules that are imported once; at
    most `max_concurrent` calls go on at once, the rest wait in order, and `parked` of them are forked
    ahead. `paths` are the folders that the guest may import from, besides the interpreter's own;
    without it, those of sys.path. Secrets are not hidden in values and prints unless redact=True.
    """

    def __init__(
        self,
        preload: Iterable[str] = (),
        *,
        max_concurrent: int = 4,
        parked: int = 1,
        paths: Iterable[str | os.PathLike[str]] | None = None,
        **keys: Any,
    ) -> None:
        self._closed = True  # until it is whole
        self._parent: Template | None = None
        names = _module_names(preload)
        keys.setdefault("redact", False)
        _check_keys(keys)
        self._keys = keys
        self._pool = Pool(max_concurrent)
        self._interpreter = Interpreter(paths)
        self._names = Names(self._interpreter)
        self._backend = _make_backend(self._interpreter, names, keys, parked, max_concurrent)
        self._closed = False

    def with_limits(self, **limits: Any) -> Template:
        """The same template with other limits or labels for the calls that are made through it.
        It ends with this one."""
        check_limits(limits)
        other = Template.__new__(Template)
        vars(other).update(vars(self))
        other._parent = self
        other._keys = {**self._keys, **limits}
        _check_keys(other._keys)
        return other

    # ---- calls ----

    def call(self, function: Function, /, *args: Any, **keywords: Any) -> Any:
        """Call a function in a sandbox and wait. Its value, or CallFailed: whatever the function
        does; brig.Error is for faults of the request or of brig.

        The value is there as soon as the function has returned. The end of its process, and all
        that has to be removed after it, is not waited for, as try_call() does."""
        job = self._try_job(function, args, keywords)
        if isinstance(job, Outcome):
            return job.check()
        with self._pool._place():
            self._check_open()
            raw, answer = self._backend.call(job, self._keys)
            try:
                there, value = value_of(answer)
                if there:
                    return value
                raw.wait(None)
                return self._outcome(_result_of(lambda: make_result(raw))).check()
            finally:
                raw.close()

    async def acall(self, function: Function, /, *args: Any, **keywords: Any) -> Any:
        """call() for an event loop. When the task is cancelled, nothing of the call is left when
        CancelledError goes on."""
        return (await self.atry_call(function, *args, **keywords)).check()

    def try_call(self, function: Function, /, *args: Any, **keywords: Any) -> Outcome:
        """call() that gives what became of it, and does not raise for what a function does."""
        return self._run(function, args, keywords, None)

    async def atry_call(self, function: Function, /, *args: Any, **keywords: Any) -> Outcome:
        """try_call() for an event loop."""
        return await self._arun(function, args, keywords, None)

    def start(self, function: Function, /, *args: Any, **keywords: Any) -> Call:
        """Start a call and return a handle of it, as soon as there is a place for it."""
        job = self._try_job(function, args, keywords)
        if isinstance(job, Outcome):
            raise CallFailed(job)
        place = ExitStack()
        try:
            place.enter_context(self._pool._place())
            call = Call(self._start(job, True), place)
            keep(call)
            return call
        except BaseException:
            place.close()
            raise

    def map(
        self, function: Function, /, *iterables: Iterable[Any], outcomes: bool = False
    ) -> Iterator[Any]:
        """The values for the elements of the iterables, in order; the first failure is raised, or
        with outcomes=True all are given as outcomes. Elements are taken as calls can be started;
        to leave the iterator ends the calls that go on."""
        going: deque[Call | Outcome] = deque()
        elements = zip(*iterables)
        try:
            while True:
                while len(going) < self._pool.max_concurrent:
                    element = next(elements, None)
                    if element is None:
                        break
                    going.append(self._start_or_outcome(function, element))
                if not going:
                    return
                first = going[0]
                outcome = first if isinstance(first, Outcome) else first.outcome()
                going.popleft()
                yield outcome if outcomes else outcome.check()
        finally:
            _end_all([call for call in going if isinstance(call, Call)])

    async def amap(
        self, function: Function, /, *iterables: Iterable[Any], outcomes: bool = False
    ) -> AsyncIterator[Any]:
        """map() for an event loop."""
        going: deque[asyncio.Task[Outcome]] = deque()
        elements = zip(*iterables)
        try:
            while True:
                while len(going) < self._pool.max_concurrent:
                    element = next(elements, None)
                    if element is None:
                        break
                    going.append(asyncio.create_task(self.atry_call(function, *element)))
                if not going:
                    return
                outcome = await going[0]
                going.popleft()
                yield outcome if outcomes else outcome.check()
        finally:
            for task in going:
                task.cancel()
            await asyncio.gather(*going, return_exceptions=True)

    # ---- the end ----

    def close(self) -> None:
        """End it, and the calls that go on; there are no further ones."""
        if not self._closed:
            self._closed = True
            if self._parent is None:
                self._backend.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()

    # ---- inside ----

    def _try_job(
        self, function: Function, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> bytes | Outcome:
        plain = pack_plain(function, args, keywords, self._names)
        if plain is not None:
            return plain
        if not callable(function):
            raise TypeError(f"{type(function).__name__} cannot be called")
        try:
            return pack(function, args, keywords, self._interpreter)
        except NotSendable as error:
            return not_started("unsendable", str(error))

    def _check_open(self) -> None:
        if self._closed or (self._parent is not None and self._parent._closed):
            raise UsageError("the template is closed", "template")

    def _start(self, job: bytes, watch: bool) -> _brig.Run:
        self._check_open()
        return self._backend.start(job, self._keys, watch)

    def _start_or_outcome(self, function: Function, element: tuple[Any, ...]) -> Call | Outcome:
        try:
            return self.start(function, *element)
        except CallFailed as failed:
            return failed.outcome

    def _run(
        self,
        function: Function,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        on_event: OnEvent | None,
    ) -> Outcome:
        job = self._try_job(function, args, keywords)
        if isinstance(job, Outcome):
            return job
        with self._pool._place():
            raw = self._start(job, on_event is not None)
            if on_event is not None:
                return self._outcome(_watch(raw, on_event))
            try:
                raw.wait(None)
                return self._outcome(_result_of(lambda: make_result(raw)))
            finally:
                raw.close()

    def _outcome(self, result: Result) -> Outcome:
        """With the reason of its template, if a call had to end because that did."""
        outcome = outcome_of(result)
        why = self._backend.why_it_ended() if outcome.kind == "template" else None
        return outcome if why is None else replace(outcome, error=why)

    async def _arun(
        self,
        function: Function,
        args: tuple[Any, ...],
        keywords: dict[str, Any],
        on_event: OnEvent | None,
    ) -> Outcome:
        job = self._try_job(function, args, keywords)
        if isinstance(job, Outcome):
            return job
        async with self._pool._aplace():
            self._check_open()
            if not self._backend.is_open():  # imports take long, and the loop has other things to do
                await asyncio.get_running_loop().run_in_executor(None, self._backend.open)
            async with aio.Run(self._start(job, on_event is not None)) as run:
                if on_event is not None:
                    async for event in run:
                        on_event(event)
                try:
                    return self._outcome(await run.wait())
                except BrigSystemError as error:
                    return self._outcome(_result_in(error))


def _result_of(wait: Callable[[], Result]) -> Result:
    """Also of a call whose end is not known, because its template ended first."""
    try:
        return wait()
    except BrigSystemError as error:
        return _result_in(error)


def _result_in(error: BrigSystemError) -> Result:
    if error.result is None:
        raise error
    return error.result


def _watch(raw: _brig.Run, on_event: OnEvent) -> Result:
    run = Run(raw)
    keep(run)
    with run:
        for event in run:
            on_event(event)
        return _result_of(run.wait)


def _end_all(calls: list[Call]) -> None:
    for call in calls:
        call.cancel("its iterator was left")
    for call in calls:
        call.close()


def _module_names(preload: Iterable[str]) -> tuple[str, ...]:
    names = (preload,) if isinstance(preload, str) else tuple(preload)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"preload: {type(name).__name__} is no name of a module")
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(f"preload: {name!r} is no name of a module", "template")
    return names


def check_limits(limits: Iterable[str]) -> None:
    """Raise TypeError for settings that calls of one template cannot differ in."""
    for name in limits:
        if name in KEYS and not KEYS[name].limit and name != "labels":
            raise TypeError(f"{name!r} is no limit, and belongs to the template")


def _check_keys(keys: Mapping[str, Any]) -> None:
    for name in keys:
        if name in OWN_KEYS:
            raise TypeError(f"{name!r} is the template's own")
    make_spec(["true"], dict(keys), None, True)
