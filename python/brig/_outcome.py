"""What became of a call: the value of a function, or the one reason why there is none.

Made from the result of a run, whose every byte a guest may have chosen: the envelope on the channel
is looked at, member by member, and the value is read by _value.decode(), which is strict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Literal

from . import _brig
from ._guest import SUCCESS
from ._result import Result, read_json_at
from ._value import BadValue, decode

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

# What the guest itself may say about its end.
_SAID_BY_GUEST = ("raised", "exited", "unserialisable", "unsendable", "template")
_SUCCESS = SUCCESS.encode()
_NOTHING_SENT = "no result was sent"  # channel.c


@dataclass(frozen=True)
class Outcome:
    """What became of a call.

    With `ok`, `value` is what the function returned. Else `kind` is the sort of failure and `error`
    a sentence about it; `type` the name of the exception's class, or of the value's that could not
    be sent, and `traceback` that of the guest, where there are such. `result` is that of the run,
    None if nothing was started.
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
        """What the function printed, as text."""
        return self.result.stdout_text if self.result is not None else ""

    @property
    def stderr(self) -> str:
        """What it wrote to stderr, as text."""
        return self.result.stderr_text if self.result is not None else ""

    def check(self) -> Any:
        """The value; CallFailed is raised if there is none."""
        if not self.ok:
            raise CallFailed(self)
        return self.value


class CallFailed(Exception):
    """A call of a function gave no value. `outcome` says why; `kind`, `error`, `type`, `traceback`
    and `result` are its fields."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.kind = outcome.kind
        self.error = outcome.error
        self.type = outcome.type
        self.traceback = outcome.traceback
        self.result = outcome.result

    def __str__(self) -> str:
        # Mostly shown on a terminal, which must not take orders from what a guest wrote.
        return f"{self.kind}: {''.join(map(_visible, self.error or ''))}"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self), (self.outcome,)


def _visible(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return character.encode("unicode_escape").decode()


def not_started(kind: Kind, error: str) -> Outcome:
    """A call that did not come to a run."""
    return Outcome(ok=False, kind=kind, error=error)


def outcome_of(result: Result) -> Outcome:
    """What the run of a call means."""
    envelope = result.output
    # The envelope may be large, and its value is in the outcome.
    result = replace(result, output=None)

    def failed(kind: Kind, error: str, **more: Any) -> Outcome:
        return Outcome(ok=False, kind=kind, error=error, result=result, **more)

    if result.status == "error":
        return failed("template", result.notes or "its end is not known")
    if result.status == "signaled":
        return failed("signal", result.notes or f"killed by signal {result.signal}")
    if result.status != "exited":
        return failed(result.status, result.notes or result.status)
    if result.output_error == _NOTHING_SENT:
        return failed(*_silent(result))
    if result.output_error is not None:
        return failed("bad_result", result.output_error)
    return _read(envelope, result, failed)


def value_of(answer: bytes | None) -> tuple[bool, Any]:
    """(True, the value) of what a guest has sent, before its run is over; (False, None) if there is
    more to be said about it."""
    if answer is None:
        return False, None
    value = _brig.plain_value(answer, _SUCCESS)
    if value is not NotImplemented:
        return True, value
    if not answer.startswith(_SUCCESS):
        return False, None
    try:
        value, rest = read_json_at(answer, len(_SUCCESS))
        return (True, decode(value)) if rest == "}" else (False, None)
    except (ValueError, BadValue, RecursionError):
        return False, None


def _silent(result: Result) -> tuple[Kind, str]:
    words = result.stderr_text.strip()[-500:]
    last = f"; its last words on stderr: {words}" if words else ""
    text = f"the process exited with {result.exit_code}, and {_NOTHING_SENT}{last}"
    return ("exited" if result.exit_code else "no_result"), text


def _read(envelope: Any, result: Result, failed: Callable[..., Outcome]) -> Outcome:
    if not isinstance(envelope, dict) or envelope.get("status") not in ("success", "error"):
        return failed("bad_result", "what was sent is no result of a function")
    if envelope["status"] == "error":
        return _read_error(envelope, failed)
    if result.exit_code != 0:
        text = f"the process exited with {result.exit_code} after it had sent its result"
        return failed("exited", text)
    try:
        return Outcome(ok=True, value=decode(envelope.get("output")), result=result)
    except (BadValue, RecursionError) as error:
        return failed("bad_result", f"what was sent is no value: {error}")


def _read_error(envelope: dict[str, Any], failed: Callable[..., Outcome]) -> Outcome:
    more = envelope.get("metadata")
    more = more if isinstance(more, dict) else {}
    kind = more.get("kind")
    return failed(
        kind if kind in _SAID_BY_GUEST else "raised",
        _text(envelope.get("error")) or "it failed, and does not say why",
        type=_text(more.get("type")),
        traceback=_text(more.get("traceback")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
