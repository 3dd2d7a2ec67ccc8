# SPDX-License-Identifier: MIT
"""A tool host with sandboxed tools, like loomflow's.

    sandbox = SubprocessSandbox(host, timeout_seconds=10)
    result = await sandbox.call("search", {"text": "..."})

`host` is any in-process tool host whose get(name) returns an object with the tool's function as
`fn`. Calls may be awaited in a loop of asyncio or of trio, and so with anyio on either.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from .. import Call, CallFailed, Error, Outcome, Template
from ._model import Model, find_original

__all__ = ["SETTINGS", "ConfigError", "LoomError", "SubprocessSandbox", "ToolResult"]

SETTINGS: dict[str, Any] = {
    "network": "host",
    "redact": False,
    "kill_after": 1,
    "max_concurrent": 16,
}
"""Keywords of brig.Template() for every sandbox. The network is the host's, because no parameter
can ask for it; {"network": "none"} removes it."""


class LoomError(Exception):
    """The base of the original's errors."""


class ConfigError(LoomError):
    """The sandbox cannot be created as asked."""


@dataclass
class ToolResult(Model):
    """The answer to one call."""

    call_id: str
    ok: bool
    output: Any = None
    error: str | None = None
    denied: bool = False
    reason: str | None = None
    duration_ms: float | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    _fields = {
        "call_id": str, "ok": bool, "error": str, "denied": bool, "reason": str,
        "duration_ms": float, "started_at": datetime,
    }  # fmt: skip
    _optional = frozenset(("error", "reason", "duration_ms"))

    @classmethod
    def success(cls, call_id: str, output: Any, **more: Any) -> ToolResult:
        return cls(call_id=call_id, ok=True, output=output, **more)

    @classmethod
    def error_(cls, call_id: str, message: str, **more: Any) -> ToolResult:
        return cls(call_id=call_id, ok=False, error=message, **more)

    @classmethod
    def denied_(cls, call_id: str, reason: str, **more: Any) -> ToolResult:
        return cls(call_id=call_id, ok=False, denied=True, reason=reason, **more)


if not TYPE_CHECKING:  # the original's own, where it is installed; jeevesagent is its former name
    _errors = ("loomflow.core.errors", "jeevesagent.core.errors")
    _types = ("loomflow.core.types", "jeevesagent.core.types")
    LoomError = find_original(_errors, "LoomError") or LoomError
    ConfigError = find_original(_errors, "ConfigError") or ConfigError
    ToolResult = find_original(_types, "ToolResult") or ToolResult


class SubprocessSandbox:
    """Calls the tools of a host, each call in its own sandbox."""

    def __init__(self, inner: Any, *, timeout_seconds: float = 30.0) -> None:
        if timeout_seconds <= 0:
            raise ValueError("timeout_seconds must be positive")
        if not callable(getattr(inner, "get", None)) or isinstance(inner, Mapping):
            raise ConfigError(
                "SubprocessSandbox wraps InProcessToolHost only (it needs access to the registered "
                f"Tool.fn callable). Got {type(inner).__name__}."
            )
        self._inner = inner
        self._timeout = timeout_seconds
        self._template: Template | None = None

    @property
    def inner(self) -> Any:
        """The host whose tools are called."""
        return self._inner

    @property
    def timeout_seconds(self) -> float:
        """The timeout of a call."""
        return self._timeout

    async def list_tools(self, *, query: str | None = None) -> Any:
        """Delegates to the host."""
        return await _awaited(self._inner.list_tools(query=query))

    def watch(self) -> Any:
        """Delegates to the host."""
        return self._inner.watch()

    async def call(self, tool: str, args: Mapping[str, Any], *, call_id: str = "") -> ToolResult:
        """Call a tool. Anything that it does is a result."""
        began, started_at = time.monotonic(), datetime.now(timezone.utc)
        found = await _awaited(self._inner.get(tool))
        function = getattr(found, "fn", None)
        if not callable(function):
            return ToolResult.error_(call_id, f"unknown tool: {tool}", started_at=started_at)
        try:
            outcome: Outcome = await _outcome_of(self._get_template(), function, dict(args))
            error = None if outcome.ok else self._message(tool, outcome)
        except Error as fault:
            outcome, error = Outcome(ok=False), f"SubprocessSandbox: {fault}"
        more = {"duration_ms": (time.monotonic() - began) * 1000, "started_at": started_at}
        if error is not None:
            return ToolResult.error_(call_id, error, **more)
        return ToolResult.success(call_id, outcome.value, **more)

    def _get_template(self) -> Template:
        # Created at the first use: SETTINGS may be changed after the sandbox was made.
        if self._template is None:
            self._template = Template(timeout=self._timeout, **SETTINGS)
        return self._template

    def _message(self, tool: str, outcome: Outcome) -> str:
        if outcome.kind == "timeout":
            return f"SubprocessSandbox: tool exceeded {self._timeout}s"
        if outcome.kind == "unsendable":
            return (
                f"SubprocessSandbox: tool {tool!r} or its arguments are not picklable "
                f"({outcome.error}). Use a module-level function and primitive args."
            )
        if outcome.kind == "raised" or outcome.type == "SystemExit":
            return f"SubprocessSandbox: tool raised {_raised(outcome)}"
        return f"SubprocessSandbox: subprocess exited without producing a result: {outcome.error}"


def _raised(outcome: Outcome) -> str:
    """"Type: text", also if there is no text, or a text other than the exception's."""
    kind, text = outcome.type or "", outcome.error or ""
    if text == kind:
        return f"{kind}: "
    return text if text.startswith(kind) else f"{kind}: {text}"


async def _outcome_of(template: Template, function: Any, args: dict[str, Any]) -> Outcome:
    """The outcome of a call, in a loop of asyncio or of trio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return await _outcome_in_trio(template, function, args)
    return await template.atry_call(function, **args)


async def _outcome_in_trio(template: Template, function: Any, args: dict[str, Any]) -> Outcome:
    trio: Any = importlib.import_module("trio")  # it is there: its loop runs this
    call = await trio.to_thread.run_sync(_started, template, function, args)
    if isinstance(call, Outcome):
        return call
    try:
        while not call.is_over():
            await trio.lowlevel.wait_readable(call.fileno())
            call.events()
    finally:
        if not call.is_over():
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(call.close, "its task was cancelled")
    outcome: Outcome = call.outcome()
    return outcome


def _started(template: Template, function: Any, args: dict[str, Any]) -> Call | Outcome:
    try:
        return template.start(function, **args)
    except CallFailed as failed:
        return failed.outcome


async def _awaited(value: Any) -> Any:
    """Hosts have these as coroutines or as plain functions."""
    return await value if inspect.isawaitable(value) else value
