# SPDX-License-Identifier: MIT
"""Calls without a template: each in an interpreter of its own, which is started for it."""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any

from . import _brig
from ._function import Names
from ._host import get_host
from ._interpreter import ONCE, Interpreter
from ._pool import Pool
from ._spec import make_spec
from ._template import Template, check_keys, classes_of, guest_settings, show_interpreter


class ColdBackend:
    """Starts interpreters; with the methods of ForkBackend."""

    def __init__(self, interpreter: Interpreter, keys: Mapping[str, Any]) -> None:
        shown = dict(keys)
        self._settings = marshal.dumps(guest_settings(interpreter, (), shown))
        show_interpreter(interpreter, shown)
        self._keys = shown
        self._command = interpreter.command(ONCE)

    def is_open(self) -> bool:
        return True

    def open(self) -> None:
        pass

    def start(self, job: bytes, keys: Mapping[str, Any], watch: bool) -> _brig.Run:
        spec = make_spec(self._command, {**keys, **self._keys}, None, True)
        return get_host().start(spec, self._settings + job, watch)

    def call(self, job: bytes, keys: Mapping[str, Any]) -> tuple[_brig.Run, bytes | None]:
        run = self.start(job, keys, False)
        return run, run.answer()

    def why_it_ended(self) -> str | None:
        return None

    def close(self) -> None:
        pass


class ColdTemplate(Template):
    """A Template that forks nothing."""

    def __init__(
        self,
        *,
        max_concurrent: int = 4,
        paths: Iterable[str | PathLike[str]] | None = None,
        types: Iterable[type] = (),
        **keys: Any,
    ) -> None:
        for name in ("preload", "parked"):
            if name in keys:
                raise TypeError(f"{name!r} is for a template; leave out either it or cold=True")
        self._closed = True  # until it is complete
        self._parent = None
        self._types = classes_of(types)
        check_keys(keys)
        self._keys = keys
        self._pool = Pool(max_concurrent)
        self._interpreter = Interpreter(paths)
        self._names = Names(self._interpreter)
        self._backend = ColdBackend(self._interpreter, keys)
        self._closed = False
