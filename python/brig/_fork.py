# SPDX-License-Identifier: MIT
"""Calls by fork: an interpreter with all imports done that forks itself for each call.

The template is a run like any other, with a socket in addition to its streams (docs/TEMPLATES.md).
A template that has died is started again by the next call. A fork of this process does not use its
parent's template, but starts its own.
"""

from __future__ import annotations

import os
import select
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any

from . import _brig
from ._api import Run
from ._errors import BrigSystemError, RefusedError, UsageError
from ._guest import TEXT_MAX
from ._host import get_host
from ._keys import KEYS
from ._parked import PARKED_MOST, Parked
from ._result import Result
from ._spec import make_spec
from ._stepper import step_in_thread

OPEN_WITHIN = 300.0  # seconds for all imports of a preload

# Settings that calls inherit from their template; they are not passed to the library again.
OF_TEMPLATE = ("cwd", "workdir", "ro", "rw", "tmpfs", "view", "network")

NAME = ["function"]
"""Stands for the command in the result of a call."""

LEAST_PIDS = 100
"""The least process limit of a template: each running call has an init that counts as one of its
processes."""


class ForkBackend:
    """One template, and everything that is needed to start it again.

    `command` is the interpreter, `shown` are the keywords of its run, `settings` the bytes on its
    stdin. `parked` calls with the keywords `keys` are forked ahead, None as many as their rate
    needs; at most `calls` run in parallel.
    """

    def __init__(
        self,
        command: list[str],
        shown: dict[str, Any],
        keys: Mapping[str, Any],
        settings: bytes,
        parked: int | None,
        calls: int,
    ) -> None:
        self._command = command
        self._shown = shown
        self._keys = keys
        self._settings = settings
        self._parked = parked
        self._pids = LEAST_PIDS + 2 * (calls + (PARKED_MOST if parked is None else parked))
        self._lock = threading.Lock()
        self._template: _Started | None = None
        self._closed = False
        _backends.add(self)
        self._get()

    def is_open(self) -> bool:
        """True if a call would start without waiting for imports."""
        template = self._template
        return template is not None and template.lives()

    def open(self) -> None:
        """Start the template again if it has died."""
        self._get()

    def start(self, job: bytes, keys: Mapping[str, Any], watch: bool) -> _brig.Run:
        template = self._get()
        template.count(keys)
        try:
            return template.host.start(template.spec_of(keys), job, watch)
        except BrigSystemError:
            template = self._another_than(template)
        return template.host.start(template.spec_of(keys), job, watch)

    def call(self, job: bytes, keys: Mapping[str, Any]) -> tuple[_brig.Run, bytes | None]:
        """start(), and the answer of the guest if it arrives before the end of the run, else None.
        """
        template = self._template
        if template is None or template.run._over:
            template = self._get()
        template.count(keys)
        try:
            return template.host.call(template.spec_of(keys), job)
        except BrigSystemError:
            template = self._another_than(template)
        return template.host.call(template.spec_of(keys), job)

    def _another_than(self, template: _Started) -> _Started:
        """Restart for a call that failed to start because the template has just died. If it lives,
        the error is raised again."""
        if template.lives(0.3):
            raise
        return self._get()

    def why_it_ended(self) -> str | None:
        """The reason as a sentence if the template has ended, else None."""
        template = self._template
        return None if template is None or template.lives(1) else template.end()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            template, self._template = self._template, None
        if template is not None:
            template.close()

    def _get(self) -> _Started:
        with self._lock:
            if self._closed:
                raise UsageError("the template is closed", "template")
            if self._template is None or not self._template.lives():
                old, self._template = self._template, None
                if old is not None:
                    old.close()
                self._template = self._start_template()
            return self._template

    def _start_template(self) -> _Started:
        """Start without a timeout, and with the memory limit of calls if that is more than the
        default: a call may have less than the imports need. If the operator's maxima forbid that,
        the template runs with those: it ends when its time is over, and is started again."""
        keys = {name: self._shown[name] for name in (*OF_TEMPLATE, "env") if name in self._shown}
        keys.update(output="1M", on_output_limit="truncate", channel=True)
        own: dict[str, Any] = {"timeout": "unlimited", "pids": self._pids}
        memory = self._keys.get("memory")
        if memory is not None and _is_more_than_default("memory", memory):
            own["memory"] = memory
        try:
            raw, template = self._run({**keys, **own})
        except RefusedError as error:
            if error.key not in own:
                raise
            raw, template = self._run(keys)
        return _Started(raw, template, self._keys, self._parked)

    def _run(self, keys: dict[str, Any]) -> tuple[_brig.Run, _brig.Template]:
        spec = make_spec(self._command, keys, None, True)
        return get_host().start_template(spec, self._settings, False)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._template = None


class _Started:
    """A running template, and the specs of its calls."""

    def __init__(
        self, raw: _brig.Run, template: _brig.Template, keys: Mapping[str, Any], parked: int | None
    ) -> None:
        self._template = template
        self.host = get_host()
        self.run = Run(raw)
        step_in_thread(self.run)
        self._specs: dict[int, tuple[Mapping[str, Any], _brig.Spec]] = {}
        self._keys = keys
        self._parked: Parked | None = None
        try:
            self._wait_until_ready()
            self._parked = Parked(self.spec_of(keys), parked)
        except BaseException:
            self.close()
            raise

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + OPEN_WITHIN
        poll = select.poll()
        poll.register(self._template.fileno(), select.POLLIN)
        try:
            while not self._template.ready():
                if time.monotonic() > until:
                    raise RefusedError(f"preload: took longer than {OPEN_WITHIN:.0f} s", "template")
                poll.poll(100)
        except BrigSystemError:
            result = self.run.wait(10)
            text = _refusal(result) or f"preload: {_end_of(result)}"
            raise RefusedError(text, "template") from None

    def spec_of(self, keys: Mapping[str, Any]) -> _brig.Spec:
        """The spec of calls with these keywords, cached because the same ones come again and again.
        """
        known = self._specs.get(id(keys))
        if known is not None and known[0] is keys:
            return known[1]
        own = {name: value for name, value in keys.items() if name not in OF_TEMPLATE}
        spec = make_spec(NAME, {**own, "channel": True}, None, True)
        spec.set_template(self._template)
        if len(self._specs) < 64:
            self._specs[id(keys)] = (keys, spec)
        return spec

    def count(self, keys: Mapping[str, Any]) -> None:
        """Count a call; those with other keywords are not forked ahead."""
        if keys is self._keys and self._parked is not None:
            self._parked.count()

    def lives(self, patience: float = 0) -> bool:
        """False if the template has ended, or ends within `patience` seconds."""
        if not patience:
            return not self.run.is_over()
        try:
            self.run.wait(patience)
        except TimeoutError:
            return True
        except BrigSystemError:  # its init was killed
            pass
        return False

    def end(self) -> str:
        try:
            return f"the template has ended: {_end_of(self.run.wait(10))}"
        except BrigSystemError as error:
            return f"the template has ended: {error}"

    def close(self) -> None:
        if self._parked is not None:
            self._parked.close()
        self.run.cancel("the template is closed")
        self.run.cancel()  # kill it at once: it has nothing to save
        self.run.close()


def _is_more_than_default(name: str, value: object) -> bool:
    default = KEYS[name].default
    return default is not None and make_spec(NAME, {name: value}, None, True).lower(name, default)


def _refusal(result: Result) -> str | None:
    """The error that a template reported which could not get ready (_guest.serve)."""
    said = result.output
    text = said.get("error") if isinstance(said, dict) else None
    return text[:TEXT_MAX] if isinstance(text, str) else None


def _end_of(result: Result) -> str:
    words = result.stderr_text.strip()[-500:]
    end = result.notes or f"the process exited with {result.exit_code}"
    return f"{end}; its last words on stderr: {words}" if words else end


_backends: weakref.WeakSet[ForkBackend] = weakref.WeakSet()


def _after_fork() -> None:
    for backend in _backends:
        backend._forget()


os.register_at_fork(after_in_child=_after_fork)
