# SPDX-License-Identifier: MIT
"""JSON Schema of Python types, as they stand in the annotations of a tool.

Known are the types of JSON, Annotated, Literal, Enum, Union, lists, sets, tuples, mappings,
dataclasses, TypedDict, NamedTuple, models of pydantic 1 and 2, and some types with a form as text.
Other annotations are not checked: their schema is empty. pydantic is used only if the program has
imported it already.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import pathlib
import sys
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ._tool_doc import parameters_of
from ._value import NotSendable, encode

Schema = dict[str, Any]

PLAIN: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    None: "null",
    list: "array",
    tuple: "array",
    set: "array",
    frozenset: "array",
    dict: "object",
}

LISTS = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection,
         collections.abc.MutableSequence)  # fmt: skip
SETS = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
UNIONS = (typing.Union, types.UnionType)
_NAMES = ("Required", "NotRequired", "ReadOnly", "Final")  # not all in every version of Python
WRAPPERS = tuple(getattr(typing, name) for name in _NAMES if hasattr(typing, name))

# Types with a form as text: the format in the schema, and the function that reads it.
TEXTS: dict[Any, tuple[str | None, Any]] = {
    datetime.datetime: ("date-time", datetime.datetime.fromisoformat),
    datetime.date: ("date", datetime.date.fromisoformat),
    datetime.time: ("time", datetime.time.fromisoformat),
    uuid.UUID: ("uuid", uuid.UUID),
    decimal.Decimal: (None, decimal.Decimal),
    pathlib.Path: (None, pathlib.Path),
    pathlib.PurePath: (None, pathlib.PurePath),
}

# Attributes of constraints (annotated_types, pydantic.Field) and their keywords in a schema.
_NUMBERS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_LENGTHS = {"min_length": "min", "max_length": "max", "min_items": "min", "max_items": "max"}


def is_model(hint: Any) -> bool:
    """True for a model of pydantic."""
    base = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    return base is not None and isinstance(hint, type) and issubclass(hint, base)


def is_named_tuple(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")


def is_record(hint: Any) -> bool:
    """True for a class whose instances are objects in JSON."""
    is_dataclass = isinstance(hint, type) and dataclasses.is_dataclass(hint)
    return is_dataclass or typing.is_typeddict(hint) or is_named_tuple(hint) or is_model(hint)


def is_enum(hint: Any) -> bool:
    return isinstance(hint, enum.EnumMeta)


def names_of(members: Any) -> dict[Any, enum.Enum]:
    """The members of an Enum by their form in JSON: their values, or their names if a value has no
    such form."""
    plain = all(type(one.value) in (str, int) or isinstance(one, (str, int)) for one in members)
    return {(_raw(one) if plain else one.name): one for one in members}


def _raw(member: enum.Enum) -> Any:
    """The value without its class: a str that is an Enum would be shown by its name."""
    value = member.value
    return str.__str__(value) if isinstance(value, str) else int(value)


def bare(hint: Any, wrappers: tuple[Any, ...] = (typing.Annotated, *WRAPPERS)) -> Any:
    """A type without Annotated, Required and the like, and the type that a NewType or a `type`
    statement names."""
    while True:
        if typing.get_origin(hint) in wrappers:
            hint = typing.get_args(hint)[0]
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif is_alias(hint) and typing.Annotated in wrappers:
            hint = hint.__value__
        else:
            return hint


def is_alias(hint: Any) -> bool:
    """True for the name of a `type` statement, which may contain itself."""
    return type(hint).__name__ == "TypeAliasType"


def fields_of(record: Any) -> dict[str, tuple[Any, bool, Any]]:
    """Type, whether it is required, and default (MISSING if there is none) of each field of a
    dataclass, a TypedDict or a NamedTuple."""
    try:
        hints = typing.get_type_hints(record, include_extras=True)
    except Exception:  # names that do not exist, or only for type checkers
        hints = {}
    if typing.is_typeddict(record):
        names = record.__annotations__
        return {n: (hints.get(n, Any), n in record.__required_keys__, MISSING) for n in names}
    if is_named_tuple(record):
        defaults = record._field_defaults
        return {
            n: (hints.get(n, Any), n not in defaults, defaults.get(n, MISSING))
            for n in record._fields
        }
    found = {}
    for field in dataclasses.fields(record):
        if field.init:
            required = field.default is MISSING and field.default_factory is MISSING
            found[field.name] = (hints.get(field.name, Any), required, field.default)
    return found


MISSING: Any = dataclasses.MISSING


def json_of(value: Any) -> Any:
    """A default as JSON; MISSING if it has no such form."""
    if isinstance(value, enum.Enum):
        return next((k for k, one in names_of(list(type(value))).items() if one is value), MISSING)
    try:
        return value if '"$"' not in encode(value) else MISSING
    except NotSendable:
        return MISSING


class Schemas:
    """Makes the schemas of one function. Classes that contain themselves are in `definitions`."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self._open: dict[Any, str] = {}  # classes that are being described, and their names
        self._repeated: set[Any] = set()

    def of(self, hint: Any) -> Schema:
        """The schema of a type."""
        hint = bare(hint, WRAPPERS)
        if typing.get_origin(hint) is typing.Annotated:
            kind, *more = typing.get_args(hint)
            return _constrained(self.of(kind), more)
        if is_alias(hint):
            return self._named(hint, lambda alias: self.of(alias.__value__))
        try:
            if hint in PLAIN:
                return {"type": PLAIN[hint]}
            if hint in TEXTS:
                form = TEXTS[hint][0]
                return {"type": "string", "format": form} if form else {"type": "string"}
        except TypeError:  # not hashable
            return {}
        if is_enum(hint):
            return _choices(list(names_of(list(hint))))
        if is_record(hint):
            return self._named(hint, self._model if is_model(hint) else self._object)
        return self._generic(typing.get_origin(hint), typing.get_args(hint))

    def _generic(self, origin: Any, parts: tuple[Any, ...]) -> Schema:
        if origin is typing.Literal:
            values = [json_of(part) for part in parts]
            plain = all(isinstance(one, (str, int, type(None))) for one in values)
            return {"enum": values} if plain else {}
        if origin in UNIONS:
            return {"anyOf": [self.of(part) for part in parts]}
        if not parts:  # typing.List, for example
            kinds = {"array": (*LISTS, *SETS, tuple), "object": MAPPINGS}
            return next(({"type": kind} for kind, all in kinds.items() if origin in all), {})
        if origin in LISTS:
            return {"type": "array", "items": self.of(parts[0])}
        if origin in SETS:
            return {"type": "array", "items": self.of(parts[0]), "uniqueItems": True}
        if origin is tuple:
            return self._tuple(parts)
        if origin in MAPPINGS:
            return {"type": "object", "additionalProperties": self.of(parts[1])}
        return {}

    def _tuple(self, parts: tuple[Any, ...]) -> Schema:
        if len(parts) == 2 and parts[1] is ...:
            return {"type": "array", "items": self.of(parts[0])}
        inner = [self.of(part) for part in parts]
        return {
            "type": "array",
            "prefixItems": inner,
            "minItems": len(inner),
            "maxItems": len(inner),
        }

    # ---- classes ----

    def _named(self, record: Any, make: Callable[[Any], Schema]) -> Schema:
        name = self._open.get(record)
        if name is not None:
            self._repeated.add(record)
            return {"$ref": f"#/$defs/{name}"}
        self._open[record] = name = self._free_name(record.__name__)
        schema = make(record)
        del self._open[record]
        if record not in self._repeated:
            return schema
        self.definitions[name] = schema
        return {"$ref": f"#/$defs/{name}"}

    def _free_name(self, name: str) -> str:
        while name in self.definitions or name in self._open.values():
            name += "_"
        return name

    def _object(self, record: Any) -> Schema:
        text, described = parameters_of(_doc_of(record))
        properties, required = {}, []
        for name, (hint, needed, default) in fields_of(record).items():
            properties[name] = self.parameter(hint, described.get(name), default)
            if needed:
                required.append(name)
        schema: Schema = {"type": "object", "properties": properties, "required": required}
        schema["additionalProperties"] = False
        return {**schema, "description": text} if text else schema

    def parameter(self, hint: Any, text: str | None, default: Any) -> Schema:
        """The schema of a parameter or field with its description and default."""
        schema = dict(self.of(hint))
        if text and ("description" not in schema or is_record(bare(hint))):
            schema["description"] = text
        shown = MISSING if default is MISSING else json_of(default)
        return schema if shown is MISSING else {**schema, "default": shown}

    def _model(self, model: Any) -> Schema:
        """The schema that pydantic makes, with its definitions among ours."""
        make = getattr(model, "model_json_schema", None) or model.schema
        try:
            schema: Schema = dict(make())  # pydantic 1 keeps its own
        except Exception:  # a field without a form in JSON
            return {"type": "object"}
        inner = {**schema.pop("$defs", {}), **schema.pop("definitions", {})}
        names = {f"#/{key}/{name}": self._name_for(name, one)
                 for name, one in inner.items() for key in ("$defs", "definitions")}  # fmt: skip
        for name, one in inner.items():
            self.definitions[names[f"#/$defs/{name}"]] = _tidy(one, names)
        return _tidy(schema, names)  # type: ignore[no-any-return]

    def _name_for(self, name: str, schema: Schema) -> str:
        """The name for a definition of pydantic: its own, unless another class has it."""
        same = _tidy(schema, {f"#/{key}/{name}": name for key in ("$defs", "definitions")})
        return name if self.definitions.get(name, same) == same else self._free_name(name)


def _constrained(schema: Schema, metadata: Iterable[Any]) -> Schema:
    """A schema with the descriptions and constraints of Annotated."""
    schema = dict(schema)
    for item in _flat(metadata):
        text = item if isinstance(item, str) else _text_of(item)
        if text:
            schema["description"] = text
        if not isinstance(item, (str, type)):
            _add_constraints(schema, item)
            if "anyOf" in schema:  # Optional, for example
                schema["anyOf"] = [dict(one) for one in schema["anyOf"]]
                for one in schema["anyOf"]:
                    _add_constraints(one, item)
    return schema


def _choices(values: list[Any]) -> Schema:
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return {"type": "string", "enum": values}
    return {"type": "integer", "enum": values} if kinds == {int} else {"enum": values}


def _flat(metadata: Iterable[Any]) -> Iterable[Any]:
    """Constraints one by one: those of pydantic 2 contain others, as annotated_types.Len does."""
    for item in metadata:
        yield item
        inner = getattr(item, "metadata", None)
        if isinstance(inner, (list, tuple)):
            yield from inner
        elif hasattr(item, "__is_annotated_types_grouped_metadata__"):
            yield from item


def _text_of(item: Any) -> str | None:
    for name in ("description", "documentation"):
        text = getattr(item, name, None)
        if isinstance(text, str) and not isinstance(item, type):
            return text
    return None


def _add_constraints(schema: Schema, item: Any) -> None:
    kind = schema.get("type")
    for name, word in _NUMBERS.items():
        value = getattr(item, name, None)
        if isinstance(value, (int, float)) and kind in ("integer", "number"):
            schema[word] = value
    for name, end in _LENGTHS.items():
        value = getattr(item, name, None)
        if isinstance(value, int) and kind in ("string", "array"):
            schema[f"{end}{'Length' if kind == 'string' else 'Items'}"] = value
    pattern = getattr(item, "pattern", None) or getattr(item, "regex", None)
    if isinstance(pattern, str) and kind == "string":
        schema["pattern"] = pattern


def _tidy(schema: Any, names: Mapping[str, str]) -> Any:
    """A schema of pydantic without titles, with references to our definitions, and closed objects
    unless it says otherwise. `allOf` with one member is that member."""
    if isinstance(schema, list):
        return [_tidy(one, names) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: Schema = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: _tidy(inner, names) for name, inner in value.items()}
        elif key == "$ref":
            made[key] = f"#/$defs/{names.get(value, value.rpartition('/')[2])}"
        elif key == "allOf" and len(value) == 1:
            made.update(_tidy(value[0], names))
        elif key in ("enum", "default", "const", "required"):
            made[key] = value
        elif key not in ("title", "discriminator"):
            made[key] = _tidy(value, names)
    if made.get("type") == "object" and "properties" in made:
        made.setdefault("additionalProperties", False)
        made.setdefault("required", [])
    return made


def _doc_of(record: Any) -> str:
    """The docstring of a class, unless it was made by dataclass or NamedTuple or is inherited."""
    text = vars(record).get("__doc__") or ""
    made = text.startswith(f"{record.__name__}(") and text.endswith(")")
    return "" if made or typing.is_typeddict(record) and text.startswith("dict(") else text
