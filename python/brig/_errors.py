"""What is raised: faults of brig or of the request, never what a guest did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from ._result import Result


class Error(Exception):
    """brig could not do what it was asked to. Nothing of the attempt is left.

    `text` is one line for a person; `stage` says where it happened ("spec", "plan", "cgroup",
    "exec", ...); `errno` is the system's number behind it, 0 if there is none.
    """

    fault = "none"

    def __init__(self, text: str, stage: str = "", errno: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.stage = stage
        self.errno: int = errno

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self), (self.text, self.stage, self.errno)


class UsageError(Error, ValueError):
    """The request is malformed: an unknown value, a size that is none."""

    fault = "usage"


class RefusedError(Error):
    """Well-formed, but it cannot be enforced or is not allowed on this host."""

    fault = "refused"


class BrigSystemError(Error):
    """A system call of the set-up failed, or the end of a run is not known.

    `result` is there in the second case.
    """

    fault = "system"
    result: Result | None = None


class NotExecutableError(Error, PermissionError):
    """The command exists and cannot be executed."""

    fault = "not_executable"


class NotFoundError(Error, FileNotFoundError):
    """There is no such command in the view of the run."""

    fault = "not_found"


class RunFailed(Exception):
    """With check=True: the run did not exit with 0. `result` says what it did."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        result = self.result
        if result.notes:
            return f"{result.status}: {result.notes}"
        if result.exit_code is not None:
            return f"exited with {result.exit_code}"
        return result.status


_BY_FAULT: tuple[type[Error], ...] = (
    Error,
    UsageError,
    RefusedError,
    BrigSystemError,
    NotExecutableError,
    NotFoundError,
)


def make_error(fault: int, errnum: int, stage: str, text: str) -> Error:
    """The exception for a struct brig_error; called by the extension."""
    kind: type[Error] = _BY_FAULT[fault] if 0 <= fault < len(_BY_FAULT) else Error
    return kind(text, stage, errnum)
