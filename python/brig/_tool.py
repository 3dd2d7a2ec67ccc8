# SPDX-License-Identifier: MIT
"""Tools: functions that an agent calls by name, each call in its own sandbox.

@tool marks a function. A ToolHost offers several of them, calls them on a template, and publishes
events to watchers. Anything that a tool does is a ToolResult.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Callable

from . import _keywords
from ._closing import AsyncClosing
from ._errors import Error, RefusedError, UsageError
from ._events import Event
from ._guest import call_tool
from ._outcome import Outcome
from ._result import Result
from ._signature import typed_decorator, typed_method
from ._spec import make_spec
from ._template import Template, check_limits
from ._tool_build import BadArgument, build, contains_made, needs_conversion
from ._tool_doc import parameters_of
from ._tool_schema import TooComplex, bounded, fault_of, hints_of, schema_of
from ._tool_strict import relaxed, strict_of
from ._tool_types import Schema
from ._tool_watch import ToolEvent, Watch
from ._value import encode

MARK = "__brig_tool__"
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True)
class Tool:
    """A function that can be called by name. `limits` are limits of its calls that differ from the
    host's."""

    name: str
    description: str
    input_schema: Schema
    fn: Callable[..., Any] = field(repr=False)
    limits: Mapping[str, Any] = field(default_factory=dict)
    types: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The types of the parameters whose values differ from their form in JSON."""

    def schema(self, *, strict: bool = False) -> Schema:
        """The schema of the arguments. With strict=True it has the form that strict mode of
        OpenAI's API wants: closed objects, all members required. A parameter with a default may
        then be null, and a mapping is a list of objects with key and value; ToolHost.call() takes
        such arguments too. UsageError names a parameter without such a form."""
        return strict_of(self.name, self.input_schema) if strict else self.input_schema

    def to_dict(self) -> dict[str, Any]:
        """The description for an agent."""
        names = ("name", "description", "input_schema")
        return {name: getattr(self, name) for name in names}


@typed_decorator(_keywords.tool)
def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **limits: Any,
) -> Any:
    """Mark a function as a tool, with its own limits: @brig.tool(timeout=5, memory="256M").

    The function itself is unchanged: a direct call runs it here, a ToolHost runs it in a sandbox.
    Its docstring is the description, and its signature the schema of the arguments.
    """
    check_limits(limits)
    make_spec(["true"], dict(limits), None, True)

    def mark(marked: Any) -> Any:
        setattr(marked, MARK, make_tool(marked, name, description, limits))
        return marked

    return mark if function is None else mark(function)


def make_tool(
    function: Callable[..., Any],
    name: str | None,
    description: str | None,
    limits: Mapping[str, Any],
) -> Tool:
    """Make a tool of a function; UsageError has the reason if that is not possible."""
    if not callable(function):
        raise TypeError(f"{type(function).__name__} cannot be called, so it cannot be a tool")
    shown = name if name is not None else getattr(function, "__name__", "")
    if not NAME.fullmatch(shown):
        raise UsageError(f"{shown!r} is not a tool name: use 1 to 64 letters, digits, _ - .", "tool")
    text = description if description is not None else parameters_of(inspect.getdoc(function))[0]
    hints = hints_of(function)
    hints.pop("return", None)
    types = {one: hint for one, hint in hints.items() if needs_conversion(hint)}
    return Tool(shown, text, schema_of(function), function, dict(limits), types)


@dataclass(frozen=True)
class ToolResult:
    """The answer to one call. If `denied`, nothing was started, and `reason` says why. `kind` is
    the kind of the Outcome; `result` is the result of the run, None if nothing was started."""

    call_id: str
    tool: str
    ok: bool
    output: Any = None
    error: str | None = None
    kind: str | None = None
    denied: bool = False
    reason: str | None = None
    duration_ms: float = 0.0
    started_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))
    result: Result | None = None

    def to_dict(self) -> dict[str, Any]:
        """As a dict for JSON. In `output`, a value without a JSON type is an object with a member
        "$"."""
        whole = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        whole["output"] = json.loads(encode(self.output))
        whole["started_at"] = self.started_at.isoformat()
        whole["result"] = self.result.to_dict() if self.result is not None else None
        return whole


class ToolHost(AsyncClosing):
    """Calls tools by name, each call in a sandbox.

        host = brig.ToolHost([search, convert], timeout=30)
        host.call("convert", {"text": "..."})       # a ToolResult, whatever the tool does
        await host.acall("convert", {"text": "..."})

    It runs on its own template, made from the keywords (see Template), or on the given one. Secrets
    in the values and output of tools are hidden unless redact=False.
    """

    @typed_method(_keywords.tool_host)
    def __init__(
        self,
        tools: Iterable[Callable[..., Any]] = (),
        *,
        template: Template | None = None,
        **keys: Any,
    ) -> None:
        if template is not None and not isinstance(template, Template):
            raise TypeError(f"template: {type(template).__name__} is not a brig.Template")
        if template is not None and keys:
            raise TypeError(f"{', '.join(keys)}: set these on the template that is given")
        self._own = template is None
        keys.setdefault("redact", True)
        self._template = Template(**keys) if template is None else template
        self._tools: dict[str, Tool] = {}
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._watches: list[Watch] = []
        self._closed = False
        for function in tools:
            self.register(function)

    # ---- what there is ----

    def register(self, function: Callable[..., Any]) -> Tool:
        """Add a function, with or without @tool."""
        made = getattr(function, MARK, None)
        if not isinstance(made, Tool):
            made = make_tool(function, None, None, {})
        if made.name in self._tools:
            raise UsageError(f"there already is a tool {made.name!r}", "tool")
        self._tools[made.name] = made
        return made

    def get(self, name: str) -> Tool | None:
        """The tool with this name, or None."""
        return self._tools.get(name)

    def list_tools(self, query: str | None = None) -> list[Tool]:
        """All tools, or those with `query` in their name or description."""
        text = (query or "").lower()
        tools = self._tools.values()
        return [one for one in tools if text in f"{one.name}\n{one.description}".lower()]

    # ---- calls ----

    def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, call_id: str | None = None
    ) -> ToolResult:
        """Call a tool and wait. Does not raise for failures of the tool or for bad arguments."""
        call = _Call(self, name, arguments, call_id)
        if call.refused:
            return call.denied(call.refused)
        assert call.tool is not None
        try:
            template = self._template.with_limits(**call.tool.limits)
            outcome = template._run(*call.job(), self._listener(call))
        except Error as error:
            return call.failed(error)
        return call.answer(outcome)

    async def acall(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, call_id: str | None = None
    ) -> ToolResult:
        """call() for an event loop; cancelling it ends the tool first."""
        call = _Call(self, name, arguments, call_id)
        if call.refused:
            return call.denied(call.refused)
        assert call.tool is not None
        try:
            template = self._template.with_limits(**call.tool.limits)
            outcome = await template._arun(*call.job(), self._listener(call))
        except Error as error:
            return call.failed(error)
        return call.answer(outcome)

    # ---- watching ----

    def watch(self) -> Watch:
        """The live events of all calls from now on: an iterator for threads and for event loops. It
        ends when it or the host is closed."""
        watch = Watch()
        with self._lock:
            if self._closed:
                watch.close()
            self._watches.append(watch)
        return watch

    def _listener(self, call: _Call) -> Callable[[Event], None] | None:
        """The callback for events of a call; None if there are no watchers."""
        if not self._listening():
            return None

        def tell(event: Event) -> None:
            if event.type != "ended":  # the ToolResult says more
                self._publish(ToolEvent(call.call_id, call.name, event.type, event))

        return tell

    def _listening(self) -> list[Watch]:
        if self._process != os.getpid():  # watchers and the lock belong to the parent
            self._process, self._lock, self._watches = os.getpid(), threading.Lock(), []
        with self._lock:
            self._watches = [watch for watch in self._watches if not watch.closed]
            return list(self._watches)

    def _publish(self, event: ToolEvent) -> None:
        for watch in self._listening():
            watch._put(event)

    # ---- the end ----

    def close(self) -> None:
        """Refuse further calls, and end all watches."""
        with self._lock:
            self._closed = True
            watches = list(self._watches)
        for watch in watches:
            watch.close()
        if self._own:
            self._template.close()


class _Call:
    """One call: checked before anything is started, and answered once."""

    def __init__(
        self, host: ToolHost, name: str, arguments: Mapping[str, Any] | None, call_id: str | None
    ) -> None:
        if host._closed:
            raise UsageError("the host of the tools is closed", "tool")
        self._host = host
        self._began = time.monotonic()
        self.started_at = datetime.now(timezone.utc)
        self.name = name
        self.call_id = call_id or "c" + secrets.token_hex(8)
        self.tool = host.get(name)
        self.arguments = dict(arguments) if isinstance(arguments, Mapping) else {}
        self.refused = self._look(arguments)

    def _look(self, arguments: Mapping[str, Any] | None) -> str | None:
        if self.tool is None:
            return f"unknown tool: {self.name}"
        if arguments is not None and not isinstance(arguments, Mapping):
            return f"{self.name}: arguments: {type(arguments).__name__} is not an object"
        try:
            with bounded(self.arguments):
                fault = self._check(self.tool.input_schema) or self._convert(self.tool)
        except RecursionError:
            fault = "are nested too deeply"
        except TooComplex as error:
            fault = str(error)
        except Exception as error:  # of a class that a bad argument has confused
            fault = f"{type(error).__name__}: {error!s:.200}"
        return f"{self.name}: arguments: {fault}" if fault else None

    def _check(self, schema: Schema) -> str | None:
        fault = fault_of(schema, self.arguments, "", schema)
        if fault:  # unless they have the strict form
            self.arguments = relaxed(schema, self.arguments, schema)
            fault = fault_of(schema, self.arguments, "", schema)
        return fault

    def _convert(self, tool: Tool) -> str | None:
        """Convert the arguments to their types; returns the fault of one that cannot be."""
        try:
            for name in tool.types.keys() & self.arguments.keys():
                value = self.arguments[name]
                self.arguments[name] = build(tool.types[name], value, f"/{name}")
        except BadArgument as error:
            return str(error)
        return None

    def job(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        """The function to call, with its arguments."""
        assert self.tool is not None
        if contains_made(self.arguments):
            return call_tool, (self.tool.fn, self.arguments), {}
        return self.tool.fn, (), self.arguments

    def _end(self, ok: bool, **fields: Any) -> ToolResult:
        duration = (time.monotonic() - self._began) * 1000
        answer = ToolResult(
            self.call_id, self.name, ok, duration_ms=duration, started_at=self.started_at, **fields
        )
        self._host._publish(ToolEvent(self.call_id, self.name, "ended", None, answer))
        return answer

    def denied(self, reason: str) -> ToolResult:
        return self._end(False, error=reason, denied=True, reason=reason)

    def failed(self, error: Error) -> ToolResult:
        """The answer if brig could not run the tool; a refusal is denied."""
        if isinstance(error, RefusedError):
            return self.denied(str(error))
        return self._end(False, error=str(error), kind="template")

    def answer(self, outcome: Outcome) -> ToolResult:
        return self._end(
            outcome.ok,
            output=outcome.value,
            error=outcome.error,
            kind=outcome.kind,
            result=outcome.result,
        )
