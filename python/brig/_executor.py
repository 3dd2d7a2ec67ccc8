# SPDX-License-Identifier: MIT
"""Executor: calls in sandboxes for code that was written for concurrent.futures.

Each call has a thread that waits for it without the GIL, as in ThreadPoolExecutor, which provides
the threads, their queue, and their end with the interpreter.
"""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
import os
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Callable, ParamSpec, TypeVar

from . import _brig, _guest, _keywords
from ._cold import ColdTemplate
from ._failures import call_failed
from ._future import Future
from ._outcome import Outcome
from ._pool import whole
from ._signature import typed_method
from ._template import Template

P = ParamSpec("P")
T = TypeVar("T")


class Executor(concurrent.futures.Executor):
    """A concurrent.futures.Executor whose calls have a sandbox each.

        with brig.Executor(4, memory="512M", timeout=60) as executor:
            futures = [executor.submit(function, n) for n in range(10)]
            values = list(executor.map(function, range(10)))

    It takes the arguments of ProcessPoolExecutor and those of Template, or a `template`, which it
    does not close. With cold=True each call has a new interpreter instead of a fork of a template:
    slower by its start, but without anything that a preloaded module did. At most `max_workers`
    calls run in parallel, by default one for each CPU.

    A call is packed by submit(), with the variables as they are then. Failures are the exceptions
    of Template.call(). cancel() of a future ends its call also while it runs. `initializer` is
    called before the function in each call, since each is a process of its own.
    """

    @typed_method(_keywords.executor)
    def __init__(
        self,
        max_workers: int | None = None,
        mp_context: None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        max_tasks_per_child: int | None = None,
        template: Template | None = None,
        cold: bool = False,
        **keys: Any,
    ) -> None:
        if mp_context is not None:
            raise TypeError("mp_context: calls are not started by multiprocessing; leave it out")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if max_tasks_per_child is not None:  # a process has one task here, which is never more
            whole("max_tasks_per_child", max_tasks_per_child, 1)
        if "max_concurrent" in keys:
            raise TypeError("'max_concurrent' of an executor is max_workers")
        if template is not None and not isinstance(template, Template):
            raise TypeError(f"template: {type(template).__name__} is not a brig.Template")
        if template is not None and (keys or cold):
            raise TypeError(f"{next(iter(keys), 'cold')!r} is a setting of the template itself")
        if max_workers is None:
            max_workers = template.max_concurrent if template else os.cpu_count() or 1
        self._max_workers = whole("max_workers", max_workers, 1)
        self._initializer, self._initargs = initializer, initargs
        self._lock = threading.Lock()
        self._closed = False
        self._unfinished: set[Future[Any]] = set()
        self._owned: Template | None = None
        if template is None:
            make = ColdTemplate if cold else Template
            template = self._owned = make(max_concurrent=max_workers, **keys)
        self._template = template
        self._threads = concurrent.futures.ThreadPoolExecutor(max_workers, "brig-executor")

    def submit(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> concurrent.futures.Future[T]:
        """Start a call as soon as a worker is free, and return its future."""
        function: Callable[..., Any] = fn
        if self._initializer is not None and callable(fn):
            prepare = (self._initializer, self._initargs)
            function = functools.partial(_guest.call_prepared, *prepare, fn)
        job = self._template._try_job(function, args, kwargs)
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if not isinstance(job, Outcome):
                self._unfinished.add(future)
                self._threads.submit(self._serve, future, job)
                return future
        future.set_running_or_notify_cancel()
        future.set_exception(call_failed(job))
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **more: Any,
    ) -> Iterator[T]:
        """The values for the elements of the iterables, in order, as Executor.map() gives them. All
        calls are submitted at once; leaving the iterator ends those that are not over. With
        `chunksize`, so many elements share a call, and with it a sandbox and its limits."""
        if whole("chunksize", chunksize, 1) == 1:
            return super().map(fn, *iterables, timeout=timeout, **more)
        each = functools.partial(_guest.call_each, fn)
        chunks = _chunks(zip(*iterables), chunksize)
        return _flat(super().map(each, chunks, timeout=timeout, **more))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls. With cancel_futures=True, calls that have not begun are cancelled;
        with wait=True, return when all others are over."""
        with self._lock:
            self._closed = True
            left = list(self._unfinished)
        for future in left if cancel_futures else ():
            if not future.running():
                future.cancel()
        self._threads.shutdown(wait=wait)
        self._close_if_done()

    # ---- inside ----

    def _serve(self, future: Future[Any], job: bytes) -> None:
        """In a thread: one call."""
        template = self._template
        try:
            with template._pool._place():
                if future._begin():
                    future._run(lambda: template._start(job, False), self._finish)
        finally:
            with self._lock:
                self._unfinished.discard(future)
            if self._closed:
                self._close_if_done()

    def _finish(self, raw: _brig.Run) -> Any:
        return self._template._value(raw, raw.answer())

    def _close_if_done(self) -> None:
        with self._lock:
            template = None if self._unfinished else self._owned
            if template is not None:
                self._owned = None
        if template is not None:
            template.close()


def _chunks(elements: Iterator[T], size: int) -> Iterator[list[T]]:
    return iter(lambda: list(itertools.islice(elements, size)), [])


def _flat(chunks: Iterator[list[T]]) -> Iterator[T]:
    for chunk in chunks:
        yield from chunk
