# SPDX-License-Identifier: MIT
"""JSON Schema of a function's parameters, from its signature and annotations; and a check by it.

_tool_types.py has the schemas of types. Annotations without a form in JSON are not checked: the
schema does not restrict them.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import threading
import types
import typing
from collections.abc import Iterator
from typing import Any, Callable

from ._errors import UsageError
from ._tool_doc import parameters_of
from ._tool_types import MISSING, Schema, Schemas

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
    hints = hints_of(function)
    schemas = Schemas()
    described = parameters_of(inspect.getdoc(function))[1]
    for name, parameter in _signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            open_end = True
            continue
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
            raise UsageError(f"{_name(function)}: {parameter} cannot be passed by name", "tool")
        needed = parameter.default is parameter.empty
        default = MISSING if needed else parameter.default
        properties[name] = schemas.parameter(hints.get(name, Any), described.get(name), default)
        if needed:
            required.append(name)
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": open_end,
    }
    return {**schema, "$defs": schemas.definitions} if schemas.definitions else schema


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", function))


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise UsageError(f"{_name(function)}: its parameters cannot be determined", "tool") from None


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function as types, with the metadata of Annotated. One with names that
    do not exist, or exist only for type checkers, is left out."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:
        return dict(_hints_one_by_one(function))


def _hints_one_by_one(function: Any) -> Iterator[tuple[str, Any]]:
    """Also finds local names that the function itself uses."""
    try:
        local = inspect.getclosurevars(function).nonlocals
    except Exception:  # not a function of Python
        local = {}
    there = getattr(function, "__globals__", {})
    for name, hint in getattr(function, "__annotations__", {}).items():
        one: Any = types.SimpleNamespace(__annotations__={name: hint})
        try:
            yield from typing.get_type_hints(one, there, dict(local), True).items()
        except Exception:
            pass


# ---- the check ----


class TooComplex(Exception):
    """The check of arguments takes too many steps."""


class _Steps(threading.local):
    left: int | None = None


_steps = _Steps()


@contextlib.contextmanager
def bounded(value: Any) -> Iterator[None]:
    """Bound the steps of checks in this block, by the size of the arguments: alternatives within
    alternatives may take exponentially many."""
    _steps.left = 1000 + 50 * _size(value)
    try:
        yield
    finally:
        _steps.left = None


def _size(value: Any) -> int:
    if isinstance(value, typing.Mapping):
        return 1 + sum(map(_size, value.values()))
    return 1 + sum(map(_size, value)) if isinstance(value, (list, tuple)) else 1


def step() -> None:
    if _steps.left is not None:
        _steps.left -= 1
        if _steps.left < 0:
            raise TooComplex("are too complex for their schema")


def resolve(schema: Schema, root: Schema | None) -> Schema:
    """The schema that a reference stands for."""
    while "$ref" in schema and root is not None:
        schema = root.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
    return schema


def fault_of(
    schema: Schema, value: Any, where: str = "", root: Schema | None = None
) -> str | None:
    """The first part of a value that violates a schema made here, and its place; None if it is
    valid. `root` has the definitions to which the schema refers."""
    step()
    schema = resolve(schema, root)
    either = schema.get("anyOf") or schema.get("oneOf")
    if either:
        faults = [fault_of(one, value, where, root) for one in either]
        return None if None in faults else faults[0]
    choices = schema.get("enum")
    if choices is not None and (type(value), value) not in [(type(one), one) for one in choices]:
        return f"{where}: {value!r:.40} is none of {', '.join(map(repr, choices))}"
    kind = schema.get("type")
    if kind is not None and not _is_of(kind, value):
        return f"{where}: {value!r:.40} is no {_WORDS[kind]}"
    fault = _fault_of_constraints(schema, value, where)
    if fault:
        return fault
    if kind == "array":
        inner = schema.get("prefixItems") or [schema.get("items", {})] * len(value)
        pairs = enumerate(zip(inner, value))
        return _first(fault_of(one, item, f"{where}/{i}", root) for i, (one, item) in pairs)
    if kind == "object":
        return _fault_in_object(schema, value, where, root)
    return None


def _is_multiple(value: float, of: float) -> bool:
    if isinstance(value, int) and isinstance(of, int):
        return value % of == 0
    try:
        return abs(value / of - round(value / of)) < 1e-9
    except (OverflowError, ValueError):  # of infinity, NaN and huge numbers
        return False


def _matches(value: str, pattern: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:  # of another dialect
        return True


_NUMBERS = ("integer", "number")

# Keyword, the types that it is for, whether a value is valid, and words for one that is not.
_CONSTRAINTS: tuple[tuple[str, tuple[str, ...], Callable[[Any, Any], object], str], ...] = (
    ("minimum", _NUMBERS, lambda value, limit: value >= limit, "is less than {}"),
    ("maximum", _NUMBERS, lambda value, limit: value <= limit, "is more than {}"),
    ("exclusiveMinimum", _NUMBERS, lambda value, limit: value > limit, "is not more than {}"),
    ("exclusiveMaximum", _NUMBERS, lambda value, limit: value < limit, "is not less than {}"),
    ("multipleOf", _NUMBERS, _is_multiple, "is no multiple of {}"),
    ("minLength", ("string",), lambda text, n: len(text) >= n, "has fewer than {} characters"),
    ("maxLength", ("string",), lambda text, n: len(text) <= n, "has more than {} characters"),
    ("minItems", ("array",), lambda items, n: len(items) >= n, "has fewer than {} items"),
    ("maxItems", ("array",), lambda items, n: len(items) <= n, "has more than {} items"),
    ("pattern", ("string",), _matches, "does not match {}"),
)


def _fault_of_constraints(schema: Schema, value: Any, where: str) -> str | None:
    for keyword, kinds, is_valid, words in _CONSTRAINTS:
        if keyword in schema and schema.get("type") in kinds:
            limit = schema[keyword]
            if not is_valid(value, limit):
                shown = int(limit) if isinstance(limit, float) and limit.is_integer() else limit
                return f"{where}: {value!r:.40} {words.format(shown)}"
    return None


def _is_of(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "number":
        return isinstance(value, (int, float))
    if kind == "array":
        return isinstance(value, (list, tuple))
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()  # JSON has one kind of numbers
    return isinstance(value, next(one for one, name in _PLAIN.items() if name == kind))


def _fault_in_object(
    schema: Schema, value: Any, where: str, root: Schema | None
) -> str | None:
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
        fault = fault_of(inner, item, f"{where}/{name}", root)
        if fault:
            return fault
    return None


def _first(faults: typing.Iterable[str | None]) -> str | None:
    return next((fault for fault in faults if fault), None)
