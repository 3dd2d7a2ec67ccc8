# SPDX-License-Identifier: MIT
"""Classes of the originals: their own, where the original is installed, or ones of the same shape.

The originals' models are pydantic's. Those made here have its methods that callers use, and check
the fields when they are made; they need no pydantic.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, TypeVar

Self = TypeVar("Self", bound="Model")


def find_original(modules: tuple[str, ...], name: str) -> Any:
    """An attribute of the first of these modules that is installed and has it; or None."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):  # also while the original itself is being imported
            continue
    return None


class ValidationError(ValueError):
    """A field has a value that is not of its type."""


class Model:
    """A base for dataclasses. `_fields` maps each checked field to its type; None is allowed for
    fields in `_optional`."""

    _fields: ClassVar[Mapping[str, type]] = {}
    _optional: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        for name, kind in self._fields.items():
            value = getattr(self, name)
            if value is None and name in self._optional:
                continue
            object.__setattr__(self, name, _checked(type(self).__name__, name, kind, value))

    def model_dump(
        self,
        *,
        mode: str = "python",
        include: Any = None,
        exclude: Any = None,
        exclude_none: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        """The fields as a dict; with mode="json" as values that JSON has."""
        names = [field.name for field in dataclasses.fields(self)]
        dump = {
            name: getattr(self, name)
            for name in names
            if (include is None or name in include) and name not in (exclude or ())
        }
        if exclude_none:
            dump = {name: value for name, value in dump.items() if value is not None}
        if mode == "json":
            dump = json.loads(json.dumps(dump, default=_plain))
        return dump

    def model_dump_json(self, **options: Any) -> str:
        """The fields as JSON text."""
        return json.dumps(self.model_dump(mode="json", **options))

    def model_copy(self: Self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **dict(update or {}))

    @classmethod
    def model_validate(cls: type[Self], value: Any) -> Self:
        """An object of this class, from one or from a mapping; unknown names are ignored."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise ValidationError(f"{cls.__name__}: {type(value).__name__} is not a mapping")
        names = {field.name for field in dataclasses.fields(cls)}
        try:
            return cls(**{name: item for name, item in value.items() if name in names})
        except TypeError as error:
            raise ValidationError(f"{cls.__name__}: {error}") from error

    @classmethod
    def model_validate_json(cls: type[Self], text: str | bytes) -> Self:
        """The same from JSON text."""
        return cls.model_validate(json.loads(text))


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _checked(model: str, name: str, kind: type, value: Any) -> Any:
    """The value as this type. As pydantic does, a text that means it is converted."""
    try:
        if kind is bool:
            return _bool(value)
        if kind is datetime:
            return value if isinstance(value, datetime) else datetime.fromisoformat(value)
        if kind is float or kind is int:
            return _number(kind, value)
    except (TypeError, ValueError, OverflowError):
        pass
    else:
        if isinstance(value, kind):
            return value
    raise ValidationError(f"{model}.{name}: {value!r} is not of type {kind.__name__}")


def _bool(value: Any) -> bool:
    known = {True: True, False: False, "true": True, "false": False, "1": True, "0": False}
    key = value.lower() if isinstance(value, str) else value
    if key not in known:
        raise ValueError(value)
    return known[key]


def _number(kind: type, value: Any) -> Any:
    """An int stays an int; a field of type float accepts both."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError(value)
    number = float(value) if not isinstance(value, int) else value
    if kind is int and number != int(number):
        raise ValueError(value)
    return int(number) if kind is int or isinstance(value, int) else number
