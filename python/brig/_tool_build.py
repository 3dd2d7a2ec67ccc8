# SPDX-License-Identifier: MIT
"""Arguments of a tool, converted from JSON to the types of its annotations.

The arguments were checked by the schema. An Enum, a date or a set is made here. Classes of the
program are made in the guest, because their constructors are its code: here they become a Made
(_guest.py), which stands for the call of the constructor.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from ._decode import BadValue, hashable
from ._guest import Made
from ._tool_schema import fault_of, step
from ._tool_types import (
    LISTS,
    MAPPINGS,
    SETS,
    TEXTS,
    UNIONS,
    Schemas,
    bare,
    fields_of,
    is_alias,
    is_enum,
    is_model,
    is_record,
    json_of,
    names_of,
)


SCALARS = (int, float, set, frozenset, tuple)
"""Types that are made of their form in JSON by a call. A whole number may come as 1.0."""


class BadArgument(Exception):
    """An argument that cannot be converted, with its place."""


def needs_conversion(hint: Any) -> bool:
    """True if a value of this type may differ from its form in JSON."""
    if is_alias(hint):  # it may contain itself
        return True
    hint = bare(hint)
    if is_enum(hint) or is_record(hint):
        return True
    try:
        if hint in TEXTS or hint in SCALARS:
            return True
    except TypeError:  # not hashable
        return False
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return any(json_of(part) is not part for part in parts)
    if origin in SETS or origin is tuple:
        return True
    return origin in (*LISTS, *MAPPINGS, *UNIONS) and any(map(needs_conversion, parts))


def contains_made(value: Any) -> bool:
    """True if something has to be made in the guest."""
    if isinstance(value, dict):
        return any(map(contains_made, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(contains_made, value))
    return isinstance(value, Made)


def build(hint: Any, value: Any, where: str) -> Any:
    """A value converted to a type; BadArgument if it cannot be."""
    hint = bare(hint)
    if is_enum(hint):
        return names_of(list(hint)).get(value, value)
    if is_record(hint):
        return _record(hint, value, where)
    try:
        if hint in SCALARS:
            return hint(value)
        if hint in TEXTS:
            return _text(hint, value, where)
    except TypeError:  # not hashable
        return value
    except OverflowError:
        raise BadArgument(f"{where}: {value!r:.40} is no {hint.__name__}") from None
    return _generic(typing.get_origin(hint), typing.get_args(hint), value, where)


def _text(hint: Any, value: Any, where: str) -> Any:
    try:
        return TEXTS[hint][1](value)
    except (ValueError, ArithmeticError):
        raise BadArgument(f"{where}: {value!r:.40} is no {hint.__name__}") from None


def _generic(origin: Any, parts: tuple[Any, ...], value: Any, where: str) -> Any:
    if not parts:  # typing.List, for example
        return value
    if origin is typing.Literal:
        return next((part for part in parts if json_of(part) == value), value)
    if origin in UNIONS:
        return _union(parts, value, where)
    if origin in LISTS:
        return [build(parts[0], one, f"{where}/{i}") for i, one in enumerate(value)]
    if origin in SETS:
        kind = frozenset if origin is frozenset else set
        return kind(_keys([build(parts[0], one, f"{where}/{i}") for i, one in enumerate(value)], where))
    if origin is tuple:
        kinds = parts[:1] * len(value) if parts[1:] == (...,) else parts
        pairs = enumerate(zip(kinds, value))
        return tuple(build(kind, one, f"{where}/{i}") for i, (kind, one) in pairs)
    if origin in MAPPINGS:
        return {
            _key(parts[0], name, where): build(parts[1], one, f"{where}/{name}")
            for name, one in value.items()
        }
    return value


def _keys(values: list[Any], where: str) -> list[Any]:
    """A model may choose values whose hashes collide; Made has no hash of its own."""
    if any(isinstance(one, Made) for one in values):
        return values
    try:
        return hashable(values, True)
    except BadValue as error:
        raise BadArgument(f"{where}: {error}") from None


def _key(hint: Any, name: str, where: str) -> Any:
    """The key of a mapping. In JSON it is always a text."""
    hint = bare(hint)
    if is_enum(hint):
        members = {str(text): member for text, member in names_of(list(hint)).items()}
        if name in members:
            return members[name]
    elif hint not in (int, float) and hint not in TEXTS:
        return name
    else:
        try:
            return hint(name) if hint in (int, float) else TEXTS[hint][1](name)
        except (ValueError, ArithmeticError):
            pass
    raise BadArgument(f"{where}: {name!r:.40} is no {hint.__name__}")


def _union(parts: tuple[Any, ...], value: Any, where: str) -> Any:
    """By the first member whose schema the value follows and that can be made of it; one of the
    value's own type comes before others: 2.0 stays a float for int | float."""
    others = [part for part in parts if part is not type(None)]
    if value is None and len(others) < len(parts):
        return None
    if len(others) == 1:  # Optional: the value was checked already
        return build(others[0], value, where)
    fault: BadArgument | None = None
    step()
    for part in sorted(parts, key=lambda part: part is not type(value)):
        schemas = Schemas()
        schema = schemas.of(part)
        if fault_of(schema, value, where, {"$defs": schemas.definitions}) is None:
            try:
                return build(part, value, where)
            except BadArgument as error:
                fault = fault or error
    if fault is not None:
        raise fault
    return value


def _record(hint: Any, value: Mapping[str, Any], where: str) -> Any:
    if is_model(hint):
        is_new = hasattr(hint, "model_validate")
        return Made(hint, "model_validate" if is_new else "parse_obj", value)
    hints = fields_of(hint)
    built = {
        name: build(hints[name][0], one, f"{where}/{name}") if name in hints else one
        for name, one in value.items()
    }
    return built if typing.is_typeddict(hint) else Made(hint, None, built)
