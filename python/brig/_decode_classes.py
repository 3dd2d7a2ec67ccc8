# SPDX-License-Identifier: MIT
"""Instances of classes of the program from a guest. Called by _decode.py.

A guest names a class by its module and name. It is looked up among the classes that the caller has
passed (Template(types=[...])) and those in modules that are already loaded; nothing is imported, and
no __getattr__ of a module runs. An instance of a dataclass, an enumeration or a named tuple is made
without running its constructor, whose effects the guest could use. A pydantic model is validated by
the rules of its class, as it would be from JSON.
"""

from __future__ import annotations

import enum
import sys
import types
from typing import Any, Callable

from ._decode import BadValue, Decoder, Reader, UnknownType

NAME_MAX = 500
FLAGS_MAX = 4096
FIX = "import its module in the caller, or pass the class: Template(types=[{}])"
FIX_MODEL = "pass the class, Template(types=[{}]), whose validators then run on the guest's values"
NOT_OURS = (__package__ or "brig").partition(".")[0]


def _find(decoder: Decoder, named: Any) -> type:
    """The class that a guest names, if the caller has it."""
    if not isinstance(named, list) or len(named) != 2:
        raise BadValue("a class is not a module and a name")
    if not all(isinstance(text, str) and 0 < len(text) <= NAME_MAX for text in named):
        raise BadValue("a class is not a module and a name")
    module, name = named
    for kind in decoder.types:
        if [kind.__module__, kind.__qualname__] == named:
            return kind
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        inside = vars(found) if isinstance(found, (types.ModuleType, type)) else {}
        found = inside.get(part)
    own = module.partition(".")[0] == NOT_OURS  # a caller may take one of brig's for brig's word
    if own or not isinstance(found, type) or [found.__module__, found.__qualname__] != named:
        whole = name if module in ("builtins", "__main__") else f"{module}.{name}"
        fix = FIX.format(name.rpartition(".")[2])
        raise UnknownType(whole, f"the class {whole} of the result is not known: {fix}")
    return found


def _check_ends_quietly(kind: type) -> None:
    """Its __del__ would act on attributes that a guest chose."""
    if hasattr(kind, "__del__"):
        text = "has a __del__, so none is made from a guest's data; return its values instead"
        raise UnknownType(kind.__qualname__, f"{kind.__qualname__} {text}")


# ---- enumerations and tuples ----


def _read_enum(decoder: Decoder, named: Any, name: Any, depth: int) -> Any:
    kind: Any = _find(decoder, named)
    if not isinstance(kind, enum.EnumMeta) or not isinstance(name, str):
        raise BadValue("a member of an enumeration that is none")
    if name not in kind._member_map_:
        raise BadValue(f"{kind.__qualname__} has no member {name[:40]!r}")
    return kind._member_map_[name]


def _read_flag(decoder: Decoder, named: Any, value: Any, depth: int) -> Any:
    kind: Any = _find(decoder, named)
    number = decoder.expect(value, int, depth)
    if not isinstance(kind, enum.EnumMeta) or not issubclass(kind, enum.Flag):
        raise BadValue("a flag that is none")
    if getattr(kind._missing_, "__func__", None) is not enum.Flag._missing_.__func__:  # type: ignore[attr-defined]
        raise BadValue(f"{kind.__qualname__} combines its flags by code of its own")
    kept = kind._value2member_map_  # each combination, for ever
    if number not in kept and len(kept) > FLAGS_MAX:
        raise BadValue(f"{kind.__qualname__} has too many combinations of its flags")
    try:
        made = kind(number)
    except ValueError as error:
        raise BadValue(f"no {kind.__qualname__}: {error}") from None
    if type(made) is not kind or made._value_ != number:
        raise BadValue(f"{kind.__qualname__} has no such flags")
    return made


def _read_named_tuple(decoder: Decoder, named: Any, items: Any, depth: int) -> Any:
    kind: Any = _find(decoder, named)
    fields = vars(kind).get("_fields")
    if kind.__bases__ != (tuple,) or not isinstance(fields, tuple):
        raise BadValue(f"{kind.__qualname__} is not a named tuple")
    _check_ends_quietly(kind)
    values = decoder.items(items, depth)
    if len(values) != len(fields):
        raise BadValue(f"{kind.__qualname__} has {len(fields)} fields")
    return tuple.__new__(kind, values)


# ---- dataclasses ----


def _read_dataclass(decoder: Decoder, named: Any, fields: Any, depth: int) -> Any:
    kind: Any = _find(decoder, named)
    known = vars(kind).get("__dataclass_fields__")
    if not isinstance(known, dict):
        raise BadValue(f"{kind.__qualname__} is not a dataclass")
    _check_ends_quietly(kind)
    values = _fields(decoder, fields, depth)
    names = {name for name, field in known.items() if field._field_type.name == "_FIELD"}
    if set(values) != names:
        raise BadValue(f"{kind.__qualname__} has the fields {', '.join(sorted(names))[:200]}")
    for name in names:
        _check_plain_attribute(kind, name)
    try:
        made = object.__new__(kind)
        for name, value in values.items():
            object.__setattr__(made, name, value)
    except (TypeError, AttributeError) as error:
        raise BadValue(f"no {kind.__qualname__}: {error}") from None
    return made


def _check_plain_attribute(kind: type, name: str) -> None:
    """Setting the attribute must not run code of the class."""
    found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    if hasattr(type(found), "__set__") and not isinstance(found, types.MemberDescriptorType):
        raise BadValue(f"{kind.__qualname__}.{name} is set by code")


def _fields(decoder: Decoder, fields: Any, depth: int) -> dict[str, Any]:
    values = decoder.expect(fields, dict, depth)
    if not all(type(name) is str for name in values):
        raise BadValue("fields without names")
    return values  # type: ignore[no-any-return]


# ---- pydantic models ----


def _read_model(
    decoder: Decoder,
    named: Any,
    version: Any,
    fields: Any,
    extra: Any,
    private: Any,
    chosen: Any,
    depth: int,
) -> Any:
    kind: Any = _find(decoder, named)
    base = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    if base is None or not issubclass(kind, base):
        raise BadValue(f"{kind.__qualname__} is not a model")
    _check_ends_quietly(kind)
    if kind not in decoder.types:
        # Validators run on the guest's values, and some fields import modules by name.
        fix = FIX_MODEL.format(kind.__qualname__)
        raise UnknownType(kind.__qualname__, f"{kind.__qualname__} is a pydantic model: {fix}")
    values, hidden = (_fields(decoder, part, depth) for part in (fields, private))
    if not isinstance(chosen, list) or not all(type(name) is str for name in chosen):
        raise BadValue("a model without the names of its fields")
    if version != (2 if hasattr(base, "model_fields") else 1):
        raise BadValue("a model of another version of pydantic")
    more = None if extra is None else _fields(decoder, extra, depth)
    unknown = set(hidden) - set(kind.__private_attributes__)
    unknown |= set(chosen) - set(values) - set(more or ())
    known = kind.model_fields if version == 2 else kind.__fields__
    if version == 2 or not more:  # version 1 has further members among the fields
        unknown |= set(known) ^ set(values) if version == 2 else set(known) - set(values)
    if unknown:
        raise BadValue(f"{kind.__qualname__} has no {min(unknown)[:40]!r}")
    make: Callable[..., Any] = _make_model_2 if version == 2 else _make_model_1
    try:
        return make(kind, values, more, hidden, set(chosen))
    except BadValue:
        raise
    except Exception as error:  # of a validator
        raise BadValue(f"no {kind.__qualname__}: {error!s:.500}") from None


def _make_model_1(
    kind: Any, values: dict[str, Any], extra: Any, private: dict[str, Any], chosen: set[str]
) -> Any:
    known = kind.__fields__
    given = {known[name].alias if name in known else name: value for name, value in values.items()}
    checked, _, error = sys.modules["pydantic"].validate_model(kind, given)
    if error is not None:
        raise BadValue(f"no {kind.__qualname__}: {error!s:.500}")
    _check_unchanged(kind, values, checked)
    made = object.__new__(kind)
    object.__setattr__(made, "__dict__", checked)
    object.__setattr__(made, "__fields_set__", chosen)
    made._init_private_attributes()
    for name, value in private.items():
        object.__setattr__(made, name, value)
    return made


def _make_model_2(
    kind: Any, values: dict[str, Any], extra: Any, private: dict[str, Any], chosen: set[str]
) -> Any:
    given = dict(extra or {})
    for name, value in values.items():
        field = kind.model_fields.get(name)
        alias = getattr(field, "validation_alias", None) or getattr(field, "alias", None) or name
        if not isinstance(alias, str):
            raise BadValue(f"{kind.__qualname__}.{name} has more than one alias")
        given[alias] = value
    made = kind.model_validate(given)
    _check_unchanged(kind, values, vars(made))
    _check_unchanged(kind, extra or {}, made.__pydantic_extra__ or {})
    object.__setattr__(made, "__pydantic_fields_set__", chosen)
    if private:
        made.__pydantic_private__.update(private)
    return made


def _check_unchanged(kind: Any, sent: dict[str, Any], checked: dict[str, Any]) -> None:
    """A validator that changes its value would change it twice: in the guest, and here."""
    for name in {*sent, *checked}:
        a, b = (there.get(name, NotImplemented) for there in (sent, checked))
        if type(a) is not type(b) or not (a is b or bool(a == b) or bool(a != a and b != b)):
            raise BadValue(f"{kind.__qualname__}.{name:.40} is changed by its own validation")


READERS: dict[str, tuple[tuple[str, ...], Reader]] = {
    "enum": (("class", "name"), _read_enum),
    "flag": (("class", "value"), _read_flag),
    "named_tuple": (("class", "items"), _read_named_tuple),
    "dataclass": (("class", "fields"), _read_dataclass),
    "model": (("class", "version", "fields", "extra", "private", "set"), _read_model),
}
