"""What became of a run: the object brig.result/1, as Python values."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from . import _brig
from ._errors import BrigSystemError, RunFailed

Status = Literal[
    "exited",
    "signaled",
    "timeout",
    "memory_limit",
    "pids_limit",
    "output_limit",
    "cpu_limit",
    "cancelled",
    "error",
]


@dataclass(frozen=True)
class Usage:
    """What the whole tree used; None where this host does not count it."""

    wall_seconds: float
    cpu_user_seconds: float
    cpu_system_seconds: float
    memory_peak_bytes: int | None
    pids_peak: int | None
    read_bytes: int | None
    write_bytes: int | None


@dataclass(frozen=True)
class Limits:
    """The limits as they applied; None: there was none."""

    memory_bytes: int | None
    cpus: float | None
    pids: int | None
    timeout_seconds: float | None
    kill_after_seconds: float | None
    cpu_time_seconds: float | None
    output_bytes: int | None
    result_bytes: int | None
    open_files: int | None
    file_size_bytes: int | None


@dataclass(frozen=True)
class Isolation:
    """What was really enforced: layer to mechanism; and what was not, with the reason."""

    tier: str
    warm: bool
    layers: dict[str, str]
    degraded: dict[str, str]
    off: dict[str, str]


@dataclass(frozen=True)
class Result:
    """The end of a run.

    stdout and stderr are the bytes that were kept, None with capture=False. `output` is what the
    guest sent on its result channel (channel="on"), `output_error` why there is none.
    """

    id: str
    status: Status
    exit_code: int | None
    signal: int | None
    notes: str | None
    stdout: bytes | None
    stderr: bytes | None
    output: Any
    output_error: str | None
    usage: Usage
    limits: Limits
    isolation: Isolation
    labels: dict[str, str]
    started_at: datetime
    finished_at: datetime
    stdout_truncated: bool
    stderr_truncated: bool
    stdout_redacted: int
    stderr_redacted: int
    shell_code: int
    _rest: dict[str, Any] = field(repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """It exited, with 0."""
        return self.status == "exited" and self.exit_code == 0

    @property
    def truncated(self) -> bool:
        """Something was left out of stdout or stderr."""
        return self.stdout_truncated or self.stderr_truncated

    @property
    def redacted(self) -> int:
        """How many secrets were hidden in stdout and stderr."""
        return self.stdout_redacted + self.stderr_redacted

    @property
    def returncode(self) -> int:
        """As subprocess has it: the exit code, or -N for signal N. What brig ended is -9 at least,
        whatever the main process made of it; never 0."""
        if self.status == "exited" and self.exit_code is not None:
            return self.exit_code
        return -(self.signal or 9)

    @property
    def stdout_text(self) -> str:
        """stdout as text; bytes that are no UTF-8 are shown as \\xNN."""
        return (self.stdout or b"").decode(errors="backslashreplace")

    @property
    def stderr_text(self) -> str:
        """stderr as text; bytes that are no UTF-8 are shown as \\xNN."""
        return (self.stderr or b"").decode(errors="backslashreplace")

    def check(self) -> Result:
        """Itself if it is ok; else RunFailed is raised."""
        if not self.ok:
            raise RunFailed(self)
        return self

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of brig run --json (docs/RESULT.md)."""
        whole = {name: _copy(value) for name, value in self._rest.items()}
        for name, data in (("stdout", self.stdout), ("stderr", self.stderr)):
            whole[name], whole[name + "_encoding"] = _json_text(data)
        whole["output"] = self.output
        if self.output_error is not None:
            whole["output_error"] = self.output_error
        return whole

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> Any:
        return _restore, (self.__dict__,)


def _restore(state: dict[str, Any]) -> Result:
    result = Result.__new__(Result)
    result.__dict__.update(state)
    return result


def _copy(value: Any) -> Any:
    return {k: _copy(v) for k, v in value.items()} if isinstance(value, dict) else value


def _json_text(data: bytes | None) -> tuple[str | None, str | None]:
    if data is None:
        return None, None
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"


VALUES_MAX = 2_000_000
"""In one result: a value of three bytes takes some fifty here."""


def read_json_at(sent: bytes, start: int) -> tuple[Any, str]:
    """The value that begins there in a guest's JSON, and what follows it. The library has seen that it
    is JSON; ValueError or RecursionError if Python does not take it, or it would take too much memory."""
    if len(sent) > VALUES_MAX:  # each takes a byte, and one to part it from the next
        outside = re.sub(rb'"[^"\\]*(?:\\.[^"\\]*)*"', b"", sent)
        if sum(outside.count(mark) for mark in (b",", b"[", b"{")) > VALUES_MAX:
            raise ValueError(f"it has more than {VALUES_MAX} values")
    text = sent.decode()
    value, end = _decoder.raw_decode(text, start)
    return value, text[end:]


_decoder = json.JSONDecoder()


def read_json(sent: bytes) -> Any:
    """All of a guest's JSON."""
    return read_json_at(sent, len(sent) - len(sent.lstrip(b" \t\n\r")))[0]


def _read_sent(sent: bytes | None) -> tuple[Any, str | None]:
    if not sent:
        return None, None
    try:
        return read_json(sent), None
    except (ValueError, RecursionError) as error:
        return None, f"the result cannot be read here: {error}"


def make_result(run: _brig.Run) -> Result:
    """The result of a run that is over; BrigSystemError if brig does not know its end."""
    raw = run.result()
    if raw is None:
        raise RuntimeError("the run goes on")
    text, stdout, stderr, sent, shell_code = raw
    rest = json.loads(text)
    output, output_error = _read_sent(sent)
    result = Result(
        id=rest["id"],
        status=rest["status"],
        exit_code=rest["exit_code"],
        signal=rest["signal"],
        notes=rest["notes"],
        stdout=stdout,
        stderr=stderr,
        output=output,
        output_error=rest.get("output_error") or output_error,
        usage=Usage(**rest["usage"]),
        limits=Limits(**rest["limits"]),
        isolation=Isolation(**rest["isolation"]),
        labels=rest["labels"],
        started_at=datetime.fromisoformat(rest["started_at"]),
        finished_at=datetime.fromisoformat(rest["finished_at"]),
        stdout_truncated=rest["stdout_truncated"],
        stderr_truncated=rest["stderr_truncated"],
        stdout_redacted=rest["stdout_redacted"],
        stderr_redacted=rest["stderr_redacted"],
        shell_code=shell_code,
        _rest=rest,
    )
    if result.status == "error":
        fault = rest.get("error") or {}
        error = BrigSystemError(
            fault.get("text") or "the end of the run is not known",
            fault.get("stage") or "run",
            fault.get("errno") or 0,
        )
        error.result = result
        raise error
    return result
