# SPDX-License-Identifier: MIT
"""The settings of a run, from the library's table, and their values as text.

The command line and the JSON spec use the same table, so a keyword of brig.run() cannot differ from
the option of the same name.
"""

from __future__ import annotations

import datetime
import difflib
import os
import re
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
    second: str | None  # for a list whose entries have two parts: the name of the second


def _split(choices: str | None) -> tuple[str, ...]:
    return tuple(choices.split("|")) if choices else ()


KEYS: Mapping[str, Key] = {
    name: Key(name, kind, argument, default, _split(choices), text, more, limit, second)
    for name, kind, argument, default, choices, text, more, limit, second in _brig.keys()
}

# Keywords of a run with another name in the table.
RENAMED = {"cwd": "workdir"}


def check_names(names: Iterable[str], also: Iterable[str] = ()) -> None:
    """Raise TypeError, as Python does, for an unknown keyword; the text suggests similar ones."""
    for name in names:
        if name in KEYS:
            continue
        close = difflib.get_close_matches(name, [*KEYS, *RENAMED, *also], 3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise TypeError(f"{name!r} is no setting of a run{hint}")


def settings_of(values: Mapping[str, object]) -> list[_brig.Setting]:
    """Keywords as pairs of name and text; None means not set. Entries with two parts become
    triples."""
    settings: list[_brig.Setting] = []
    for name, value in values.items():
        if value is None:
            continue
        key = KEYS[RENAMED.get(name, name)]
        if key.second:
            settings += [_entry(key, name, entry) for entry in entries_of(value, name)]
        else:
            settings += [(key.name.encode(), text) for text in _texts(key, name, value)]
    return settings


def entries_of(value: object, name: str = "entries") -> list[object]:
    """The entries of a list keyword, which may be a single value, a list, or a mapping of pairs."""
    if value is None:
        return []
    if isinstance(value, (str, bytes, os.PathLike)):
        return [value]
    if isinstance(value, Mapping):
        return list(value.items())
    if not isinstance(value, Iterable):
        raise TypeError(f"{name}: {type(value).__name__} is neither a str nor a list of them")
    return list(value)


def _entry(key: Key, name: str, entry: object) -> _brig.Setting:
    """A text is parsed as on the command line; in a pair a colon has no meaning."""
    if not isinstance(entry, tuple):
        return (key.name.encode(), _plain(name, entry))
    if len(entry) != 2:
        raise TypeError(f"{name}: a tuple has to be a path and its {key.second}, but has {len(entry)} items")
    path, second = entry
    raw = _plain(name, path)
    if second is None:
        return (key.name.encode(), raw, None)
    if key.second == "size" and isinstance(second, int) and not isinstance(second, bool):
        second = str(second)
    return (key.name.encode(), raw, _plain(name, second))


def encode(name: str, value: str | bytes) -> bytes:
    """Encode a text for the system; NUL is refused."""
    raw = os.fsencode(value)
    if b"\0" in raw:
        raise UsageError(f"{name}: contains a NUL byte", "spec")
    return raw


def _texts(key: Key, name: str, value: object) -> list[bytes]:
    if key.type == "map":
        return _map_texts(key, name, value)
    if key.type == "list":
        if isinstance(value, Mapping):
            raise TypeError(f"{name}: {type(value).__name__} is neither a str nor a list of them")
        return [_plain(name, item) for item in entries_of(value, name)]
    if key.type in ("path", "text"):
        return [_plain(name, value)]
    return [encode(name, _scalar(key, name, value))]


def _plain(name: str, value: object) -> bytes:
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name}: {type(value).__name__} is neither a str nor a path")
    return encode(name, os.fspath(value))


def _map_texts(key: Key, name: str, value: object) -> list[bytes]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: {type(value).__name__} is not a mapping")
    texts = []
    for entry, text in value.items():
        raw = _plain(name, entry)
        if not raw or b"=" in raw:
            raise UsageError(f"{name}: {entry!r} is not a name", "spec")
        if text is None and key.name == "env":
            texts.append(raw)  # the caller's own value
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
    elif isinstance(value, float) and key.type == "size" and value % 1:
        raise UsageError(f'{name}: {value} is no number of bytes; "{value}G" is one of GiB', "spec")
    elif isinstance(value, float) and key.type != "choice":
        return _decimal(name, value, 9)
    raise TypeError(f"{name}: {type(value).__name__} is not a {key.type}")


def _decimal(name: str, value: float, places: int) -> str:
    """Format a number without an exponent, which the library does not accept."""
    if value != value or value in (float("inf"), float("-inf")):
        raise UsageError(f'{name}: {value} is not a number; for no limit use "unlimited"', "spec")
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def in_keywords(hint: str) -> str:
    """Rewrite the command-line options in a message of the library as keywords of this package."""
    hint = re.sub(r"--(ro|rw) (/\S+|PATH)", r'\1=["\2"]', hint)
    hint = re.sub(r"--([a-z][a-z-]*) (kill|truncate|fail|host|auto|off|on)\b", _keyword, hint)
    hint = re.sub(r"^--([a-z-]+): ", lambda key: key.group(1).replace("-", "_") + ": ", hint)
    return re.sub(r"--([a-z][a-z-]*)", _keyword, hint)


def _keyword(option: re.Match[str]) -> str:
    name = option.group(1).replace("-", "_")
    if name not in KEYS:
        return option.group(0)
    value = option.group(2) if option.re.groups > 1 else None
    return f'{name}="{value}"' if value else f"{name}="
