# SPDX-License-Identifier: MIT
"""Exceptions: faults of brig or of the request. Actions of a guest never raise."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from ._result import Result


class Error(Exception):
    """brig could not do what was asked. Everything that was set up for the attempt has been
    removed.

    `text` is one line for people; `stage` is the step that failed ("spec", "plan", "cgroup",
    "exec", ...); `errno` is the number of the system error, 0 if there is none;
    `key` is the limit that the operator's maximum forbids, or empty.
    """

    fault = "none"

    def __init__(self, text: str, stage: str = "", errno: int = 0, key: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.stage = stage
        self.errno: int = errno
        self.key = key

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self), (self.text, self.stage, self.errno, self.key)


class UsageError(Error, ValueError):
    """The request is malformed, for example a setting that does not exist or a size that is not a
    size."""

    fault = "usage"


class RefusedError(Error):
    """The request is well-formed, but cannot be enforced or is not allowed on this host."""

    fault = "refused"


class BrigSystemError(Error):
    """A system call failed while a run was set up, or brig lost track of a run's end.

    In the second case `result` is set.
    """

    fault = "system"
    result: Result | None = None


class NotExecutableError(Error, PermissionError):
    """The command exists but cannot be executed."""

    fault = "not_executable"


class NotFoundError(Error, FileNotFoundError):
    """There is no such command in the view of the run."""

    fault = "not_found"


class DegradedWarning(RuntimeWarning):
    """With isolation="auto": the run has no cell, because none can be built on this host."""


Refused = RefusedError
"""The short name."""

_BY_FAULT: tuple[type[Error], ...] = (
    Error,
    UsageError,
    RefusedError,
    BrigSystemError,
    NotExecutableError,
    NotFoundError,
)


def warn_degraded(why: str) -> None:
    """Called by the extension after a run was started without a cell."""
    warnings.warn(
        f"no cell can be built here ({why}): landlock and seccomp alone confine this run,"
        " as isolation='auto' allows",
        DegradedWarning,
        stacklevel=3,
    )


def make_error(fault: int, errnum: int, stage: str, key: str, text: str) -> Error:
    """The exception for a struct brig_error; called by the extension."""
    if stage == "isolation":
        text += '; or allow less with isolation="auto"; `brig doctor` tells more'
    from ._keys import in_keywords  # which needs this module

    text = in_keywords(text)
    kind: type[Error] = _BY_FAULT[fault] if 0 <= fault < len(_BY_FAULT) else Error
    return kind(text, stage, errnum, key)
