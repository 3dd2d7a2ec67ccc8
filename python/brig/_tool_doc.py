# SPDX-License-Identifier: MIT
"""Descriptions of parameters in docstrings, in the styles of Google, NumPy and Sphinx."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

_SECTIONS = ("args", "arguments", "parameters", "params", "keyword args", "keyword arguments",
             "other parameters", "attributes")  # fmt: skip

# name: text; name (type): text
_GOOGLE = re.compile(
    r"(?P<names>\*{0,2}\w+)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:(?:\s+|$)(?P<text>.*)"
)
# name : type; name1, name2 : type; name
_NUMPY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
# :param type name: text
_SPHINX = re.compile(
    r"[:@](?:param|parameter|arg|argument|key|keyword|kwarg)\s+(?:[^:]*\s)?"
    r"(?P<names>\*{0,2}\w+)\s*:\s*(?P<text>.*)"
)
_SPHINX_TYPE = re.compile(r"[:@](?:type|vartype)\s+\w+\s*:.*")
_UNDERLINE = re.compile(r"-{3,}|={3,}")


def parameters_of(docstring: str | None) -> tuple[str, dict[str, str]]:
    """The docstring without the descriptions of parameters, and these by name."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    kept: list[str] = []
    found: dict[str, list[str]] = {}
    index = 0
    while index < len(lines):
        end = _section(lines, index, found) or _field(lines, index, found)
        if end:
            index = end
        else:
            kept.append(lines[index])
            index += 1
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return text, {name: _joined(words) for name, words in found.items()}


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _section(lines: list[str], start: int, found: dict[str, list[str]]) -> int | None:
    """The end of a section of parameters that starts here; None if none does."""
    head = lines[start].strip()
    title = head.rstrip(":").lower()
    if title not in _SECTIONS or _indent(lines[start]):
        return None
    if start + 1 < len(lines) and _UNDERLINE.fullmatch(lines[start + 1].strip()):
        end = _end_of_numpy(lines, start + 2)
        return end if _entries(lines[start + 2 : end], _NUMPY, found) else None
    if not head.endswith(":"):
        return None
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end])):
        end += 1
    return end if _entries(lines[start + 1 : end], _GOOGLE, found) else None


def _end_of_numpy(lines: list[str], start: int) -> int:
    """The next title with a line below it, or the end."""
    for index in range(start, len(lines) - 1):
        if lines[index].strip() and _UNDERLINE.fullmatch(lines[index + 1].strip()):
            return index
    return len(lines)


def _entries(lines: list[str], pattern: re.Pattern[str], found: dict[str, list[str]]) -> bool:
    """Read entries, whose further lines are indented; True if there is one."""
    first = next((_indent(line) for line in lines if line.strip()), 0)
    names: list[str] = []
    any_found = False
    for line in lines:
        entry = pattern.match(line.strip()) if line.strip() and _indent(line) == first else None
        if entry is None:
            for name in names:
                found[name].append(line)
            continue
        any_found = True
        names = list(_names(entry["names"]))
        for name in names:
            found[name] = [entry.groupdict().get("text") or ""]
    return any_found


def _names(text: str) -> Iterator[str]:
    for name in text.split(","):
        yield name.strip().lstrip("*")


def _field(lines: list[str], start: int, found: dict[str, list[str]]) -> int | None:
    """The end of a Sphinx field of a parameter that starts here; None if none does."""
    line = lines[start].strip()
    field = _SPHINX.match(line)
    if field is None and not _SPHINX_TYPE.match(line):
        return None
    end = start + 1
    while end < len(lines) and lines[end].strip() and _indent(lines[end]) > _indent(lines[start]):
        end += 1
    if field is not None:
        found[field["names"].lstrip("*")] = [field["text"], *lines[start + 1 : end]]
    return end
