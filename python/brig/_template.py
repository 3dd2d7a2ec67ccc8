# SPDX-License-Identifier: MIT
"""Template: an interpreter whose functions run in their own sandboxes.

A template consists of settings, the interpreter as guests see it (_interpreter.py), and a process
of this interpreter that forks for each call (_fork.py). A call is a job (_function.py), its run,
and an outcome (_outcome.py).
"""

from __future__ import annotations

import asyncio
import marshal
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Literal, Protocol, overload

from . import _brig, _keywords, aio
from ._api import Run
from ._closing import AsyncClosing
from ._errors import BrigSystemError, UsageError
from ._events import Event
from ._failures import CallFailed, call_failed
from ._fork import ForkBackend
from ._function import Names, NotSendable, pack, pack_plain
from ._interpreter import PACKAGE, Interpreter
from ._keys import KEYS, RENAMED, entries_of
from ._loop import in_thread, in_trio
from ._outcome import Outcome, not_started, outcome_of, value_of
from ._pool import PlacedRun, Pool, whole
from ._result import Result, make_result
from ._signature import A, AsyncFunction, P, R, typed_method
from ._spec import make_spec
from ._stepper import step_in_thread

if TYPE_CHECKING:
    from ._signature import CallOf, OutcomeOf

Function = Callable[..., Any]
OnEvent = Callable[[Event], None]

# Set by the template itself, for the way to the guest and back.
OWN_KEYS = ("stdin", "channel", "input", "check", "capture")

GUEST_FOLDER = "/tmp"
"""The directory of a function if none is named: empty, and private to the call."""


# ---- what is behind it ----


class Backend(Protocol):
    """Starts calls."""

    def is_open(self) -> bool: ...

    def open(self) -> None: ...

    def start(self, job: bytes, keys: Mapping[str, Any], watch: bool) -> _brig.Run: ...

    def call(self, job: bytes, keys: Mapping[str, Any]) -> tuple[_brig.Run, bytes | None]: ...

    def why_it_ended(self) -> str | None: ...

    def close(self) -> None: ...


def _make_backend(
    interpreter: Interpreter,
    preload: tuple[str, ...],
    keys: Mapping[str, Any],
    parked: int | None,
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
    """The settings for _guest.prepare()."""
    directory = keys.get("cwd") or keys.get("workdir")
    return {
        "path": interpreter.path,
        "prefix": (os.path.realpath(sys.prefix), os.path.realpath(sys.exec_prefix)),
        "cwd": GUEST_FOLDER if directory is None else os.path.abspath(os.fspath(directory)),
        "preload": preload,
    }


def show_interpreter(interpreter: Interpreter, keys: dict[str, Any]) -> None:
    """Add the directories of the interpreter to the view. Without an explicit work directory, it is
    brig's own package, mounted read-only over the writable mount. A call cannot leave files there
    for the next one, as it could in the caller's current directory."""
    shown = interpreter.ro
    if keys.get("cwd") is None and keys.get("workdir") is None:
        keys["cwd"] = PACKAGE
        shown = [PACKAGE, *(path for path in shown if path != PACKAGE)]
    keys["ro"] = [*((path, None) for path in shown), *entries_of(keys.get("ro"), "ro")]
    keys["channel"] = True


# ---- a call that goes on ----


class Call(PlacedRun):
    """A call in progress: a run whose result is a value. Iterate over it for its events."""

    def __init__(self, raw: _brig.Run, place: ExitStack, types: tuple[type, ...] = ()) -> None:
        super().__init__(raw, place)
        self._types = types

    def wait(self, timeout: float | None = None) -> Result:
        """Wait for the end and return the result of the run, without the value."""
        return replace(super().wait(timeout), _memory=None)  # which would hold a descriptor

    def outcome(self, timeout: float | None = None) -> Outcome:
        """Wait for the end and return the outcome. TimeoutError after `timeout` seconds."""
        wait = super().wait
        return outcome_of(_result_of(lambda: wait(timeout)), self._types)

    def value(self, timeout: float | None = None) -> Any:
        """Wait for the end and return the value of the function; CallFailed if there is none."""
        return self.outcome(timeout).check()


class Template(AsyncClosing):
    """Calls functions of this program in sandboxes, each call in a fresh one.

        template = brig.Template(preload=["json"], memory="512M", timeout=10)
        template.call(function, 1, key=2)           # its value, or CallFailed
        await template.acall(function, 1)
        list(template.map(function, range(10)))

    The keywords are those of brig.run(), and apply to each call. The modules of `preload` are
    imported once. At most `max_concurrent` calls run in parallel, and further ones wait in order.
    `parked` calls are forked ahead: as many as their rate needs, from 1 to 8, or a fixed number.
    `paths` are the directories from which the guest may import, besides the interpreter's own; by
    default those of sys.path. `types` are classes that values may have, in addition to those of
    modules that are loaded here (docs/VALUES.md). Secrets in values and output are not hidden unless
    redact=True.
    """

    @typed_method(_keywords.template)
    def __init__(
        self,
        preload: Iterable[str] = (),
        *,
        max_concurrent: int = 4,
        parked: int | Literal["auto"] = "auto",
        paths: Iterable[str | os.PathLike[str]] | None = None,
        types: Iterable[type] = (),
        **keys: Any,
    ) -> None:
        self._closed = True  # until it is complete
        self._parent: Template | None = None
        self._types = classes_of(types)
        names = _module_names(preload)
        if isinstance(parked, str) and parked != "auto":
            raise TypeError(f'parked: {parked!r:.80} is neither an int nor "auto"')
        ahead = None if parked == "auto" else whole("parked", parked, 0)
        check_keys(keys)
        self._keys = keys
        self._pool = Pool(max_concurrent)
        self._interpreter = Interpreter(paths)
        self._names = Names(self._interpreter)
        self._backend: Backend = _make_backend(
            self._interpreter, names, keys, ahead, max_concurrent
        )
        self._closed = False

    @property
    def max_concurrent(self) -> int:
        """The maximum number of parallel calls."""
        return self._pool.max_concurrent

    @typed_method(_keywords.limits)
    def with_limits(self, **limits: Any) -> Template:
        """The same template with other limits or labels for calls through the returned object,
        which is closed together with this one."""
        check_limits(limits)
        other = Template.__new__(Template)
        vars(other).update(vars(self))
        other._parent = self
        other._keys = {**self._keys, **limits}
        check_keys(other._keys)
        return other

    # ---- calls ----

    @overload
    def call(
        self, function: AsyncFunction[P, R], /, *args: P.args, **keywords: P.kwargs
    ) -> R: ...
    @overload
    def call(
        self, function: Callable[P, R], /, *args: P.args, **keywords: P.kwargs
    ) -> R: ...
    def call(self, function: Function, /, *args: Any, **keywords: Any) -> Any:
        """Call a function in a sandbox and wait. Returns its value; raises CallFailed for anything
        that the function does instead, and brig.Error for faults of the request or of brig.

        Returns as soon as the function has. Unlike try_call(), it does not wait for the end of the
        process and its removal.
        """
        job = self._try_job(function, args, keywords)
        if isinstance(job, Outcome):
            return job.check()
        with self._pool._place():
            self._check_open()
            raw, answer = self._backend.call(job, self._keys)
            try:
                return self._value(raw, answer)
            finally:
                raw.close()

    @overload
    async def acall(
        self, function: AsyncFunction[P, R], /, *args: P.args, **keywords: P.kwargs
    ) -> R: ...
    @overload
    async def acall(
        self, function: Callable[P, R], /, *args: P.args, **keywords: P.kwargs
    ) -> R: ...
    async def acall(self, function: Function, /, *args: Any, **keywords: Any) -> Any:
        """call() for an event loop. If the task is cancelled, every process of the call is gone
        before CancelledError propagates."""
        return (await self.atry_call(function, *args, **keywords)).check()

    @overload
    def try_call(
        self, function: AsyncFunction[P, R], /, *args: P.args, **keywords: P.kwargs
    ) -> OutcomeOf[R]: ...
    @overload
    def try_call(
        self, function: Callable[P, R], /, *args: P.args, **keywords: P.kwargs
    ) -> OutcomeOf[R]: ...
    def try_call(self, function: Function, /, *args: Any, **keywords: Any) -> Any:
        """call() that returns an Outcome, and does not raise for failures of the function."""
        return self._run(function, args, keywords, None)

    @overload
    async def atry_call(
        self, function: AsyncFunction[P, R], /, *args: P.args, **keywords: P.kwargs
    ) -> OutcomeOf[R]: ...
    @overload
    async def atry_call(
        self, function: Callable[P, R], /, *args: P.args, **keywords: P.kwargs
    ) -> OutcomeOf[R]: ...
    async def atry_call(self, function: Function, /, *args: Any, **keywords: Any) -> Any:
        """try_call() for an event loop."""
        return await self._arun(function, args, keywords, None)

    @overload
    def start(
        self, function: AsyncFunction[P, R], /, *args: P.args, **keywords: P.kwargs
    ) -> CallOf[R]: ...
    @overload
    def start(
        self, function: Callable[P, R], /, *args: P.args, **keywords: P.kwargs
    ) -> CallOf[R]: ...
    def start(self, function: Function, /, *args: Any, **keywords: Any) -> Any:
        """Start a call and return a handle of it. Waits for a place if too many calls are running.
        """
        job = self._try_job(function, args, keywords)
        if isinstance(job, Outcome):
            raise call_failed(job)
        packed = job
        return self._pool._start(
            lambda: self._start(packed, True), lambda raw, place: Call(raw, place, self._types)
        )

    @overload
    def map(
        self, function: Callable[[A], R], one: Iterable[A], /, *, outcomes: Literal[False] = ...
    ) -> Iterator[R]: ...
    @overload
    def map(
        self, function: Callable[[A], R], one: Iterable[A], /, *, outcomes: Literal[True]
    ) -> Iterator[OutcomeOf[R]]: ...
    @overload
    def map(
        self, function: Function, one: Iterable[Any], two: Iterable[Any], /,
        *more: Iterable[Any], outcomes: bool = ...
    ) -> Iterator[Any]: ...  # fmt: skip
    def map(
        self, function: Function, /, *iterables: Iterable[Any], outcomes: bool = False
    ) -> Iterator[Any]:
        """The values for the elements of the iterables, in order. The first failure is raised; with
        outcomes=True all results are Outcomes. Elements are consumed as calls are started. Leaving
        the iterator ends the calls in progress."""
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

    @overload
    def amap(
        self, function: Callable[[A], R], one: Iterable[A], /, *, outcomes: Literal[False] = ...
    ) -> AsyncIterator[R]: ...
    @overload
    def amap(
        self, function: Callable[[A], R], one: Iterable[A], /, *, outcomes: Literal[True]
    ) -> AsyncIterator[OutcomeOf[R]]: ...
    @overload
    def amap(
        self, function: Function, one: Iterable[Any], two: Iterable[Any], /,
        *more: Iterable[Any], outcomes: bool = ...
    ) -> AsyncIterator[Any]: ...  # fmt: skip
    async def amap(
        self, function: Function, /, *iterables: Iterable[Any], outcomes: bool = False
    ) -> AsyncIterator[Any]:
        """map() for an event loop."""
        elements = zip(*iterables)
        if in_trio():
            from . import _trio

            async with aclosing(_trio.amap(self, function, elements, outcomes)) as values:
                async for value in values:
                    yield value
            return
        going: deque[asyncio.Task[Outcome]] = deque()
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
        """End the template and its calls. No further calls are possible."""
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

    def _value(self, raw: _brig.Run, answer: bytes | None) -> Any:
        """The value of a call that has answered, or its failure, for which its end is awaited."""
        there, value = value_of(answer, self._types, raw.memory)
        if there:
            return value
        raw.wait(None)
        return self._outcome(_result_of(lambda: make_result(raw))).check()

    def _outcome(self, result: Result) -> Outcome:
        """The outcome; with the template's reason if the call ended because its template did."""
        outcome = outcome_of(result, self._types)
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
            if not self._backend.is_open():  # imports take long, and would block the loop
                await in_thread(self._backend.open)
            async with aio.run_of(self._start(job, on_event is not None)) as run:
                if on_event is not None:
                    async for event in run:
                        on_event(event)
                try:
                    result = await run.wait()
                except BrigSystemError as error:
                    # The reason is known only after the end of the template: wait for it outside of
                    # the loop.
                    return await in_thread(self._outcome, _result_in(error))
                return outcome_of(result, self._types)


def _result_of(wait: Callable[[], Result]) -> Result:
    """The result, also of a call whose own end is unknown because its template ended first."""
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
    step_in_thread(run)
    with run:
        for event in run:
            on_event(event)
        return _result_of(run.wait)


def _end_all(calls: list[Call]) -> None:
    for call in calls:
        call.cancel("its iterator was left")
    for call in calls:
        call.close()


def classes_of(types: Iterable[type]) -> tuple[type, ...]:
    if isinstance(types, (type, str)):
        raise TypeError(f"types: {types!r:.80} is not a list of classes")
    classes = tuple(types)
    for one in classes:
        if not isinstance(one, type):
            raise TypeError(f"types: {one!r:.80} is not a class")
    return classes


def _module_names(preload: Iterable[str]) -> tuple[str, ...]:
    names = (preload,) if isinstance(preload, str) else tuple(preload)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"preload: {type(name).__name__} is not a module name")
        if not all(part.isidentifier() for part in name.split(".")):
            raise UsageError(f"preload: {name!r} is not a module name", "template")
    return names


def check_limits(limits: Iterable[str]) -> None:
    """Raise TypeError for settings that all calls of a template share."""
    own = (*RENAMED, "preload", "max_concurrent", "parked", "paths", "types")
    for name in limits:
        if name in own or (name in KEYS and not KEYS[name].limit and name != "labels"):
            raise TypeError(f"{name!r} is not a limit; set it for the whole template")


def check_keys(keys: Mapping[str, Any]) -> None:
    """Raise TypeError or Error for settings that calls cannot have."""
    for name in keys:
        if name in OWN_KEYS:
            raise TypeError(f"{name!r} is set by the template itself")
    make_spec(["true"], dict(keys), None, True)
