# SPDX-License-Identifier: MIT
"""The outcome of a call: the value of the function, or the reason why there is none.

It is made from the result of a run, of which a guest may have chosen every byte: each member of the
envelope on the channel is checked, and the value is read by _value.decode(), which is strict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Callable, Literal

from . import _brig
from ._decode import BadValue, UnknownType, decode
from ._failures import call_failed
from ._guest import CUT, SUCCESS, TEXT_MAX
from ._memory import Memory, Source, TooLarge
from ._result import Result, read_json_at
from ._show import html_of, summary_of_outcome

Kind = Literal[
    "raised",
    "exited",
    "signal",
    "timeout",
    "memory_limit",
    "pids_limit",
    "output_limit",
    "cpu_limit",
    "cancelled",
    "unserialisable",
    "unsendable",
    "no_result",
    "bad_result",
    "template",
]

# Failures that the guest itself may report. All others are determined by brig from the result.
_SAID_BY_GUEST = ("raised", "exited", "unserialisable", "unsendable")
_SUCCESS = SUCCESS.encode()


@dataclass(frozen=True, repr=False)
class Outcome:
    """The outcome of a call.

    If `ok`, `value` is the return value of the function. Otherwise `kind` is the class of the
    failure and `error` a sentence about it; `type` is the class name of the exception or of the
    value that could not be sent; `traceback` is the guest's traceback, if there is one. `result` is
    the result of the run, None if nothing was started.
    """

    ok: bool
    value: Any = None
    kind: Kind | None = None
    error: str | None = None
    type: str | None = None
    traceback: str | None = None
    result: Result | None = None

    @property
    def stdout(self) -> str:
        """The function's output on stdout, as text."""
        return self.result.stdout_text if self.result is not None else ""

    @property
    def stderr(self) -> str:
        """The function's output on stderr, as text."""
        return self.result.stderr_text if self.result is not None else ""

    def __repr__(self) -> str:
        return summary_of_outcome(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        head = summary_of_outcome(self)
        return html_of(head, {"traceback": self.traceback or ""}, self.result)

    def check(self) -> Any:
        """The value; raises CallFailed if there is none."""
        if not self.ok:
            raise call_failed(self)
        return self.value


def not_started(kind: Kind, error: str) -> Outcome:
    """The outcome of a call that was not started."""
    return Outcome(ok=False, kind=kind, error=error)


def outcome_of(result: Result, types: Iterable[type] = ()) -> Outcome:
    """The outcome of a call, from the result of its run; `types` as in decode()."""
    envelope, memory = result.output, result._memory
    # They may be large, and the outcome has the value.
    result = replace(result, output=None, _memory=None)

    def failed(kind: Kind, error: str, **more: Any) -> Outcome:
        return Outcome(ok=False, kind=kind, error=error, result=result, **more)

    if result.status == "error":
        return failed("template", result.notes or "its end is not known")

    def read() -> Outcome:
        return _read(envelope, result, failed, lambda value: decode(value, types, memory))

    # A call ends with its answer, which call() does not wait longer for; the end of the process
    # after it is in the result. Limits are different: brig itself ended the call.
    answered = result.status in ("exited", "signaled") and _is_success(envelope, result)
    if answered:
        return read()
    if result.status == "signaled":
        return failed("signal", result.notes or f"killed by signal {result.signal}")
    if result.status != "exited":
        return failed(result.status, result.notes or result.status)
    if result.output_state == "silent":
        return failed(*_silent(result))
    if result.output_error is not None:
        return failed("bad_result", result.output_error)
    return read()


def value_of(
    answer: bytes | None, types: Iterable[type] = (), source: Source | None = None
) -> tuple[bool, Any]:
    """(True, value) from the answer of a guest before its run is over; (False, None) if the result
    is needed."""
    if answer is None:
        return False, None
    value = _brig.plain_value(answer, _SUCCESS)
    if value is not NotImplemented:
        return True, value
    if not answer.startswith(_SUCCESS):
        return False, None
    try:
        value, rest = read_json_at(answer, len(_SUCCESS))
        memory = Memory(source) if source is not None else None
        return (True, decode(value, types, memory)) if rest == "}" else (False, None)
    except Exception:  # also of a class or a library that a bad value has confused
        return False, None


def _is_success(envelope: Any, result: Result) -> bool:
    return (
        result.output_error is None
        and isinstance(envelope, dict)
        and envelope.get("status") == "success"
    )


def _silent(result: Result) -> tuple[Kind, str]:
    words = result.stderr_text.strip()[-500:]
    last = f"; its last words on stderr: {words}" if words else ""
    text = f"the process exited with {result.exit_code}, and no result was sent{last}"
    return ("exited" if result.exit_code else "no_result"), text


def _read(
    envelope: Any,
    result: Result,
    failed: Callable[..., Outcome],
    decode: Callable[[Any], Any],
) -> Outcome:
    if not isinstance(envelope, dict) or envelope.get("status") not in ("success", "error"):
        return failed("bad_result", "the guest sent something that is not the result of a function")
    if envelope["status"] == "error":
        return _read_error(envelope, failed)
    try:
        return Outcome(ok=True, value=decode(envelope.get("output")), result=result)
    except TooLarge as error:
        return failed("bad_result", str(error))
    except UnknownType as error:
        return failed("unserialisable", str(error), type=error.name)
    except (BadValue, RecursionError) as error:
        return failed("bad_result", f"the guest sent an invalid value: {error}")
    except Exception as error:  # of a class or a library that the value has confused
        text = f"{type(error).__name__}: {error!s:.200}"
        return failed("bad_result", f"the guest sent an invalid value: {text}")


def _read_error(envelope: dict[str, Any], failed: Callable[..., Outcome]) -> Outcome:
    more = envelope.get("metadata")
    more = more if isinstance(more, dict) else {}
    kind = more.get("kind")
    return failed(
        kind if kind in _SAID_BY_GUEST else "raised",
        _text(envelope.get("error")) or "it failed without a message",
        type=_text(more.get("type")),
        traceback=_text(more.get("traceback")),
    )


def _text(value: Any) -> str | None:
    """A text from the guest, cut if the guest has not cut it."""
    if not isinstance(value, str) or not value:
        return None
    return value if len(value) <= TEXT_MAX + len(CUT) else value[:TEXT_MAX] + CUT
