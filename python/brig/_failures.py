# SPDX-License-Identifier: MIT
"""Failures of a guest as exceptions, by kind.

RunFailed is raised for a command (check=True), CallFailed for a function. Each is also one of the
kinds below if it fits, so that `except brig.Timeout` catches both.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Callable, Sequence

from . import _brig

if TYPE_CHECKING:
    from ._outcome import Outcome
    from ._result import Result

COMMAND_MAX = 120
"""Characters of a command that an exception shows."""

STDERR_MAX = 600
"""Characters of stderr that an exception shows: its end."""


class Timeout(TimeoutError):
    """The guest ran longer than its timeout."""


class MemoryLimit(MemoryError):
    """The guest reached its memory limit."""


class OutputLimit(Exception):
    """The guest printed more than its output limit."""


class GuestError(Exception):
    """A function raised an exception in the guest.

    `type` is the name of its class and `traceback` the guest's traceback as text, which Python
    prints as the cause of this exception. Both come from the guest and are not to be trusted.
    """

    type: str | None = None
    traceback: str | None = None


class _GuestTraceback(Exception):
    """The guest's traceback, for the traceback that Python prints."""


class RunFailed(Exception):
    """With check=True: the run did not exit with 0. `result` is its result."""

    def __init__(self, result: Result, command: str | Sequence[Any] | None = None) -> None:
        super().__init__(result)
        self.result = result
        self.command = command

    def __str__(self) -> str:
        result = self.result
        head = f"{_shown_command(self.command)}: " if self.command else ""
        if result.notes:
            text = f"{head}{result.status}: {result.notes}"
        elif result.exit_code is not None:
            text = f"{head}exited with {result.exit_code}"
        else:
            text = head + result.status
        last = result.stderr_text.rstrip()
        if last:
            cut = "..." if len(last) > STDERR_MAX else ""
            text += f"\nstderr: {cut}{visible(_brig.redact(last[-STDERR_MAX:]))}"
        return text

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return run_failed, (self.result, self.command)


class CallFailed(Exception):
    """A call returned no value. `outcome` has the reason; `kind`, `error`, `type`, `traceback` and
    `result` are its fields."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.kind = outcome.kind
        self.error = outcome.error
        self.type = outcome.type
        self.traceback = outcome.traceback
        self.result = outcome.result
        if outcome.traceback:
            self.__cause__ = _GuestTraceback("in the guest:\n" + visible(outcome.traceback))

    def __str__(self) -> str:
        # Often printed to a terminal, which must not interpret control characters from a guest.
        return f"{self.kind}: {visible(self.error or '')}"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return call_failed, (self.outcome,)


class _RunTimeout(RunFailed, Timeout):
    pass


class _RunMemoryLimit(RunFailed, MemoryLimit):
    pass


class _RunOutputLimit(RunFailed, OutputLimit):
    pass


class _CallTimeout(CallFailed, Timeout):
    pass


class _CallMemoryLimit(CallFailed, MemoryLimit):
    pass


class _CallOutputLimit(CallFailed, OutputLimit):
    pass


class _CallRaised(CallFailed, GuestError):
    pass


_OF_RUNS: dict[str, type[RunFailed]] = {
    "timeout": _RunTimeout,
    "memory_limit": _RunMemoryLimit,
    "output_limit": _RunOutputLimit,
}
_OF_CALLS: dict[str | None, type[CallFailed]] = {
    "timeout": _CallTimeout,
    "memory_limit": _CallMemoryLimit,
    "output_limit": _CallOutputLimit,
    "raised": _CallRaised,
}
for _kind in (*_OF_RUNS.values(), *_OF_CALLS.values()):  # as they are shown
    _kind.__name__ = _kind.__qualname__ = _kind.__mro__[2].__name__
    _kind.__module__ = "brig"


def run_failed(result: Result, command: str | Sequence[Any] | None = None) -> RunFailed:
    """The exception for a run that failed."""
    return _OF_RUNS.get(result.status, RunFailed)(result, command)


def call_failed(outcome: Outcome) -> CallFailed:
    """The exception for a call that failed."""
    return _OF_CALLS.get(outcome.kind, CallFailed)(outcome)


def visible(text: str) -> str:
    """The text with control characters escaped, other than newlines and tabs."""
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return character.encode("unicode_escape").decode()


def _shown_command(command: str | Sequence[Any]) -> str:
    text = command if isinstance(command, str) else shlex.join(str(word) for word in command)
    text = visible(_brig.redact(text)).replace("\n", " ")
    return text if len(text) <= COMMAND_MAX else text[: COMMAND_MAX - 3] + "..."
