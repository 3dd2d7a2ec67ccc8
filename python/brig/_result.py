# SPDX-License-Identifier: MIT
"""The result of a run: the object brig.result/1 as Python values."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from . import _brig
from ._errors import BrigSystemError
from ._failures import run_failed
from ._keys import in_keywords
from ._memory import Memory, hold
from ._show import html_of, summary_of_result

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
    """Resources used by all processes of the run; None if this host does not count them."""

    wall_seconds: float
    cpu_user_seconds: float
    cpu_system_seconds: float
    memory_peak_bytes: int | None
    pids_peak: int | None
    read_bytes: int | None
    write_bytes: int | None


@dataclass(frozen=True)
class Limits:
    """The limits that applied; None: no limit."""

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
    """The enforced layers with their mechanism, and those that were not enforced with the reason.
    """

    tier: str
    warm: bool
    layers: dict[str, str]
    degraded: dict[str, str]
    off: dict[str, str]


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run.

    stdout and stderr are the captured bytes, None with capture=False. `output` is the JSON that the
    guest sent on its result channel (channel="on"); `output_error` is the reason if there is none,
    and `output_state` the same as a word: "off", "silent", "sent", or a fault (docs/RESULT.md).
    `hints` are sentences about possible causes of a failure or possible losses, from facts that
    brig is certain of.
    """

    id: str
    status: Status
    exit_code: int | None
    signal: int | None
    notes: str | None
    hints: tuple[str, ...]
    stdout: bytes | None
    stderr: bytes | None
    output: Any
    output_error: str | None
    output_state: str
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
    _memory: Memory | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """True if the command exited with 0."""
        return self.status == "exited" and self.exit_code == 0

    @property
    def truncated(self) -> bool:
        """True if a part of stdout or stderr was left out."""
        return self.stdout_truncated or self.stderr_truncated

    @property
    def redacted(self) -> int:
        """The number of secrets hidden in stdout and stderr."""
        return self.stdout_redacted + self.stderr_redacted

    @property
    def returncode(self) -> int:
        """The exit code as in subprocess, or -N for signal N. If brig ended the run, it is the
        signal or -9, never 0, no matter how the main process exited."""
        if self.status == "exited" and self.exit_code is not None:
            return self.exit_code
        return -(self.signal or 9)

    @property
    def stdout_text(self) -> str:
        """stdout as text; bytes that are not UTF-8 are shown as \\xNN."""
        return _shown(self.stdout)

    @property
    def stderr_text(self) -> str:
        """stderr as text; bytes that are not UTF-8 are shown as \\xNN."""
        return _shown(self.stderr)

    def __repr__(self) -> str:
        return summary_of_result(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        streams = {"stdout": self.stdout_text, "stderr": self.stderr_text}
        return html_of(summary_of_result(self), streams, self)

    def check(self) -> Result:
        """Return the result itself if it is ok; raise RunFailed otherwise."""
        if not self.ok:
            raise run_failed(self)
        return self

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of brig run --json (docs/RESULT.md)."""
        whole: dict[str, Any] = {}
        streams = {"stdout": self.stdout, "stderr": self.stderr}
        for name, value in self._rest.items():
            if name in streams:
                whole.update(_json_stream(name, streams[name]))
            elif name not in whole:
                whole[name] = _copy(value)
        whole["output"] = self.output
        if self.output_error is not None:
            whole["output_error"] = self.output_error
        return whole

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> Any:
        return _restore, ({**self.__dict__, "_memory": None},)


def _restore(state: dict[str, Any]) -> Result:
    result = Result.__new__(Result)
    result.__dict__.update(state)
    return result


def _copy(value: Any) -> Any:
    return {k: _copy(v) for k, v in value.items()} if isinstance(value, dict) else value


SHORT = 4096
"""So many bytes are always shown as text; of more, nine tenths must be valid text (jsonw.c)."""


def _json_stream(name: str, data: bytes | None) -> dict[str, str | None]:
    encoding = name + "_encoding"
    if data is None:
        return {name: None, encoding: None}
    try:
        return {name: data.decode(), encoding: "utf-8"}
    except UnicodeDecodeError:
        whole: dict[str, str | None] = {name: base64.b64encode(data).decode(), encoding: "base64"}
        if len(data) <= SHORT or len(data) - len(data.decode(errors="ignore").encode()) <= len(data) // 10:
            whole[name + "_text"] = _shown(data)
        return whole


def _shown(data: bytes | None) -> str:
    return (data or b"").decode(errors="backslashreplace")


VALUES_MAX = 2_000_000
"""The maximum number of values in one result: a value of three bytes takes about fifty here."""

NUMBER_MAX = 4300
"""The maximum number of digits of a number. It is Python's own limit, which a program may have
removed; the time to parse a number is quadratic in its digits."""


def read_json_at(sent: bytes, start: int) -> tuple[Any, str]:
    """Read the value at `start` in a guest's JSON; returns it and the rest. The library has checked
    the syntax. ValueError or RecursionError if Python cannot read it, or it would take too much
    memory."""
    if len(sent) > NUMBER_MAX:
        values, digits = _brig.json_weight(sent)
        if values > VALUES_MAX:
            raise ValueError(f"it has more than {VALUES_MAX} values")
        if digits > NUMBER_MAX:
            raise ValueError(f"it has a number of more than {NUMBER_MAX} digits")
    text = sent.decode()
    value, end = _decoder.raw_decode(text, start)
    return value, text[end:]


_decoder = json.JSONDecoder()


def read_json(sent: bytes) -> Any:
    """Read all of a guest's JSON."""
    return read_json_at(sent, len(sent) - len(sent.lstrip(b" \t\n\r")))[0]


def _read_sent(sent: bytes | None) -> tuple[Any, str | None]:
    if not sent:
        return None, None
    try:
        return read_json(sent), None
    except (ValueError, RecursionError) as error:
        return None, f"the result cannot be read here: {error}"


def make_result(run: _brig.Run) -> Result:
    """The result of a finished run; BrigSystemError if brig does not know how it ended."""
    raw = run.result()
    if raw is None:
        raise RuntimeError("the run is not over")
    text, stdout, stderr, sent, shell_code = raw
    rest = json.loads(text)
    output, output_error = _read_sent(sent)
    result = Result(
        id=rest["id"],
        status=rest["status"],
        exit_code=rest["exit_code"],
        signal=rest["signal"],
        notes=in_keywords(rest["notes"]) if rest["notes"] else None,
        hints=tuple(in_keywords(hint) for hint in rest["hints"]),
        stdout=stdout,
        stderr=stderr,
        output=output,
        output_error=rest.get("output_error") or output_error,
        output_state=rest.get("output_state", "off"),
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
        _memory=hold(run.memory) if sent else None,
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
