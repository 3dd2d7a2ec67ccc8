# SPDX-License-Identifier: MIT
"""JSON Schema of a function's parameters, from its signature and annotations; and a check by it.

Annotations without a form in JSON are not checked: the schema does not restrict them.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ._errors import UsageError
from ._value import NotSendable, encode

Schema = dict[str, Any]

_PLAIN: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    tuple: "array",
    dict: "object",
}

_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
    "array": "list",
    "object": "object",
}


def schema_of(function: Callable[..., Any]) -> Schema:
    """The schema of the arguments of a function, as an object with their names."""
    properties: dict[str, Schema] = {}
    required: list[str] = []
    open_end = False
    hints = _hints_of(function)
    for name, parameter in _signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            open_end = True
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise UsageError(f"{_name(function)}: {parameter} cannot be passed by name", "tool")
        properties[name] = _schema_of_type(hints.get(name, Any))
        if parameter.default is parameter.empty:
            required.append(name)
        elif _is_json(parameter.default):
            properties[name]["default"] = parameter.default
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": open_end,
    }


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", function))


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise UsageError(f"{_name(function)}: its parameters cannot be determined", "tool") from None


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:  # names that do not exist, or only for type checkers
        return {}


def _is_json(value: Any) -> bool:
    try:
        return '"$"' not in encode(value)
    except NotSendable:
        return False


def _schema_of_type(hint: Any) -> Schema:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if origin is typing.Annotated:
        return _schema_of_type(parts[0])
    if origin is typing.Literal and all(isinstance(part, (str, int, type(None))) for part in parts):
        return {"enum": list(parts)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema_of_type(part) for part in parts]}
    if origin in (list, Sequence, set, frozenset):
        return {"type": "array", "items": _schema_of_type(parts[0])}
    if origin is tuple:
        return {"type": "array"}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema_of_type(parts[1])}
    return {}


# ---- the check ----


def fault_of(schema: Schema, value: Any, where: str = "") -> str | None:
    """The first part of a value that violates a schema made here, and its place; None if it is
    valid."""
    if "anyOf" in schema:
        faults = [fault_of(one, value, where) for one in schema["anyOf"]]
        return None if None in faults else faults[0]
    choices = schema.get("enum")
    if choices is not None and (type(value), value) not in [(type(one), one) for one in choices]:
        return f"{where}: {value!r:.40} is none of {', '.join(map(repr, choices))}"
    kind = schema.get("type")
    if kind is not None and not _is_of(kind, value):
        return f"{where}: {value!r:.40} is no {_WORDS[kind]}"
    if kind == "array" and "items" in schema:
        inner = schema["items"]
        return _first(fault_of(inner, item, f"{where}/{i}") for i, item in enumerate(value))
    if kind == "object":
        return _fault_in_object(schema, value, where)
    return None


def _is_of(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "number":
        return isinstance(value, (int, float))
    if kind == "array":
        return isinstance(value, (list, tuple))
    return isinstance(value, next(one for one, name in _PLAIN.items() if name == kind))


def _fault_in_object(schema: Schema, value: Any, where: str) -> str | None:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            return f"{where}/{name}: is missing"
    more = schema.get("additionalProperties", True)
    for name, item in value.items():
        if not isinstance(name, str):
            return f"{where}: {name!r:.40} is no name"
        if name not in known and more is False:
            return f"{where}/{name}: no such parameter (there are: {', '.join(known) or 'none'})"
        inner = known.get(name, more if isinstance(more, dict) else {})
        fault = fault_of(inner, item, f"{where}/{name}")
        if fault:
            return fault
    return None


def _first(faults: typing.Iterable[str | None]) -> str | None:
    return next((fault for fault in faults if fault), None)
