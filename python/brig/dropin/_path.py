# SPDX-License-Identifier: MIT
"""The tool chains that the words of a shell command need, for a command that brig sees as /bin/sh.

For a command that it starts itself, the library decides by its rules (docs/SECURITY-MODEL.md, "Tool
chains of the caller"). It does not read shell scripts. Here each word that the caller's PATH finds
outside of the system directories brings parts of its prefix along: the directory of PATH and those
beside it, but no files in which tools keep passwords, and never a home. In a home, only a prefix
that is surely a tool chain has more than its bin.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator

from .._interpreter import SYSTEM, is_too_much, is_within
from ._python import Entry, names_of_parts, parts_of

_WORD = re.compile(r"[A-Za-z0-9_.+-]+")
_WORDS_MAX = 64


def _is_mine(directory: str) -> bool:
    """True for a directory without a symlink on its path that nobody else can write to."""
    if os.path.realpath(directory) != directory:
        return False
    while directory != "/":
        status = os.stat(directory)
        others = status.st_mode & 0o002 and not status.st_mode & 0o1000
        if status.st_uid not in (0, os.geteuid()) or others:
            return False
        directory = os.path.dirname(directory)
    return True


def _found(command: str, path: str) -> Iterator[tuple[str, str]]:
    """The elements of PATH outside of the system that have a word of the command, with the word."""
    words = list(dict.fromkeys(_WORD.findall(command)))[:_WORDS_MAX]
    elements = [element for element in path.split(os.pathsep) if os.path.isabs(element)]
    for word in words:
        for element in elements:
            if os.access(os.path.join(element, word), os.X_OK):
                if not any(is_within(element, system) for system in SYSTEM):
                    yield element, word
                break


def _behind_shim(element: str, word: str) -> str:
    """The directory of a program behind a shim of pyenv: in the caller's own version, or else in
    the one that pyenv's variable or global file selects; empty if it is the system's."""
    root = os.path.dirname(element)
    versions = os.path.join(root, "versions")
    places = [os.path.dirname(sys.executable)]
    selected = os.environ.get("PYENV_VERSION") or ""
    if not selected:
        with contextlib.suppress(OSError), open(f"{root}/version", encoding="utf-8") as file:
            selected = file.read(256)
    places += [os.path.join(versions, name, "bin") for name in re.split(r"[:\s]+", selected) if name]
    for place in places:
        plain = is_within(place, versions) and ".." not in place
        if plain and os.access(os.path.join(place, word), os.X_OK):
            return place
    return ""


def _rustup() -> tuple[list[Entry], dict[str, str]]:
    """The proxies in ~/.cargo/bin need the tool chains of rustup."""
    home = os.path.realpath(os.environ.get("RUSTUP_HOME") or os.path.expanduser("~/.rustup"))
    names = ("toolchains", "settings.toml", "update-hashes")
    return parts_of(home, names), {"RUSTUP_HOME": home}


def _replaced(path: str, element: str, place: str) -> str:
    elements = [place if one == element else one for one in path.split(os.pathsep)]
    return os.pathsep.join(one for one in elements if one)


def _beside(element: str) -> list[Entry]:
    """An element of PATH with the parts of its prefix."""
    prefix, name = os.path.split(element)
    if name != "bin" or is_too_much(prefix):
        return [(element, element)]
    return parts_of(prefix, names_of_parts(prefix))


def toolchains_of(command: str, env: dict[str, str]) -> tuple[list[Entry], dict[str, str]]:
    """Entries for the keyword ro, and variables, PATH among them, that the words of a command
    need."""
    entries: list[Entry] = []
    more: dict[str, str] = {}
    path = env.get("PATH", "")
    for element, word in _found(command, path):
        if os.path.basename(element) == "shims":
            place = _behind_shim(element, word)
            path = _replaced(path, element, place)
            element = place
        if element and _is_mine(element):
            entries += _beside(element)
            if os.path.basename(os.path.dirname(element)) == ".cargo":
                shown, more = _rustup()
                entries += shown
    if path != env.get("PATH", ""):
        more["PATH"] = path
    return list(dict.fromkeys(entries)), more
