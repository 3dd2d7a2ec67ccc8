"""The settings of a run, from the library's own table, and their values as text.

The table is the one behind the command line and the JSON spec, so a keyword of brig.run() cannot
differ from the option of the same name.
"""

from __future__ import annotations

import datetime
import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from . import _brig
from ._errors import UsageError


@dataclass(frozen=True)
class Key:
    """One setting. `type` is size, duration, count, cpus, choice, path, text, list or map."""

    name: str
    type: str
    argument: str | None
    default: str | None
    choices: tuple[str, ...]
    help: str
    detail: str | None
    limit: bool


def _split(choices: str | None) -> tuple[str, ...]:
    return tuple(choices.split("|")) if choices else ()


KEYS: Mapping[str, Key] = {
    name: Key(name, kind, argument, default, _split(choices), text, more, limit)
    for name, kind, argument, default, choices, text, more, limit in _brig.keys()
}

# What the keyword arguments of a run are called in the table, where that differs.
RENAMED = {"cwd": "workdir"}


def check_names(names: Iterable[str], also: Iterable[str] = ()) -> None:
    """Raise TypeError, as Python does, for a keyword that is none; it names the close ones."""
    for name in names:
        if name in KEYS:
            continue
        close = difflib.get_close_matches(name, [*KEYS, *RENAMED, *also], 3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise TypeError(f"{name!r} is no setting of a run{hint}")


def settings_of(values: Mapping[str, object]) -> list[tuple[bytes, bytes]]:
    """Keywords as pairs of name and text; None means: not set."""
    settings: list[tuple[bytes, bytes]] = []
    for name, value in values.items():
        if value is not None:
            key = KEYS[RENAMED.get(name, name)]
            settings += [(key.name.encode(), text) for text in _texts(key, name, value)]
    return settings


def encode(name: str, value: str | bytes) -> bytes:
    """A text for the system, which takes no NUL."""
    raw = os.fsencode(value)
    if b"\0" in raw:
        raise UsageError(f"{name}: holds a NUL byte", "spec")
    return raw


def _texts(key: Key, name: str, value: object) -> list[bytes]:
    if key.type == "map":
        return _map_texts(key, name, value)
    if key.type == "list":
        single = isinstance(value, (str, bytes, os.PathLike))
        if not single and not isinstance(value, Iterable):
            raise TypeError(f"{name}: {type(value).__name__} is neither a str nor a list of them")
        return [_plain(name, item) for item in ([value] if single else value)]  # type: ignore[attr-defined]
    if key.type in ("path", "text"):
        return [_plain(name, value)]
    return [encode(name, _scalar(key, name, value))]


def _plain(name: str, value: object) -> bytes:
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name}: {type(value).__name__} is neither a str nor a path")
    return encode(name, os.fspath(value))


def _map_texts(key: Key, name: str, value: object) -> list[bytes]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: {type(value).__name__} is no mapping")
    texts = []
    for entry, text in value.items():
        raw = _plain(name, entry)
        if not raw or b"=" in raw:
            raise UsageError(f"{name}: {entry!r} is not a name", "spec")
        if text is None and key.name == "env":
            texts.append(raw)  # the caller's own
        elif isinstance(text, (int, float)) and not isinstance(text, bool):
            texts.append(raw + b"=" + str(text).encode())
        else:
            texts.append(raw + b"=" + _plain(f"{name}[{entry!r}]", text))
    return texts


def _scalar(key: Key, name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        if set(key.choices) == {"on", "off"}:
            return "on" if value else "off"
    elif isinstance(value, datetime.timedelta) and key.type == "duration":
        return _decimal(name, value / datetime.timedelta(microseconds=1), 0) + "us"
    elif isinstance(value, int) and key.type != "choice":
        return str(value)
    elif isinstance(value, float) and key.type != "choice":
        return _decimal(name, value, 9)
    raise TypeError(f"{name}: {type(value).__name__} is not a {key.type}")


def _decimal(name: str, value: float, places: int) -> str:
    """A number without an exponent, which the table's reader does not take."""
    if value != value or value in (float("inf"), float("-inf")):
        raise UsageError(f'{name}: {value} is not a number; "unlimited" is a word', "spec")
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def describe_keys() -> str:
    """The table for a docstring."""
    lines = []
    for key in KEYS.values():
        shown = "|".join(key.choices) if key.type == "choice" else key.type
        default = f", default {key.default}" if key.default else ""
        lines.append(f"    {key.name} ({shown}{default}): {key.help}")
    return "\n".join(lines)
