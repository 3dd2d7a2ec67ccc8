# SPDX-License-Identifier: MIT
"""A tool host with sandboxed tools, like loomflow's.

    sandbox = SubprocessSandbox(host, timeout_seconds=10)
    result = await sandbox.call("search", {"text": "..."})

`host` is any in-process tool host whose get(name) returns an object with the tool's function as
`fn`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from .. import Error, Outcome, Template

__all__ = ["SETTINGS", "ConfigError", "SubprocessSandbox", "ToolResult"]

SETTINGS: dict[str, Any] = {
    "network": "host",
    "redact": False,
    "kill_after": 1,
    "max_concurrent": 16,
}
"""Keywords of brig.Template() for every sandbox. The network is the host's, because no parameter
can ask for it; {"network": "none"} removes it."""


class ConfigError(Exception):
    """The sandbox cannot be created as asked."""


@dataclass
class ToolResult:
    """The answer to one call."""

    call_id: str
    ok: bool
    output: Any = None
    error: str | None = None
    denied: bool = False
    reason: str | None = None
    duration_ms: float | None = None
    started_at: datetime | None = field(default_factory=lambda: datetime.now(timezone.utc))

    @classmethod
    def success(cls, call_id: str, output: Any, **more: Any) -> ToolResult:
        return cls(call_id=call_id, ok=True, output=output, **more)

    @classmethod
    def error_(cls, call_id: str, message: str, **more: Any) -> ToolResult:
        return cls(call_id=call_id, ok=False, error=message, **more)

    @classmethod
    def denied_(cls, call_id: str, reason: str, **more: Any) -> ToolResult:
        return cls(call_id=call_id, ok=False, denied=True, reason=reason, **more)


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
            outcome = await self._get_template().atry_call(function, **dict(args))
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


async def _awaited(value: Any) -> Any:
    """Hosts have these as coroutines or as plain functions."""
    return await value if inspect.isawaitable(value) else value
